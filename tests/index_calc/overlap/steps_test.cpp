// SPDX-License-Identifier: Apache-2.0
// Checks the equations of the ASPEN paper with exact counters; blocks are counted from the definition.
#include <gtest/gtest.h>

#include <numeric>

#include "index_calc/overlap/overlap_builder.hpp"
#include "tests/index_calc/oracle.hpp"
#include "tests/index_calc/random.hpp"

namespace tremula::index_calc {

namespace {

using testing::deal, testing::Dealt, testing::Random;

/// Returns the number of blocks of each coordinate within the first `elements` elements.
std::vector<Index> blocks_of_each(const BlockCyclic& d, Index elements) {
  std::vector<Index> count(static_cast<std::size_t>(d.grid));
  Index turn = 0;
  for (Index left = elements; left > 0; left -= d.block) {
    ++count[static_cast<std::size_t>(turn)];
    turn = turn + 1 == d.grid ? 0 : turn + 1;
  }
  return count;
}

Index sum(const std::vector<Index>& values) {
  return std::accumulate(values.begin(), values.end(), Index{0});
}

Index period_of(const BlockCyclic& a, const BlockCyclic& b) {
  return std::lcm(a.block * a.grid, b.block * b.grid);
}

/// A pair with source 0, whose blocks make no families, and with at least one whole period.
struct Pair {
  BlockCyclic mine, theirs;
  Index periods;
};
Pair random_pair(Random& random) {
  Pair p;
  do {
    p.mine = {.extent = 0, .block = random.in(1, 30), .grid = random.in(2, 8), .source = 0};
    p.theirs = {.extent = 0, .block = random.in(1, 30), .grid = random.in(2, 8), .source = 0};
  } while (p.mine.block * p.mine.grid < p.theirs.block);
  p.periods = random.in(1, 3);
  p.mine.extent = p.theirs.extent = p.periods * period_of(p.mine, p.theirs);
  return p;
}

TEST(Steps, FollowEquationFourWithAspen) {
  // D * L * N_local, for each dimension; without boundary terms, because all periods are whole.
  Random random;
  for (int round = 0; round < 2000; ++round) {
    const auto [mine, theirs, periods] = random_pair(random);
    const Index n_local = period_of(mine, theirs) / (mine.block * mine.grid);
    Index steps = 0;
    for (Index me = 0; me < mine.grid; ++me) steps += overlaps(mine, {me}, theirs).steps();
    ASSERT_EQ(steps, mine.grid * n_local);
  }
}

TEST(Steps, DifferByAtMostOneBlockAtTheBoundary) {
  Random random;
  for (int round = 0; round < 2000; ++round) {
    auto [mine, theirs, periods] = random_pair(random);
    mine.extent = theirs.extent = random.in(1, period_of(mine, theirs));
    const auto blocks = blocks_of_each(mine, mine.extent);
    for (Index me = 0; me < mine.grid; ++me) {
      const Index steps = overlaps(mine, {me}, theirs).steps();
      ASSERT_EQ(steps, blocks[static_cast<std::size_t>(me)]);
      ASSERT_LE(std::abs(steps - mine.extent / (mine.block * mine.grid)), 1);
    }
  }
}

TEST(Steps, DoNotDependOnTheNumberOfPeersWithAspen) {
  const Index extent = 31 * 16 * 5000;
  const BlockCyclic mine{.extent = extent, .block = 31, .grid = 16, .source = 0};
  for (const Index others : {2, 1000, 1'000'000}) {
    // The extent is not a whole number of periods for any of them.
    const BlockCyclic theirs{.extent = extent, .block = 37, .grid = others, .source = 0};
    const Index seen = std::min(extent, period_of(mine, theirs));
    EXPECT_EQ(overlaps(mine, {0}, theirs).steps(), seen / (31 * 16)) << others;
  }
}

TEST(Steps, AreFewerForNestedBlocksWithAspen) {
  // Each of their blocks contains ten of mine, in one or two families.
  const BlockCyclic mine{.extent = 1'000'000, .block = 5, .grid = 2, .source = 0};
  const BlockCyclic theirs{.extent = 1'000'000, .block = 101, .grid = 7, .source = 0};
  const Index blocks = period_of(mine, theirs) / 10;
  EXPECT_LE(overlaps(mine, {0}, theirs).steps(), blocks / 10 + 1);
}

TEST(Steps, StayWithinEquationTwoWithFalls) {
  // L * R * N_local blocks are searched for within one period, for each dimension, instead of
  // L * R * N_local * N_remote pairs. A step is a block that is found, or one that ends a search.
  Random random;
  for (int round = 0; round < 300; ++round) {
    auto [mine, theirs, periods] = random_pair(random);
    const Index period = period_of(mine, theirs);
    mine.extent = theirs.extent = period;
    const Index n_local = period / (mine.block * mine.grid);
    Index in_one_period = 0;
    for (Index me = 0; me < mine.grid; ++me) {
      const Overlaps found = overlaps(mine, {me}, theirs, Algorithm::falls);
      const auto families = static_cast<Index>(found.families());
      ASSERT_GE(found.steps(), families);
      ASSERT_LE(found.steps(), families + theirs.grid * n_local);
      in_one_period += found.steps();
    }
    Index of_more_periods = 0;
    BlockCyclic longer = mine, others = theirs;
    longer.extent = others.extent = periods * period;
    for (Index me = 0; me < mine.grid; ++me)
      of_more_periods += overlaps(longer, {me}, others, Algorithm::falls).steps();
    ASSERT_EQ(in_one_period, of_more_periods) << "falls must look at one period only";
  }
}

TEST(Steps, StayWithinEquationOneWithClassical) {
  // L * R * N_local + R * N_remote over the whole extent, because both lists are only walked forward.
  Random random;
  for (int round = 0; round < 300; ++round) {
    auto [mine, theirs, periods] = random_pair(random);
    mine.extent = theirs.extent = random.in(1, 2000);
    const auto my_blocks = blocks_of_each(mine, mine.extent),
               their_blocks = blocks_of_each(theirs, theirs.extent);
    for (Index me = 0; me < mine.grid; ++me)
      ASSERT_LE(overlaps(mine, {me}, theirs, Algorithm::classical).steps(),
                theirs.grid * my_blocks[static_cast<std::size_t>(me)] + sum(their_blocks));
  }
}

}  // namespace
}  // namespace tremula::index_calc
