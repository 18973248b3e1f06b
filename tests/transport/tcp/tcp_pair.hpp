// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ends of a link in this process, and programs that are none.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <vector>

#include "core/error.hpp"
#include "transport/tcp/endpoint.hpp"

namespace tremula::transport {

using core::Bytes, core::BytesView;

inline std::size_t open_files() {
  return static_cast<std::size_t>(std::distance(
      std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator()));
}

/// A producer and its first consumer. The door of the producer stays open as long as there are consumers
/// that have not come.
struct TcpPair {
  explicit TcpPair(std::size_t absent = 0)
      : producer(std::make_unique<tcp::TcpEndpoint>(Side::producer, tcp::Place("127.0.0.1", 0))),
        consumer(std::make_unique<tcp::TcpEndpoint>(Side::consumer, tcp::Place("127.0.0.1", 0))) {
    std::vector<Address> consumers{consumer->address()};
    for (std::size_t i = 0; i < absent; ++i)
      consumers.push_back(others
                              .emplace_back(std::make_unique<tcp::TcpEndpoint>(
                                  Side::consumer, tcp::Place("127.0.0.1", 0)))
                              ->address());
    producer->connect(consumers, Deadline::after(10));
    for (auto* end : ends())
      end->connect(std::vector<Address>{producer->address()}, Deadline::after(10));
  }
  tcp::Invitation door() const { return tcp::Invitation::decode(producer->address(), 0); }
  std::vector<tcp::TcpEndpoint*> ends() const {
    std::vector<tcp::TcpEndpoint*> all{consumer.get()};
    for (const auto& other : others) all.push_back(other.get());
    return all;
  }
  void finish(Request& one, Request& other) {
    const auto deadline = Deadline::after(30);
    while (!(one.test() & other.test()))
      if (deadline.expired()) throw core::Error(core::Errc::timed_out, "no message");
  }
  /// One message from the producer to the consumer.
  void move(BytesView out, Tag tag, std::span<std::byte> in) {
    Request receive = consumer->receive(0, tag, in), send = producer->send(0, tag, out);
    finish(send, receive);
    EXPECT_EQ(receive.bytes(), out.size());
    EXPECT_TRUE(std::ranges::equal(out, in.first(out.size())));
  }
  void move(BytesView out, Tag tag) {
    Bytes in(out.size());
    move(out, tag, in);
  }

  std::unique_ptr<tcp::TcpEndpoint> producer, consumer;
  std::vector<std::unique_ptr<tcp::TcpEndpoint>> others;
};

}  // namespace tremula::transport
