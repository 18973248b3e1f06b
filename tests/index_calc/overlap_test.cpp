// SPDX-License-Identifier: Apache-2.0
#include "index_calc/overlap.hpp"

#include <gtest/gtest.h>

#include "tests/index_calc/oracle.hpp"
#include "tests/index_calc/random.hpp"

namespace tremula::index_calc {

namespace {

using testing::deal, testing::Dealt, testing::Random, testing::shared;

constexpr Algorithm algorithms[] = {Algorithm::aspen, Algorithm::falls, Algorithm::classical};

std::string text(const Distribution& d) {
  Layout layout;
  layout.dims.push_back(d);
  return "\"" + to_string(layout) + "\"";
}

std::string text(const Segment& s) {
  return "[" + std::to_string(s.begin.value) + "+" + std::to_string(s.length) + " at the peer's " +
         std::to_string(s.peer_begin.value) + "]";
}

Index sum_of_lengths(const std::vector<Segment>& segments) {
  Index sum = 0;
  for (const Segment& s : segments) sum += s.length;
  return sum;
}

/// The first fact that a list gets wrong; empty if none.
std::string mistake(const SegmentList& found, const std::vector<Segment>& expected) {
  std::size_t i = 0;
  std::string result;
  found.for_each([&](const Segment& s) {
    if (result.empty() && (i >= expected.size() || s != expected[i]))
      result = "segment " + std::to_string(i) + " is " + text(s) + ", expected " +
               (i < expected.size() ? text(expected[i]) : "none");
    ++i;
  });
  if (!result.empty()) return result;
  if (i != expected.size()) return std::to_string(expected.size() - i) + " segments missing";
  if (found.segments() != static_cast<Index>(expected.size())) return "segments()";
  if (found.elements() != sum_of_lengths(expected)) return "elements()";
  if (found.first() != expected.front()) return "first()";
  if (found.last() != expected.back()) return "last()";
  return {};
}

/// The first fact that an Overlaps gets wrong; empty if none.
std::string mistake(const Overlaps& found, const std::map<Index, std::vector<Segment>>& expected) {
  if (found.size() != expected.size()) return "number of peers: " + std::to_string(found.size());
  std::size_t i = 0;
  for (const auto& [peer, segments] : expected) {
    if (found.peers()[i].value != peer) return "peer " + std::to_string(found.peers()[i].value);
    const std::string in_list = mistake(found[i], segments);
    if (!in_list.empty()) return "peer " + std::to_string(peer) + ", " + in_list;
    if (found.elements(i) != sum_of_lengths(segments))
      return "elements of peer " + std::to_string(peer);
    ++i;
  }
  return {};
}

/// All algorithms, from all coordinates, against the oracle.
bool all_algorithms_equal_definition(const Distribution& mine, const Distribution& theirs) {
  const Dealt my_deal = deal(mine), their_deal = deal(theirs);
  for (Index me = 0; me < grid(mine); ++me) {
    const auto expected = shared(my_deal, me, their_deal);
    for (const Algorithm a : algorithms) {
      const std::string wrong = mistake(overlaps(mine, {me}, theirs, a), expected);
      if (wrong.empty()) continue;
      ADD_FAILURE() << to_string(a) << ", coordinate " << me << " of " << text(mine) << " against "
                    << text(theirs) << ": " << wrong;
      return false;
    }
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
            if (!all_algorithms_equal_definition(mine, theirs)) return;
          }
}

TEST(Overlap, EqualsDefinitionForRandomBlockCyclicPairs) {
  Random random;
  for (int pair = 0; pair < 100'000; ++pair) {
    const Index n = random.one_in(50) ? random.in(100, 400) : random.in(0, 50);
    const BlockCyclic mine = random.block_cyclic(n, random.in(1, 20), 4);
    if (!all_algorithms_equal_definition(mine, random.block_cyclic(n, random.in(1, 20), 6))) return;
  }
}

TEST(Overlap, EqualsDefinitionForRandomPairsWithSplits) {
  Random random;
  for (int pair = 0; pair < 20'000; ++pair) {
    const Index n = random.in(0, 50);
    const bool first = random.one_in(2);
    const Distribution a = random.splits(n, 5), b = random.distribution(n, 5);
    if (!all_algorithms_equal_definition(first ? a : b, first ? b : a)) return;
  }
}

}  // namespace
}  // namespace tremula::index_calc
