// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ends of a link in this process, and programs that are not part of the link.
#include <gtest/gtest.h>
#include <sys/epoll.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "core/error.hpp"
#include "tests/transport/both.hpp"
#include "tests/transport/descriptors.hpp"
#include "transport/tcp/endpoint.hpp"

namespace tremula::transport {

using core::Bytes, core::BytesView;
using testing_only::listening_sockets, testing_only::open_files;

/// A producer and its first consumer. The producer listens until all consumers have connected.
struct TcpPair {
  explicit TcpPair(std::size_t absent = 0)
      : producer(std::make_unique<tcp::Endpoint>(Side::producer, tcp::HostPort("127.0.0.1", 0))),
        consumer(std::make_unique<tcp::Endpoint>(Side::consumer, tcp::HostPort("127.0.0.1", 0))) {
    std::vector<Address> consumers{consumer->address()};
    for (std::size_t i = 0; i < absent; ++i)
      consumers.push_back(others
                              .emplace_back(std::make_unique<tcp::Endpoint>(
                                  Side::consumer, tcp::HostPort("127.0.0.1", 0)))
                              ->address());
    producer->connect(consumers, Deadline::after(60));
    for (auto* end : ends())
      end->connect(std::vector<Address>{producer->address()}, Deadline::after(60));
  }
  tcp::RankAddress producer_address() const {
    return tcp::RankAddress::decode(producer->address(), Rank{0});
  }
  std::vector<tcp::Endpoint*> ends() const {
    std::vector<tcp::Endpoint*> all{consumer.get()};
    for (const auto& other : others) all.push_back(other.get());
    return all;
  }
  void finish(Request& one, Request& other) {
    const auto deadline = Deadline::after(30);
    while (!testing_only::both_complete(one, other))
      if (deadline.expired()) throw core::Error(core::Errc::timed_out, "no message");
  }
  /// Moves one message from the producer to the consumer.
  void move(BytesView out, Tag tag, std::span<std::byte> in) {
    Request receive = consumer->receive(Rank{0}, tag, in), send = producer->send(Rank{0}, tag, out);
    finish(send, receive);
    EXPECT_EQ(receive.bytes(), out.size());
    EXPECT_TRUE(std::ranges::equal(out, in.first(out.size())));
  }
  void move(BytesView out, Tag tag) {
    Bytes in(out.size());
    move(out, tag, in);
  }

  /// Moves one message from the producer to the first of the others.
  void move_late(BytesView out) {
    Bytes in(out.size());
    Request receive = others.front()->receive(Rank{0}, 1, in),
            send = producer->send(Rank{1}, 1, out);
    finish(send, receive);
    EXPECT_TRUE(std::ranges::equal(out, in));
  }

  std::unique_ptr<tcp::Endpoint> producer, consumer;
  std::vector<std::unique_ptr<tcp::Endpoint>> others;
};

inline Bytes bytes_of(std::size_t count, unsigned char value) {
  return Bytes(count, std::byte{value});
}

/// Checks that small and large messages can be exchanged.
inline void expect_exchange(TcpPair& pair) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{20000}, std::size_t{2} << 20})
    pair.move(bytes_of(bytes, 7), 3);
}

/// An attempt to connect to a listener, continued until it is answered.
struct Attempt {
  Attempt(const tcp::RankAddress& own, const tcp::RankAddress& peer, Endpoint& owner)
      : connection(own, peer, tcp::begin_connecting(own.host_port, peer.host_port), epoll.get(),
                   0) {
    const auto deadline = Deadline::after(60);
    while ((state = connection.move()) == tcp::ConnectionAttempt::State::under_way &&
           !deadline.expired())
      owner.progress();
  }
  tcp::Descriptor epoll{epoll_create1(EPOLL_CLOEXEC)};
  tcp::ConnectionAttempt connection;
  tcp::ConnectionAttempt::State state{};
};
inline void expect_no_port(const tcp::RankAddress& peer, Endpoint& owner) {
  EXPECT_EQ(Attempt({.host_port = tcp::HostPort("127.0.0.1", 0)}, peer, owner).connection.error(),
            ECONNREFUSED);
}

}  // namespace tremula::transport
