// SPDX-License-Identifier: Apache-2.0
// Tests a stream of thousands of fields of many sizes and several types, some of them without elements
// on a rank, and its cost in plans, packages and messages.
#include <algorithm>
#include <array>
#include <atomic>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "client/redistribute/redistribution_plan.hpp"
#include "client/stream/link/link_plan.hpp"
#include "tests/client/world.hpp"
#include "tests/rounds.hpp"

namespace tremula::client {
namespace {

constexpr int fields = testing_only::has_few_rounds ? 2'500 : 10'000, steps = 3;

core::ElementType type_of(int f) {
  constexpr std::array types{core::ElementType::f64, core::ElementType::i32, core::ElementType::u8};
  return types[static_cast<std::size_t>(f) % types.size()];
}
/// Returns the extent of field `f`: one element or more, at most 4096 bytes except for one field of
/// a mebibyte.
std::size_t extent(int f) {
  const std::size_t bytes = f == fields / 2 ? 1 << 20 : std::size_t{1} << (f % 13);
  return std::max<std::size_t>(1, bytes / core::element_bytes(type_of(f)));
}
std::set<std::size_t> extents() {
  std::set<std::size_t> all;
  for (int f = 0; f < fields; ++f) all.insert(extent(f));
  return all;
}
proto::Field field(int f, RankCount ranks) {
  return {.name = "field " + std::to_string(f),
          .type = type_of(f),
          .layout = index_calc::Layout::parse(fmt::format("shape={} grid={}", extent(f), ranks))};
}
std::byte byte_of(int step, int f, std::size_t i) {
  return std::byte((static_cast<std::size_t>(7 * step + 13 * f) + 3 * i) & 0xff);
}

/// Calls `visit(field, bytes of this rank's part, their offset in the whole field)` for each field.
void for_each_part(std::size_t ranks, std::size_t rank, std::vector<std::byte>& memory,
                   const auto& visit) {
  for (int f = 0; f < fields; ++f) {
    const std::size_t n = extent(f), each = (n + ranks - 1) / ranks,
                      begin = std::min(n, each * rank), end = std::min(n, begin + each),
                      bytes = core::element_bytes(type_of(f));
    memory.resize((end - begin) * bytes);
    visit(f, std::span(memory), begin * bytes);
  }
}

TEST(StreamOfManyFields, HasManySizes) {
  World world(8192, World::Way::local);
  world.step_timeout = 120;
  world.start(
      "producer", 2,
      [](Session& s) {
        OutStream out(s, "s", {});
        for (int f = 0; f < fields; ++f) out.declare(field(f, s.size()));
        std::vector<std::byte> memory;
        for (int step = 0; step < steps; ++step) {
          out.begin_step();
          for_each_part(std::size_t(s.size()), at(s.rank()), memory,
                        [&](int f, auto part, std::size_t begin) {
                          for (std::size_t i = 0; i < part.size(); ++i)
                            part[i] = byte_of(step, f, begin + i);
                          out.put(f, part);
                        });
          out.end_step();
        }
        EXPECT_EQ(out.statistics().traffic.packages, 2u * steps)
            << "one message per step to each rank with which it has elements in common";
        EXPECT_EQ(s.plans().size(), extents().size());
        out.close();
      },
      60);
  std::atomic<std::uint64_t> bytes = 0, wrong = 0;
  world.start(
      "consumer", 3,
      [&](Session& s) {
        InStream in(s, "s");
        for (int f = 0; f < fields; ++f) in.declare(field(f, s.size()));
        std::vector<std::byte> memory;
        for (int step = 0; in.begin_step(); ++step) {
          for_each_part(std::size_t(s.size()), at(s.rank()), memory,
                        [&](int f, auto part, std::size_t begin) {
                          in.get(f, part);
                          for (std::size_t i = 0; i < part.size(); ++i)
                            if (part[i] != byte_of(step, f, begin + i)) ++wrong;
                          bytes += part.size();
                        });
          in.end_step();
        }
        EXPECT_EQ(in.statistics().traffic.packages, (s.rank() == Rank{1} ? 2u : 1u) * steps);
        EXPECT_EQ(s.plans().size(), extents().size());
        in.close();
      },
      60);
  EXPECT_EQ(text_of(world.join()), "");
  EXPECT_EQ(wrong, 0u);
  std::uint64_t whole = 0;
  for (int f = 0; f < fields; ++f) whole += extent(f) * core::element_bytes(type_of(f));
  EXPECT_EQ(bytes, steps * whole);
}

/// The costs of an exchange plan.
struct Costs {
  std::size_t plans = 0, packages = 0, messages = 0, parts = 0;
  friend bool operator==(const Costs&, const Costs&) = default;
};
void PrintTo(const Costs& costs, std::ostream* out) {
  *out << costs.plans << " plans, " << costs.packages << " packages, " << costs.messages
       << " messages, " << costs.parts << " parts";
}
Costs costs_of(const ExchangePlan& plan) {
  std::set<const void*> plans, packages;
  Costs costs{.messages = plan.messages.size()};
  for (const auto& field : plan.fields) plans.insert(field.plan.get());
  for (const Message& message : plan.messages) {
    costs.parts += message.parts.size();
    for (const Part& part : message.parts) packages.insert(part.package.get());
  }
  costs.plans = plans.size();
  costs.packages = packages.size();
  return costs;
}
index_calc::Layout laid_out(int field, int signatures, const std::string& how) {
  const int number = field % signatures;
  return index_calc::Layout::parse(
      fmt::format("shape={}x{} {}", 8 * (1 + number % 100), 8 * (1 + number / 100), how));
}

class ManyFields : public testing::TestWithParam<int> {};

TEST_P(ManyFields, ShareAPlanAndOneMessagePerPeer) {
  constexpr RankCount ranks = 8;
  const int signatures = GetParam();
  std::vector<proto::Field> rows, columns;
  std::vector<Update> updates;
  for (int f = 0; f < fields; ++f) {
    const auto from = laid_out(f, signatures, "grid=8x1"), to = laid_out(f, signatures, "grid=1x8");
    rows.push_back({.name = fmt::format("{}", f), .type = type_of(f), .layout = from});
    columns.push_back({.name = fmt::format("{}", f), .type = type_of(f), .layout = to});
    updates.push_back({.from = from, .to = to});
  }
  const std::size_t peers = ranks, distinct = static_cast<std::size_t>(signatures);
  const Costs expected{distinct, distinct * peers, peers, fields * peers};
  for (const auto side : {transport::Side::producer, transport::Side::consumer}) {
    const bool produces = side == transport::Side::producer;
    index_calc::PlanCache cache;
    const auto plan = plan_exchange(produces ? rows : columns, produces ? columns : rows, side,
                                    Rank{3}, ranks, ranks, cache, {});
    EXPECT_EQ(costs_of(plan), expected);
    EXPECT_EQ(cache.size(), distinct);
    EXPECT_EQ(cache.hits(), fields - distinct);
    EXPECT_LE(cache.looks(), 2 * distinct);
  }
  const redistribute::RedistributionPlan plan(updates, 0, Rank{3}, ranks);
  EXPECT_EQ(costs_of(plan.source()), expected);
  EXPECT_EQ(costs_of(plan.sink()), expected);
}

INSTANTIATE_TEST_SUITE_P(Signatures, ManyFields, testing::Values(1, 7, 2000));

}  // namespace
}  // namespace tremula::client
