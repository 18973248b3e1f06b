// SPDX-License-Identifier: Apache-2.0
#include "index_calc/overlap/overlap.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "index_calc/overlap/overlap_builder.hpp"
#include "tests/index_calc/oracle.hpp"
#include "tests/index_calc/random.hpp"
#include "tests/rounds.hpp"

namespace tremula::index_calc {

namespace {

using testing::deal, testing::Dealt, testing::Random, testing::shared;

constexpr Algorithm algorithms[] = {Algorithm::aspen, Algorithm::falls, Algorithm::classical};

std::string text(const Distribution& d) { return "\"" + to_string(Layout(Grid({d}))) + "\""; }

std::string text(const Segment& s) {
  return "[" + std::to_string(s.begin.value) + "+" + std::to_string(s.length) + " at the peer's " +
         std::to_string(s.peer_begin.value) + "]";
}

Index sum_of_lengths(const std::vector<Segment>& segments) {
  Index sum = 0;
  for (const Segment& s : segments) sum += s.length;
  return sum;
}

std::vector<Segment> unrolled(const SegmentList& list) {
  std::vector<Segment> result;
  list.for_each([&](const Segment& s) { result.push_back(s); });
  return result;
}

/// Joins segments adjacent in both sides' local indices.
std::vector<Segment> joined(const std::vector<Segment>& segments) {
  std::vector<Segment> result;
  for (const Segment& s : segments) {
    Segment* const last = result.empty() ? nullptr : &result.back();
    if (last != nullptr && last->begin.value + last->length == s.begin.value &&
        last->peer_begin.value + last->length == s.peer_begin.value)
      last->length += s.length;
    else
      result.push_back(s);
  }
  return result;
}

/// Returns whether a distribution has a cut. If both sides have one, blocks of both may extend
/// across the border of a period, which then divides segments.
bool has_cut(const Distribution& d) {
  const auto* dealt = std::get_if<BlockCyclic>(&d);
  return dealt != nullptr && dealt->cut != 0;
}

/// Returns a description of the first mistake in a list; empty if there is none.
std::string mistake(const SegmentList& list, std::vector<Segment> expected, bool is_divided) {
  auto found = unrolled(list);
  if (list.elements() != sum_of_lengths(expected)) return "elements()";
  if (!found.empty() && list.first() != found.front()) return "first()";
  if (!found.empty() && list.last() != found.back()) return "last()";
  if (is_divided) found = joined(found), expected = joined(expected);
  for (std::size_t i = 0; i < found.size(); ++i)
    if (i >= expected.size() || found[i] != expected[i])
      return "segment " + std::to_string(i) + " is " + text(found[i]) + ", expected " +
             (i < expected.size() ? text(expected[i]) : "none");
  if (found.size() != expected.size())
    return std::to_string(expected.size() - found.size()) + " segments missing";
  return {};
}

/// Returns a description of the first mistake in an Overlaps; empty if there is none.
std::string mistake(const Overlaps& found, const std::map<Index, std::vector<Segment>>& expected,
                    bool is_divided) {
  if (found.size() != expected.size()) return "number of peers: " + std::to_string(found.size());
  std::size_t i = 0;
  for (const auto& [peer, segments] : expected) {
    if (found.peers()[i].value != peer) return "peer " + std::to_string(found.peers()[i].value);
    const std::string in_list = mistake(found[i], segments, is_divided);
    if (!in_list.empty()) return "peer " + std::to_string(peer) + ", " + in_list;
    if (found.elements(i) != sum_of_lengths(segments))
      return "elements of peer " + std::to_string(peer);
    ++i;
  }
  return {};
}

/// Compares all algorithms for coordinate `me` with the oracle.
bool all_algorithms_equal_definition(const Distribution& mine, Index me,
                                     const Distribution& theirs) {
  const auto expected = shared(deal(mine), me, deal(theirs));
  for (const Algorithm a : algorithms) {
    const bool is_divided = a != Algorithm::classical && has_cut(mine) && has_cut(theirs);
    const std::string wrong = mistake(overlaps(mine, {me}, theirs, a), expected, is_divided);
    if (wrong.empty()) continue;
    ADD_FAILURE() << to_string(a) << ", coordinate " << me << " of " << text(mine) << " against "
                  << text(theirs) << ": " << wrong;
    return false;
  }
  return true;
}

TEST(Overlap, EqualsDefinitionForAllSmallBlockCyclicPairs) {
  for (Index n = 0; n <= 16; ++n)
    for (Index b = 1; b <= 6; ++b)
      for (Index p = 1; p <= 4; ++p)
        for (Index block = 1; block <= 6; ++block)
          for (Index q = 1; q <= 4; ++q) {
            const BlockCyclic mine{.extent = n, .block = b, .grid = p, .source = (b + n) % p};
            const BlockCyclic theirs{
                .extent = n, .block = block, .grid = q, .source = (block + p) % q};
            for (Index me = 0; me < p; ++me)
              if (!all_algorithms_equal_definition(mine, me, theirs)) return;
          }
}

TEST(Overlap, EqualsDefinitionForAllSmallPairsWithCuts) {
  for (Index n = 1; n <= 19; n += 3)
    for (Index b = 1; b <= 5; ++b)
      for (Index p = 1; p <= 3; ++p)
        for (Index block = 2; block <= 7; ++block)
          for (Index q = 1; q <= 3; ++q)
            for (Index cut = 0; cut < b; ++cut)
              for (Index their_cut = 0; their_cut < block; ++their_cut) {
                const BlockCyclic mine{
                    .extent = n, .block = b, .grid = p, .source = (b + n) % p, .cut = cut};
                const BlockCyclic theirs{.extent = n,
                                         .block = block,
                                         .grid = q,
                                         .source = (block + p) % q,
                                         .cut = their_cut};
                if (!all_algorithms_equal_definition(mine, n % p, theirs)) return;
                if (!all_algorithms_equal_definition(theirs, n % q, mine)) return;
              }
}

TEST(Overlap, EqualsDefinitionForRandomBlockCyclicPairs) {
  Random random;
  for (int pair = 0; pair < testing_only::rounds(100'000); ++pair) {
    const Index n = random.one_in(50) ? random.in(100, 400) : random.in(0, 50);
    const BlockCyclic mine = random.block_cyclic(n, random.in(1, 20), 6);
    const BlockCyclic theirs = random.block_cyclic(n, random.in(1, 20), 8);
    if (!all_algorithms_equal_definition(mine, random.in(0, mine.grid - 1), theirs)) return;
  }
}

TEST(Overlap, EqualsDefinitionForRandomPairsWithSplits) {
  Random random;
  for (int pair = 0; pair < testing_only::rounds(15'000); ++pair) {
    const Index n = random.in(0, 50);
    const bool first = random.one_in(2);
    const Distribution a = random.splits(n, 5), b = random.distribution(n, 5);
    const Distribution &mine = first ? a : b, &theirs = first ? b : a;
    if (!all_algorithms_equal_definition(mine, random.in(0, grid(mine) - 1), theirs)) return;
  }
}

TEST(Overlap, EqualsDefinitionForMorePeersThanPieces) {
  Random random;
  for (int pair = 0; pair < testing_only::rounds(3'000); ++pair) {
    const Index n = random.in(1, 150);
    const BlockCyclic mine = random.block_cyclic(n, random.in(1, 40), 6);
    const BlockCyclic theirs = random.block_cyclic(n, random.in(1, 8), 3000);
    if (!all_algorithms_equal_definition(mine, random.in(0, mine.grid - 1), theirs)) return;
  }
}

TEST(Overlap, IsTheSameInReusedMemory) {
  Random random;
  OverlapFinder finder;
  for (int pair = 0; pair < testing_only::rounds(2'000); ++pair) {
    const Index n = random.in(0, 200);
    const Distribution mine = random.distribution(n, 6);
    const Distribution theirs = random.distribution(n, random.one_in(4) ? 2000 : 6);
    const Index me = random.in(0, grid(mine) - 1);
    const Algorithm algorithm = algorithms[random.in(0, 2)];
    const bool is_divided = has_cut(mine) && has_cut(theirs);
    const std::string wrong = mistake(finder.find(mine, {me}, theirs, algorithm),
                                      shared(deal(mine), me, deal(theirs)), is_divided);
    ASSERT_EQ(wrong, "") << to_string(algorithm) << ", coordinate " << me << " of " << text(mine)
                         << " against " << text(theirs);
  }
}

TEST(Overlap, StoresNestedBlocksAsFamilies) {
  // The example in the comment on SegmentList.
  const BlockCyclic cyclic{.extent = 24, .block = 1, .grid = 2},
      blocks{.extent = 24, .block = 6, .grid = 2};
  const Overlaps found = overlaps(cyclic, {0}, blocks);
  ASSERT_EQ(found.size(), 2U);
  const SegmentList list = found[0];
  ASSERT_EQ(list.period.size(), 1U);
  EXPECT_EQ(list.period[0].first, (Segment{{0}, {0}, 1}));
  EXPECT_EQ(list.period[0].count, 3);
  EXPECT_EQ(list.family_stride, 1);
  EXPECT_EQ(list.family_peer_stride, 2);
  EXPECT_EQ(list.repeat, 2);
  EXPECT_EQ(list.stride, 6);
  EXPECT_EQ(list.peer_stride, 6);
  EXPECT_EQ(list.tail, 0);
  const Overlaps longer =
      overlaps(BlockCyclic{.extent = 24'000'000'007, .block = 1, .grid = 2}, {0},
               BlockCyclic{.extent = 24'000'000'007, .block = 6, .grid = 2});
  EXPECT_EQ(longer.memory_bytes(), found.memory_bytes());
  EXPECT_EQ(longer[0].repeat, 2'000'000'000);
  EXPECT_EQ(longer[0].tail, 1);
  EXPECT_EQ(longer[0].elements() + longer[1].elements(), 12'000'000'004);
}

TEST(Overlap, RefusesUnequalExtentsAndWrongCoordinates) {
  const BlockCyclic d{.extent = 8, .block = 2, .grid = 2},
      longer{.extent = 9, .block = 2, .grid = 2};
  EXPECT_THROW(overlaps(d, {0}, longer), core::Error);
  EXPECT_THROW(overlaps(d, {2}, d), core::Error);
  EXPECT_THROW(overlaps(d, {-1}, d), core::Error);
}

TEST(Overlap, RefusesPatternsBeyondMemory) {
  std::vector<Piece> pieces;
  for (int i = 0; i < 100; ++i) add(pieces, 0, i, i, 1);
  EXPECT_NO_THROW(grow(pieces, 101));
  EXPECT_GE(pieces.capacity(), 101U);
  try {
    grow(pieces, 100);
    FAIL() << "expected an error";
  } catch (const core::Error& e) {
    EXPECT_EQ(e.code(), core::Errc::unsupported);
    EXPECT_NE(std::string(e.what()).find("at most 100 families of segments"), std::string::npos)
        << e.what();
  }
}

TEST(Overlap, RefusesLongWalksOverSplitsByClassical) {
  // Finding the interval of each of 40000 coordinates takes 1.6 * 10^9 steps.
  Splits each{.bounds = {0}, .owner = {}, .grid = 40'000};
  for (Index c = 0; c < each.grid; ++c) {
    each.bounds.push_back(c + 1);
    each.owner.push_back(c);
  }
  const BlockCyclic whole{.extent = each.grid, .block = each.grid};
  EXPECT_THROW(overlaps(whole, {0}, each, Algorithm::classical), core::Error);
  EXPECT_EQ(overlaps(whole, {0}, each).size(), 40'000U);
  EXPECT_EQ(overlaps(each, {7}, whole, Algorithm::classical).size(), 1U);
}

TEST(Overlap, AlgorithmsAreKnownByName) {
  for (const Algorithm a : algorithms) EXPECT_EQ(parse_algorithm(to_string(a)), a);
  try {
    parse_algorithm("Aspen");
    FAIL() << "expected an error";
  } catch (const core::Error& e) {
    EXPECT_STREQ(e.what(), "index algorithm: expected aspen, falls or classical, found \"Aspen\"");
  }
}

}  // namespace
}  // namespace tremula::index_calc
