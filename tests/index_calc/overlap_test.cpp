// SPDX-License-Identifier: Apache-2.0
#include "index_calc/overlap.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "tests/index_calc/oracle.hpp"
#include "tests/index_calc/random.hpp"

namespace tremula::index_calc {

void PrintTo(const Segment& s, std::ostream* os) {
  *os << "[" << s.begin.value << "+" << s.length << " at peer's " << s.peer_begin.value << "]";
}

namespace {

using testing::deal, testing::Dealt, testing::Random, testing::shared;

constexpr Algorithm algorithms[] = {Algorithm::aspen, Algorithm::falls, Algorithm::classical};

std::vector<Segment> unrolled(const SegmentList& list) {
  std::vector<Segment> result;
  list.for_each([&](const Segment& s) { result.push_back(s); });
  return result;
}

std::string text(const Distribution& d) {
  std::string result;
  const auto add = [&](const char* name, Index value) { result += name + std::to_string(value); };
  if (const auto* cyclic = std::get_if<BlockCyclic>(&d)) {
    add("extent ", cyclic->extent), add(" block ", cyclic->block), add(" grid ", cyclic->grid);
    add(" source ", cyclic->source);
  } else {
    add("splits of grid ", grid(d)), result += ":";
    for (const Index b : std::get<Splits>(d).bounds) add(" ", b);
    result += " owners";
    for (const Index o : std::get<Splits>(d).owner) add(" ", o);
  }
  return result;
}

/// All that an Overlaps says, against the oracle.
void expect_equal(const Overlaps& found, const std::map<Index, std::vector<Segment>>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  std::size_t i = 0;
  for (const auto& [peer, segments] : expected) {
    SCOPED_TRACE("peer " + std::to_string(peer));
    ASSERT_EQ(found.peers()[i].value, peer);
    const SegmentList list = found[i];
    ASSERT_EQ(unrolled(list), segments);
    ASSERT_EQ(list.segments(), static_cast<Index>(segments.size()));
    Index elements = 0;
    for (const Segment& s : segments) elements += s.length;
    ASSERT_EQ(list.elements(), elements);
    ASSERT_EQ(found.elements(i), elements);
    for (Index k = 0; k < list.segments(); ++k)
      ASSERT_EQ(list[k], segments[static_cast<std::size_t>(k)]);
    ++i;
  }
}

void expect_all_algorithms_equal_definition(const Distribution& mine, const Distribution& theirs) {
  const Dealt my_deal = deal(mine), their_deal = deal(theirs);
  for (Index me = 0; me < grid(mine); ++me) {
    const auto expected = shared(my_deal, me, their_deal);
    for (const Algorithm a : algorithms) {
      SCOPED_TRACE(std::string(to_string(a)) + ", coordinate " + std::to_string(me) + " of " +
                   text(mine) + " against " + text(theirs));
      expect_equal(overlaps(mine, {me}, theirs, a), expected);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(Overlap, EqualsDefinitionForAllSmallBlockCyclicPairs) {
  for (const Index n : {0, 1, 2, 5, 12, 17})
    for (Index b = 1; b <= 4; ++b)
      for (Index p = 1; p <= 3; ++p)
        for (Index block = 1; block <= 4; ++block)
          for (Index q = 1; q <= 3; ++q) {
            expect_all_algorithms_equal_definition(
                BlockCyclic{.extent = n, .block = b, .grid = p, .source = (b + n) % p},
                BlockCyclic{.extent = n, .block = block, .grid = q, .source = (block + p) % q});
            if (HasFatalFailure()) return;
          }
}

TEST(Overlap, EqualsDefinitionForRandomBlockCyclicPairs) {
  Random random;
  Index coordinates = 0;
  for (int pair = 0; pair < 100'000; ++pair) {
    const Index n = random.one_in(20) ? random.in(100, 400) : random.in(0, 60);
    const BlockCyclic mine = random.block_cyclic(n, random.in(1, 20), 6);
    expect_all_algorithms_equal_definition(mine, random.block_cyclic(n, random.in(1, 20), 9));
    if (HasFatalFailure()) return;
    coordinates += mine.grid;
  }
  RecordProperty("coordinates", std::to_string(coordinates));
}

TEST(Overlap, EqualsDefinitionForRandomPairsWithSplits) {
  Random random;
  for (int pair = 0; pair < 20'000; ++pair) {
    const Index n = random.in(0, 60);
    const bool first = random.one_in(2);
    Distribution a = random.splits(n, 6), b = random.distribution(n, 6);
    expect_all_algorithms_equal_definition(first ? a : b, first ? b : a);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace tremula::index_calc
