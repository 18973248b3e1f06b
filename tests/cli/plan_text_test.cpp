// SPDX-License-Identifier: Apache-2.0
#include "cli/plan/plan_text.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cli/units.hpp"
#include "core/error.hpp"

namespace tremula::cli {
namespace {

using index_calc::Layout;

Redistribution redistribution(const std::string& from, const std::string& to,
                              Side side = Side::producer) {
  return {.from = Layout::parse(from), .to = Layout::parse(to), .side = side};
}

RankPlan plan_of(const Redistribution& r, Rank rank, double seconds = 2e-6) {
  return {.rank = rank,
          .plan = index_calc::make_plan(r.mine(), r.theirs(), rank),
          .part = index_calc::local_part(r.mine(), rank),
          .seconds = seconds};
}

std::string memory(const RankPlan& plan) {
  return bytes_text(static_cast<double>(plan.plan.memory_bytes()));
}

std::string complaint(const auto& action) {
  try {
    action();
  } catch (const core::Error& error) {
    return error.what();
  }
  return "none";
}

TEST(PlanText, NamesTheArrayAndBothLayouts) {
  EXPECT_EQ(plan_head_text(redistribution("shape=4x6 grid=2x1", "shape=4x6 grid=1x3")),
            "array 4x6, 24 elements, 192 B: 2 producers to 3 consumers\n"
            "  from  shape=4x6 grid=2x1\n"
            "  to    shape=4x6 grid=1x3\n");
}

TEST(PlanText, CountsTheCopiesThatRanksHold) {
  const std::string text = plan_head_text(redistribution("shape=4 mesh=8", "shape=4 grid=1"));
  EXPECT_NE(text.find(": 8 producers (which hold 8 copies) to 1 consumer\n"), std::string::npos)
      << text;
}

// Producer 0 holds two rows of six elements. Consumer c needs columns 2c and 2c + 1 of each row.
TEST(PlanText, ListsThePackagesOfARank) {
  const auto r = redistribution("shape=4x6 grid=2x1", "shape=4x6 grid=1x3");
  const RankPlan plan = plan_of(r, Rank{0});
  EXPECT_EQ(plan_rank_text(r, plan, false),
            "\nproducer 0 sends 12 elements, 96 B in 3 packages\n"
            "  consumer  elements  bytes  runs  longest  shortest   packing     path\n"
            "         0         4   32 B     2        2         2    packed  inlined\n"
            "         1         4   32 B     2        2         2    packed  inlined\n"
            "         2         4   32 B     2        2         2    packed  inlined\n"
            "     total        12   96 B     6        2         2  0 direct\n"
            "  plan by aspen in 2 us, " +
                memory(plan) +
                " of memory\n"
                "  queue_depth 2: 0 B of memory for steps in flight, for each consumer group\n");
}

// Consumer 0 needs the first three of four rows: two from producer 0 and one from producer 1.
TEST(PlanText, CallsAPackageOfOneRunDirect) {
  const auto r =
      redistribution("shape=4x6 grid=2x1", "shape=4x6 grid=2x1 block0=3", Side::consumer);
  const RankPlan plan = plan_of(r, Rank{0}, 0.0345);
  EXPECT_EQ(plan_rank_text(r, plan, true),
            "\nconsumer 0 receives 18 elements, 144 B in 2 packages\n"
            "  producer  elements  bytes  runs  longest  shortest   packing     path\n"
            "         0        12   96 B     1       12        12    direct  inlined\n"
            "         1         6   48 B     1        6         6    direct  inlined\n"
            "     total        18  144 B     2       12         6  2 direct\n"
            "  plan by aspen in 34.5 ms, " +
                memory(plan) +
                " of memory\n"
                "  queue_depth 2: 0 B of memory for steps in flight\n"
                "  validated: aspen, falls and classical agree on every segment of consumer 0\n");
}

// The wire order is the producer's: with a column-major producer, the rows of the consumer become
// runs of 1.
TEST(PlanText, CountsRunsInTheOrderOfTheWire) {
  const auto r =
      redistribution("shape=4x6 grid=1x1 store=column", "shape=4x6 grid=2x1", Side::consumer);
  const PackageFacts package = facts(r, plan_of(r, Rank{0}), plan_of(r, Rank{0}).plan[0]);
  EXPECT_EQ(package.runs, (index_calc::Runs{.count = 12, .longest = 1, .shortest = 1}));
  EXPECT_EQ(package.packing(), "packed");
}

// Expectations from the manual, "Memory and copies".
TEST(PlanText, NamesThePathAndTheMemoryOfAQueue) {
  struct Case {
    client::Prospect stream;
    std::string_view path;
    Index kept_by_producer, kept_by_consumer;  // in packages
  };
  const auto path_of = [](Side side, const client::Prospect& stream, const std::string& grid) {
    auto r = redistribution("shape=1024x1024 grid=" + grid, "shape=1024x1024 grid=1x1", side);
    r.stream = stream;
    const RankPlan plan = plan_of(r, Rank{0});
    const PackageFacts known = facts(r, plan, plan.plan[0]);
    return std::pair(known, queue_bytes(r, known.kept_bytes));
  };
  for (const Case& c : {
           Case{{}, "shared", 2, 0},
           Case{{.queue_depth = 5}, "shared", 5, 0},
           Case{{.is_allocated = true}, "shared", 2, 0},
           Case{{.is_lent = true}, "shared", 2, 0},
           Case{{.is_lent = true, .is_allocated = true}, "lent", 0, 0},
           Case{{.queue_depth = 0}, "ring", 0, 0},
           Case{{.queue_depth = 0, .is_allocated = true}, "lent", 0, 0},
           Case{{.is_near = false}, "staged", 2, 2},
           Case{{.is_near = false, .is_allocated = true}, "staged", 2, 2},
           Case{{.is_near = false, .queue_depth = 0}, "rma", 0, 0},
       }) {
    const auto [producer, kept_by_producer] = path_of(Side::producer, c.stream, "1x1");
    const auto [consumer, kept_by_consumer] = path_of(Side::consumer, c.stream, "1x1");
    EXPECT_EQ(producer.path, c.path);
    EXPECT_EQ(consumer.path, c.path);
    EXPECT_EQ(kept_by_producer, c.kept_by_producer * producer.bytes) << c.path;
    EXPECT_EQ(kept_by_consumer, c.kept_by_consumer * consumer.bytes) << c.path;
  }
  // There are 1024 runs of half a row, which are not worth reading one by one.
  EXPECT_EQ(path_of(Side::consumer, {.is_near = false, .queue_depth = 0}, "1x2").first.path,
            "on demand");
}

TEST(PlanText, CutsALongTable) {
  const auto r = redistribution("shape=100 grid=1", "shape=100 grid=100");
  const std::string text = plan_rank_text(r, plan_of(r, Rank{0}), false);
  EXPECT_NE(text.find("\n        31         1    8 B"), std::string::npos) << text;
  EXPECT_EQ(text.find("\n        32 "), std::string::npos) << text;
  EXPECT_NE(text.find("     total       100  800 B   100        1         1  100 direct\n"
                      "  and 68 packages more, which the total includes; --json lists all\n"),
            std::string::npos)
      << text;
}

TEST(PlanText, CountsCopiesUpTo63Bits) {
  auto r = redistribution("shape=4611686018427387904 grid=1", "shape=4611686018427387904 mesh=4");
  r.element_bytes = 1;
  const std::string text = plan_rank_text(r, plan_of(r, Rank{0}), false);
  EXPECT_NE(text.find("sends 9223372036854775807 elements, 9.22 EB in 4 packages"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("total  9223372036854775807  9.22 EB "), std::string::npos) << text;
}

TEST(PlanText, SaysThatARankHasNothing) {
  const auto r = redistribution("shape=3 grid=2 block=3", "shape=3 grid=1");
  const RankPlan plan = plan_of(r, Rank{1});
  EXPECT_EQ(plan_rank_text(r, plan, false),
            "\nproducer 1 sends 0 elements, 0 B in 0 packages\n  plan by aspen in 2 us, " +
                memory(plan) +
                " of memory\n"
                "  queue_depth 2: 0 B of memory for steps in flight, for each consumer group\n");
}

TEST(Redistribution, RefusesTwoShapes) {
  EXPECT_EQ(
      complaint([] { validate(redistribution("shape=4x6 grid=1x1", "shape=6x4 grid=1x1")); }),
      "expected the same shape in --from and --to, found shape=4x6 in --from and shape=6x4 in "
      "--to; give both the same shape");
}

TEST(Redistribution, RefusesMoreBytesThan63Bits) {
  const std::string text = fmt::format("shape={} grid=1", Index{1} << 60);
  EXPECT_EQ(complaint([&] { validate(redistribution(text, text)); }),
            "expected an array of at most 2^63 - 1 bytes, found more: 8 bytes for each element of "
            "\"shape=1152921504606846976 grid=1\"; split the array into several fields or take a "
            "smaller element type");
  auto smaller = redistribution(text, text);
  smaller.element_bytes = 4;
  EXPECT_NO_THROW(validate(smaller));
}

TEST(Redistribution, RefusesARankThatTakesNoPart) {
  const auto r = redistribution("shape=8 grid=3", "shape=8 grid=3 members=2/5-6");
  const auto of = [&](Side side, Index rank, const char* option) {
    return complaint([&] { expect_rank(r, side, rank, option); });
  };
  EXPECT_EQ(of(Side::producer, 2, "--rank"), "none");
  EXPECT_EQ(expect_rank(r, Side::consumer, 6, "--rank"), Rank{6});
  EXPECT_EQ(
      of(Side::producer, 3, "--rank"),
      "--rank: expected the rank of a producer, 0 to 2, found 3; give one of these, or --all, "
      "or the other --side");
  EXPECT_EQ(of(Side::consumer, 0, "--peer"),
            "--peer: expected the rank of a consumer, 2, 5 to 6, found 0; give one of these");
  for (const Index rank : {Index{-1}, Index{1} << 32})
    EXPECT_NE(of(Side::producer, rank, "--rank"), "none") << rank;
}

}  // namespace
}  // namespace tremula::cli
