// SPDX-License-Identifier: Apache-2.0
// Tests the order of messages between both ends, and the messages that they refuse.
// exchange_ways_test.cpp checks that every element reaches its place.
#include "core/error.hpp"
#include "tests/client/coupling.hpp"

namespace tremula::client {
namespace {

constexpr int queue_depth = 2;

TEST(Exchange, KeepsAtMostQueueDepthStepsUnderWay) {
  Network network;
  Coupling k(network, field("shape=4x4 grid=1x1"), field("shape=4x4 grid=1x1"));
  const std::vector<std::int64_t> data(16);
  for (std::uint64_t step = 0; step < queue_depth; ++step) {
    ASSERT_TRUE(k.outs[0]->poll_room());
    k.outs[0]->put(step, 0, std::as_bytes(std::span(data)), false);
    k.outs[0]->send(step);
  }
  for (int i = 0; i < 100; ++i) ASSERT_FALSE(k.outs[0]->poll_room());
  soon([&] { return k.ins[0]->poll_finish(); });
  ASSERT_FALSE(k.outs[0]->poll_room())
      << "a step that has arrived keeps its place until it is consumed";
  k.ins[0]->finish_step();
  soon([&] { return k.outs[0]->poll_room(); });
}

TEST(Exchange, ReportsStepsAndEndToRanksWithoutElements) {
  Network network;
  // One row of elements on three rows of ranks: consumer ranks 1 and 2 own nothing.
  Coupling k(network, field("shape=1x4 grid=1x2"), field("shape=1x4 grid=3x1"));
  for (auto& out : k.outs) {
    const std::vector<std::int64_t> data(2);
    ASSERT_TRUE(out->poll_room());
    out->put(0, 0, std::as_bytes(std::span(data)), false);
    out->send(0);
  }
  for (auto& it : k.ins) {
    soon([&] { return it->poll_finish(); });
    it->finish_step();
  }
  for (auto& out : k.outs) out->send_end(1);
  for (auto& it : k.ins) soon([&] { return it->poll() == Sink::State::end; });
  EXPECT_EQ(k.ins[1]->traffic().packages, 0u);
  EXPECT_EQ(k.ins[0]->traffic().packages, 2u);
}

TEST(Exchange, StopsWhenTheConsumerLeaves) {
  Network network;
  Coupling k(network, field("shape=4x4 grid=1x1"), field("shape=4x4 grid=1x1"));
  soon([&] { return k.ins[0]->poll_told(); });
  k.ins[0]->leave();
  soon([&] { return k.outs[0]->poll_room() && k.outs[0]->has_left(); });
}

/// Returns the consumer's error when the network applies `fault` to the second message. (The first
/// one gives the consumer, which may have joined late, the number of its first step.)
std::string error_under(const Network::Fault& fault) {
  Network network;
  Coupling k(network, field("shape=4x4 grid=1x1"), field("shape=4x4 grid=1x1"));
  const std::vector<std::int64_t> data(16);
  for (std::uint64_t step = 0; step < 2; ++step) {
    if (step == 1)
      network.inject_faults(
          [&](const Network::MessageView& m) { return m.tag == 1 ? fault : Network::Fault{}; });
    k.outs[0]->put(step, 0, std::as_bytes(std::span(data)), false);
    k.outs[0]->send(step);
  }
  soon([&] { return k.ins[0]->poll_finish(); });
  k.ins[0]->finish_step();
  try {
    for (int i = 0; i < 100; ++i) k.ins[0]->poll();
  } catch (const core::Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(Exchange, RefusesAnUnexpectedMessage) {
  const auto arrives_as = [](std::size_t bytes) {
    Network::Fault fault;
    fault.arrives_as = bytes;
    return error_under(fault);
  };
  EXPECT_EQ(error_under({}), "no error");
  EXPECT_NE(arrives_as(100).find("128 bytes"), std::string::npos) << arrives_as(100);
  EXPECT_NE(arrives_as(10).find("64"), std::string::npos) << arrives_as(10);
  for (std::size_t byte = 0; byte < proto::message_header_bytes; ++byte) {  // each byte is checked
    Network::Fault fault;
    fault.flipped_byte = byte;
    EXPECT_NE(error_under(fault), "no error") << "byte " << byte;
  }
}

TEST(Exchange, FingerprintsAgreeOnlyForTheSameLayouts) {
  index_calc::PlanCache plans;
  Network network;
  Coupling k(network, field("shape=4x4 grid=1x1 block=2x2"), field("shape=4x4 grid=1x1"));
  Coupling other(network, field("shape=4x4 grid=1x1"), field("shape=4x4 grid=1x1"));
  const auto mine = field("shape=4x4 grid=1x1 block=1x1"), theirs = field("shape=4x4 grid=1x1");
  EXPECT_NE(plan_exchange(mine, theirs, Side::producer, Rank{0}, 1, 1, plans, {}).fingerprint,
            k.outs[0]->plan().fingerprint);
  EXPECT_EQ(k.outs[0]->plan().fingerprint, k.ins[0]->plan().fingerprint);
  EXPECT_EQ(other.outs[0]->plan().fingerprint, other.ins[0]->plan().fingerprint);
}

TEST(ExchangePlan, IsMadeOnceForTheSameLayouts) {
  index_calc::PlanCache plans;
  auto from = field("shape=12x1 grid=4x1"), to = field("shape=12x1 grid=6x1 block=1x1");
  from.push_back(from[0]);
  to.push_back(to[0]);
  from[1].name = to[1].name = "g";
  const auto first = plan_exchange(from, to, Side::producer, Rank{2}, 4, 6, plans, {});
  EXPECT_EQ(first.fields[0].plan, first.fields[1].plan);
  const auto second = plan_exchange(from, to, Side::producer, Rank{2}, 4, 6, plans, {});
  EXPECT_EQ(second.fields[1].plan, first.fields[0].plan);
  EXPECT_EQ(plans.size(), 1U);
  EXPECT_EQ(plans.hits(), 3U);
}

TEST(ExchangePlan, BeginsWithTheOppositePeerAndWrapsAround) {
  index_calc::PlanCache plans;
  const auto from = field("shape=12x1 grid=4x1"), to = field("shape=12x1 grid=6x1 block=1x1");
  const auto plan = plan_exchange(from, to, Side::producer, Rank{2}, 4, 6, plans, {});
  std::vector<Rank> peers;
  for (const auto& m : plan.messages) peers.push_back(m.peer);
  // Rank 2 of 4 owns rows 6, 7, 8, which are on consumer ranks 0, 1, 2. It also reports to rank 2. Its
  // opposite peer is rank 3.
  EXPECT_EQ(peers, (std::vector<Rank>{{0}, {1}, {2}}));
  const auto last = plan_exchange(from, to, Side::producer, Rank{1}, 4, 6, plans, {});
  peers.clear();
  for (const auto& m : last.messages) peers.push_back(m.peer);
  // Rank 1 owns rows 3, 4, 5, which are on consumer ranks 3, 4, 5. It also reports to ranks 1 and 5. It
  // begins with rank 1.
  EXPECT_EQ(peers, (std::vector<Rank>{{1}, {3}, {4}, {5}}));
}

}  // namespace
}  // namespace tremula::client
