// SPDX-License-Identifier: Apache-2.0
// Features of loopback beyond the contract: it counts messages, and misbehaves on demand.
#include "transport/loopback/loopback.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "core/error.hpp"

namespace tremula::transport {

namespace {

Bytes bytes_of(std::string_view text) {
  const auto view = std::as_bytes(std::span(text));
  return {view.begin(), view.end()};
}

/// One producer and one consumer, both driven by the test's own thread.
struct Loopback1x1 : testing::Test {
  Loopback1x1() {
    const auto deadline = Deadline::after(60);
    producer->connect(std::vector<Address>{consumer->address()}, deadline);
    consumer->connect(std::vector<Address>{producer->address()}, deadline);
  }
  void set_fault(const Network::Fault& fault) {
    network.inject_faults([fault](const Network::MessageView& message) {
      return message.number == 0 ? fault : Network::Fault{};
    });
  }

  Network network;
  Loopback loopback{network};
  std::unique_ptr<Endpoint> producer = loopback.open("loopback", Side::producer);
  std::unique_ptr<Endpoint> consumer = loopback.open("loopback", Side::consumer);
  const Bytes out = bytes_of("aspen");
  Bytes in = Bytes(8);
};

core::Errc code_of(Request& request) {
  try {
    request.test();
  } catch (const core::Error& error) {
    return error.code();
  }
  return {};
}

}  // namespace

TEST_F(Loopback1x1, LosesADroppedMessageAndDeliversTheNext) {
  set_fault({.drop = true});
  Request receive = consumer->receive(Rank{0}, 1, in);
  Request first = producer->send(Rank{0}, 1, out);
  EXPECT_TRUE(first.test());
  EXPECT_FALSE(receive.test());
  Request second = producer->send(Rank{0}, 1, bytes_of("oak"));
  EXPECT_TRUE(receive.test());
  EXPECT_EQ(receive.bytes(), 3u);
  EXPECT_EQ(network.counters().messages_sent, 2);
  EXPECT_EQ(network.counters().messages_delivered, 1);
  EXPECT_EQ(network.counters().bytes_delivered, 3);
  EXPECT_EQ(network.counters().messages_harmed, 1);
}

TEST_F(Loopback1x1, DelaysOnlyMessagesOfTheSameTag) {
  set_fault({.delay_seconds = 0.05});
  Bytes second(8), other(8);
  Request receives[] = {consumer->receive(Rank{0}, 1, in), consumer->receive(Rank{0}, 1, second),
                        consumer->receive(Rank{0}, 2, other)};
  Request sends[] = {producer->send(Rank{0}, 1, out), producer->send(Rank{0}, 1, bytes_of("oak")),
                     producer->send(Rank{0}, 2, bytes_of("elm"))};
  EXPECT_FALSE(receives[0].test());
  EXPECT_FALSE(receives[1].test());
  EXPECT_TRUE(receives[2].test());
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  EXPECT_TRUE(receives[0].test());
  EXPECT_TRUE(receives[1].test());
  EXPECT_EQ(receives[0].bytes(), 5u);
}

TEST_F(Loopback1x1, CutsLengthensAndCorruptsMessages) {
  for (const std::size_t found : {std::size_t{2}, std::size_t{7}}) {
    network.inject_faults(
        [found](const Network::MessageView&) { return Network::Fault{.arrives_as = found}; });
    Request send = producer->send(Rank{0}, 1, out);
    Request receive = consumer->receive(Rank{0}, 1, in);
    EXPECT_TRUE(receive.test());
    EXPECT_EQ(receive.bytes(), found);
  }
  EXPECT_EQ(in[4], out[4]);
  EXPECT_EQ(in[5], std::byte{0});
  network.inject_faults(
      [](const Network::MessageView&) { return Network::Fault{.flipped_byte = 1}; });
  Request send = producer->send(Rank{0}, 1, out);
  Request receive = consumer->receive(Rank{0}, 1, in);
  EXPECT_TRUE(receive.test());
  EXPECT_EQ(in[0], out[0]);
  EXPECT_EQ(in[1], ~out[1]);
}

TEST_F(Loopback1x1, FailsASendOnDemand) {
  set_fault({.fail = true});
  Request send = producer->send(Rank{0}, 1, out);
  EXPECT_EQ(code_of(send), core::Errc::transport);
}

TEST_F(Loopback1x1, ReportsALostPeerAfterArrivedMessages) {
  Request sent = producer->send(Rank{0}, 1, out);
  network.lose(producer->address());
  Request arrived = consumer->receive(Rank{0}, 1, in), lost = consumer->receive(Rank{0}, 1, in);
  Request to_dead = consumer->send(Rank{0}, 1, out);
  EXPECT_TRUE(arrived.test());
  EXPECT_EQ(code_of(lost), core::Errc::peer_lost);
  EXPECT_TRUE(to_dead.test());  // eager: finishes before the loss can be detected
  Request next = consumer->send(Rank{0}, 1, Bytes(100000));
  EXPECT_EQ(code_of(next), core::Errc::peer_lost);
}

TEST_F(Loopback1x1, DoesNotReportASilentlyLostPeer) {
  network.lose(producer->address(), Network::Loss::silent);
  Request receive = consumer->receive(Rank{0}, 1, in);
  const Bytes large(100000);
  Request send = consumer->send(Rank{0}, 1, large);
  EXPECT_FALSE(receive.test());
  EXPECT_FALSE(send.test());
}

TEST_F(Loopback1x1, RefusesInvalidRanksAndOffers) {
  EXPECT_THROW(producer->send(Rank{1}, 0, out), core::Error);
  EXPECT_THROW(producer->send(Rank{-1}, 0, out), core::Error);
  EXPECT_THROW(loopback.open("ofi:tcp;ofi_rxm", Side::producer), core::Error);
  const auto lone = loopback.open("loopback", Side::producer);
  EXPECT_THROW(lone->receive(Rank{0}, 0, in), core::Error) << "not connected";
  EXPECT_THROW(lone->connect(std::vector<Address>{producer->address()}, Deadline::after(1)),
               core::Error)
      << "both are producers";
}

TEST(Loopback, LetsOneThreadDriveAThousandRanks) {
  constexpr core::RankCount ranks = 1000;
  Network network(0);
  Loopback loopback(network);
  const auto producer = loopback.open("loopback", Side::producer);
  std::vector<std::unique_ptr<Endpoint>> consumers;
  std::vector<Address> addresses;
  for (core::RankCount i = 0; i < ranks; ++i) {
    consumers.push_back(loopback.open("loopback", Side::consumer));
    addresses.push_back(consumers.back()->address());
    consumers.back()->connect(std::vector<Address>{producer->address()}, Deadline::after(60));
  }
  producer->connect(addresses, Deadline::after(60));
  std::vector<Request> requests;
  std::vector<Rank> out, in(ranks, Rank{-1});
  for (const Rank i : core::all_ranks(ranks)) out.push_back(i);
  for (std::size_t i = 0; i < ranks; ++i) {
    requests.push_back(producer->send(out[i], 7, std::as_bytes(std::span(&out[i], 1))));
    requests.push_back(
        consumers[i]->receive(Rank{0}, 7, std::as_writable_bytes(std::span(&in[i], 1))));
  }
  for (auto& request : requests) EXPECT_TRUE(request.test());
  EXPECT_EQ(in, out);
}

}  // namespace tremula::transport
