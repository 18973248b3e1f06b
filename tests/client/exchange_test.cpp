// SPDX-License-Identifier: Apache-2.0
// Whole steps over the loopback transport, all ranks in one thread. Every element carries its own
// global number; after each step every consumer rank must hold exactly its own elements. The oracle
// deals the blocks like cards.
#include "client/exchange.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <random>

#include "core/error.hpp"
#include "transport/loopback/loopback.hpp"

namespace tremula::client {
namespace {

using index_calc::Layout;
using transport::Loopback, transport::Network, transport::Side;

constexpr int queue_depth = 2;

std::uint64_t test_seed() {
  const char* text = std::getenv("TREMULA_TEST_SEED");
  return text ? std::strtoull(text, nullptr, 10) : 20261121;
}

/// Global index of each owned element of one coordinate, dealt from the definition.
std::vector<Index> dealt(const index_calc::BlockCyclic& d, Index coord) {
  std::vector<Index> mine;
  Index turn = d.source;
  for (Index begin = 0; begin < d.extent; begin += d.block, turn = (turn + 1) % d.grid)
    for (Index i = begin; turn == coord && i < std::min(begin + d.block, d.extent); ++i)
      mine.push_back(i);
  return mine;
}

/// The local part of `rank` of a 2-D layout, each element being `value(global number)`.
template <class Value>
std::vector<std::int64_t> part_of(const Layout& layout, Rank rank, Value value) {
  const auto& rows = std::get<index_calc::BlockCyclic>(layout.dims[0]);
  const auto& columns = std::get<index_calc::BlockCyclic>(layout.dims[1]);
  const bool is_row = layout.rank_order == index_calc::Order::row;
  const Index p = is_row ? rank / columns.grid : rank % rows.grid;
  const Index q = is_row ? rank % columns.grid : rank / rows.grid;
  const auto is = dealt(rows, p), js = dealt(columns, q);
  std::vector<std::int64_t> part;
  if (layout.storage_order == index_calc::Order::row) {
    for (const Index i : is)
      for (const Index j : js) part.push_back(value(i * columns.extent + j));
  } else {
    for (const Index j : js)
      for (const Index i : is) part.push_back(value(i * columns.extent + j));
  }
  return part;
}

/// Both sides of a link with all their ranks.
struct Coupling {
  Coupling(Network& network, const std::vector<proto::Field>& from,
           const std::vector<proto::Field>& to) {
    const Rank m = rank_count(from[0].layout), n = rank_count(to[0].layout);
    Loopback loopback(network);
    std::vector<transport::Address> out_addresses, in_addresses;
    for (Rank r = 0; r < m; ++r) out_ends.push_back(loopback.open("loopback", Side::producer));
    for (Rank r = 0; r < n; ++r) in_ends.push_back(loopback.open("loopback", Side::consumer));
    for (auto& e : out_ends) out_addresses.push_back(e->address());
    for (auto& e : in_ends) in_addresses.push_back(e->address());
    for (auto& e : out_ends) e->connect(in_addresses, core::Deadline::after(1));
    for (auto& e : in_ends) e->connect(out_addresses, core::Deadline::after(1));
    for (Rank r = 0; r < m; ++r)
      outs.push_back(
          std::make_unique<OutExchange>(plan_exchange(from, to, Side::producer, r, m, n, plans, {}),
                                        *out_ends[static_cast<std::size_t>(r)], 7, 0, queue_depth));
    for (Rank r = 0; r < n; ++r)
      ins.push_back(
          std::make_unique<InExchange>(plan_exchange(to, from, Side::consumer, r, n, m, plans, {}),
                                       *in_ends[static_cast<std::size_t>(r)], 7, queue_depth));
  }
  index_calc::PlanCache plans;
  std::vector<std::unique_ptr<transport::Endpoint>> out_ends, in_ends;
  std::vector<std::unique_ptr<OutExchange>> outs;
  std::vector<std::unique_ptr<InExchange>> ins;
};

std::vector<proto::Field> field(const std::string& layout) {
  return {{.name = "f", .type = core::ElementType::i64, .layout = Layout::parse(layout)}};
}

template <class Poll>
void soon(Poll&& poll) {
  for (int i = 0; i < 1000; ++i)
    if (poll()) return;
  FAIL() << "expected to be ready soon";
}

TEST(Exchange, BringsEveryElementToItsPlaceInEveryStep) {
  const auto seed = test_seed();
  fmt::print("TREMULA_TEST_SEED={}\n", seed);
  std::mt19937_64 gen(seed);
  const auto in = [&](Index lo, Index hi) {
    return std::uniform_int_distribution<Index>(lo, hi)(gen);
  };
  for (int c = 0; c < 300; ++c) {
    const Index rows = in(1, 12), columns = in(1, 12);
    std::vector<proto::Field> from, to;
    for (auto* side : {&from, &to}) {
      const Index p = in(1, 3), q = in(1, 3);
      for (int f = 0; f < 2; ++f) {
        Layout l;
        l.dims = {index_calc::BlockCyclic{rows, in(1, 5), p, in(0, p - 1)},
                  index_calc::BlockCyclic{columns, in(1, 5), q, in(0, q - 1)}};
        l.rank_order = in(0, 1) ? index_calc::Order::row : index_calc::Order::column;
        l.storage_order = in(0, 1) ? index_calc::Order::row : index_calc::Order::column;
        side->push_back(
            {.name = fmt::format("f{}", f), .type = core::ElementType::i64, .layout = l});
      }
    }
    SCOPED_TRACE(fmt::format("case {}: {} | {} -> {} | {}", c, to_string(from[0].layout),
                             to_string(from[1].layout), to_string(to[0].layout),
                             to_string(to[1].layout)));
    Network network;
    Coupling k(network, from, to);
    std::uint64_t sent = 0, received = 0;
    constexpr std::uint64_t steps = 5;
    for (std::uint64_t step = 0; step < steps; ++step) {
      const auto value = [step](std::size_t f) {
        return [=](Index g) {
          return g * 100 + static_cast<Index>(f) * 10 + static_cast<Index>(step);
        };
      };
      for (std::size_t r = 0; r < k.outs.size(); ++r) {
        soon([&] { return k.outs[r]->is_ready(step); });
        for (std::size_t f = 0; f < 2; ++f) {
          const auto part = part_of(from[f].layout, static_cast<Rank>(r), value(f));
          k.outs[r]->pack(step, f, std::as_bytes(std::span(part)));
        }
        k.outs[r]->send(step);
      }
      for (std::size_t r = 0; r < k.ins.size(); ++r) {
        soon([&] { return k.ins[r]->poll() == InExchange::State::step; });
        ASSERT_EQ(k.ins[r]->step(), step);
        for (std::size_t f = 0; f < 2; ++f) {
          const auto want = part_of(to[f].layout, static_cast<Rank>(r), value(f));
          std::vector<std::int64_t> got(want.size(), -1);
          soon([&] { return k.ins[r]->unpack_some(f, std::as_writable_bytes(std::span(got))); });
          ASSERT_EQ(got, want) << "consumer rank " << r << " field " << f << " step " << step;
        }
        soon([&] { return k.ins[r]->can_finish_step(); });
        k.ins[r]->finish_step();
      }
    }
    for (auto& out : k.outs) {
      soon([&] { return out->is_ready(steps); });
      out->send_end(steps);
      sent += out->counters().bytes;
    }
    for (auto& it : k.ins) {
      soon([&] { return it->poll() == InExchange::State::end; });
      received += it->counters().bytes;
      it->leave();
      soon([&] { return it->is_told(); });
    }
    for (auto& out : k.outs) soon([&] { return out->is_credited(steps + 1); });
    ASSERT_EQ(sent, steps * 2 * 8 * static_cast<std::uint64_t>(rows * columns));
    ASSERT_EQ(received, sent);
    ASSERT_EQ(network.counters().messages_sent, network.counters().messages_delivered);
  }
}

TEST(Exchange, KeepsAtMostQueueDepthStepsUnderWay) {
  Network network;
  Coupling k(network, field("shape=4x4 grid=1x1"), field("shape=4x4 grid=1x1"));
  const std::vector<std::int64_t> data(16);
  for (std::uint64_t step = 0; step < queue_depth; ++step) {
    ASSERT_TRUE(k.outs[0]->is_ready(step));
    k.outs[0]->pack(step, 0, std::as_bytes(std::span(data)));
    k.outs[0]->send(step);
  }
  for (int i = 0; i < 100; ++i) ASSERT_FALSE(k.outs[0]->is_ready(queue_depth));
  soon([&] { return k.ins[0]->can_finish_step(); });
  ASSERT_FALSE(k.outs[0]->is_ready(queue_depth))
      << "a step that has arrived but is not consumed holds its place";
  k.ins[0]->finish_step();
  soon([&] { return k.outs[0]->is_ready(queue_depth); });
}

TEST(Exchange, TellsRanksWithoutElementsOfEveryStepAndOfTheEnd) {
  Network network;
  // One row on a grid of three: consumer ranks 1 and 2 own nothing.
  Coupling k(network, field("shape=1x4 grid=1x2"), field("shape=1x4 grid=3x1"));
  for (auto& out : k.outs) {
    const std::vector<std::int64_t> data(2);
    ASSERT_TRUE(out->is_ready(0));
    out->pack(0, 0, std::as_bytes(std::span(data)));
    out->send(0);
  }
  for (auto& it : k.ins) {
    soon([&] { return it->can_finish_step(); });
    it->finish_step();
  }
  for (auto& out : k.outs) out->send_end(1);
  for (auto& it : k.ins) soon([&] { return it->poll() == InExchange::State::end; });
  EXPECT_EQ(k.ins[1]->counters().packages, 0u);
  EXPECT_EQ(k.ins[0]->counters().packages, 2u);
}

TEST(Exchange, StopsWhenTheConsumerLeaves) {
  Network network;
  Coupling k(network, field("shape=4x4 grid=1x1"), field("shape=4x4 grid=1x1"));
  soon([&] { return k.ins[0]->is_told(); });
  k.ins[0]->leave();
  soon([&] { return k.outs[0]->is_ready(99) && k.outs[0]->has_left(); });
}

/// What the consumer says when the weather does `fault` to the second package. (The first one tells
/// a consumer, which may come late, the number of its first step.)
std::string error_under(const Network::Fault& fault) {
  Network network;
  Coupling k(network, field("shape=4x4 grid=1x1"), field("shape=4x4 grid=1x1"));
  const std::vector<std::int64_t> data(16);
  for (std::uint64_t step = 0; step < 2; ++step) {
    if (step == 1)
      network.set_weather(
          [&](const Network::Message& m) { return m.tag == 1 ? fault : Network::Fault{}; });
    k.outs[0]->pack(step, 0, std::as_bytes(std::span(data)));
    k.outs[0]->send(step);
  }
  soon([&] { return k.ins[0]->can_finish_step(); });
  k.ins[0]->finish_step();
  try {
    for (int i = 0; i < 100; ++i) k.ins[0]->poll();
  } catch (const core::Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(Exchange, RefusesWhatIsNotThePackageItExpects) {
  const auto arrives_as = [](std::size_t bytes) {
    Network::Fault fault;
    fault.arrives_as = bytes;
    return error_under(fault);
  };
  EXPECT_EQ(error_under({}), "no error");
  EXPECT_NE(arrives_as(100).find("128 bytes"), std::string::npos) << arrives_as(100);
  EXPECT_NE(arrives_as(10).find("64"), std::string::npos) << arrives_as(10);
  for (std::size_t byte = 0; byte < proto::package_header_bytes; ++byte) {  // each of them matters
    Network::Fault fault;
    fault.flipped_byte = byte;
    EXPECT_NE(error_under(fault), "no error") << "byte " << byte;
  }
}

TEST(Exchange, RefusesAPlanThatIsNotItsOwn) {
  index_calc::PlanCache plans;
  Network network;
  Coupling k(network, field("shape=4x4 grid=1x1 block=2x2"), field("shape=4x4 grid=1x1"));
  Coupling other(network, field("shape=4x4 grid=1x1"), field("shape=4x4 grid=1x1"));
  const auto mine = field("shape=4x4 grid=1x1 block=1x1"), theirs = field("shape=4x4 grid=1x1");
  EXPECT_NE(plan_exchange(mine, theirs, Side::producer, 0, 1, 1, plans, {}).fingerprint,
            k.outs[0]->plan().fingerprint);
  EXPECT_EQ(k.outs[0]->plan().fingerprint, k.ins[0]->plan().fingerprint);
  EXPECT_EQ(other.outs[0]->plan().fingerprint, other.ins[0]->plan().fingerprint);
}

TEST(ExchangePlan, OfTheSameLayoutsIsMadeOnce) {
  index_calc::PlanCache plans;
  auto from = field("shape=12x1 grid=4x1"), to = field("shape=12x1 grid=6x1 block=1x1");
  from.push_back(from[0]);
  to.push_back(to[0]);
  from[1].name = to[1].name = "g";
  const auto first = plan_exchange(from, to, Side::producer, 2, 4, 6, plans, {});
  EXPECT_EQ(first.fields[0].plan, first.fields[1].plan);
  const auto second = plan_exchange(from, to, Side::producer, 2, 4, 6, plans, {});
  EXPECT_EQ(second.fields[1].plan, first.fields[0].plan);
  EXPECT_EQ(plans.size(), 1U);
  EXPECT_EQ(plans.hits(), 3U);
}

TEST(ExchangePlan, BeginsWithThePeerOppositeAndGoesRound) {
  index_calc::PlanCache plans;
  const auto from = field("shape=12x1 grid=4x1"), to = field("shape=12x1 grid=6x1 block=1x1");
  const auto plan = plan_exchange(from, to, Side::producer, 2, 4, 6, plans, {});
  std::vector<Rank> peers;
  for (const auto& m : plan.messages) peers.push_back(m.peer);
  // Rank 2 of 4 owns rows 6, 7, 8 = consumer ranks 0, 1, 2, and tells also rank 2: opposite of it
  // is rank 3.
  EXPECT_EQ(peers, (std::vector<Rank>{0, 1, 2}));
  const auto last = plan_exchange(from, to, Side::producer, 1, 4, 6, plans, {});
  peers.clear();
  for (const auto& m : last.messages) peers.push_back(m.peer);
  // Rank 1 owns rows 3, 4, 5 = consumer ranks 3, 4, 5, and tells ranks 1 and 5; it begins at
  // rank 1.
  EXPECT_EQ(peers, (std::vector<Rank>{1, 3, 4, 5}));
}

}  // namespace
}  // namespace tremula::client
