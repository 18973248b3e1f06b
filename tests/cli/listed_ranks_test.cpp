// SPDX-License-Identifier: Apache-2.0
// Checks plans of ranks that list what they own against the contents of every place in every buffer.
#include "cli/plan/listed_ranks.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "core/error.hpp"
#include "listed_sides.hpp"

namespace tremula::cli {
namespace {

using index_calc::IndexList, index_calc::Layout;
using testing::Random;

/// Returns, for each element, the ranks of a side that have it.
std::map<Index, std::set<Rank>> owners(const index_calc::testing::Side& side) {
  std::map<Index, std::set<Rank>> result;
  for (std::size_t r = 0; r < side.numbers.size(); ++r)
    for (const Index number : side.numbers[r])
      if (number >= 0) result[number].insert(core::to_rank(r));
  return result;
}

/// Each element that a consumer needs arrives once, from a producer that has it. It moves from its place
/// in the producer's buffer to its place in the consumer's. Elements are sent in ascending order.
TEST(ListedRanks, ExchangeTheElementsThatBothSidesHave) {
  Random random;
  for (int i = 0; i < 300; ++i) {
    const auto shape = index_calc::testing::random_shape(random);
    const testing::Sides sides = testing::random_sides(random, shape);
    const Side side = random.one_in(2) ? Side::producer : Side::consumer;
    const Redistribution r = testing::redistribution_of(sides, side);
    const auto& [from, to] = sides;
    SCOPED_TRACE(to_string(r.from) + " to " + to_string(r.to));
    std::set<std::pair<Index, Rank>> got, expected;
    const auto offered = owners(from), wanted = owners(to);
    for (const auto& [number, ranks] : wanted)
      if (offered.contains(number))
        for (const Rank rank : ranks) expected.emplace(number, rank);
    const bool is_producer = side == Side::producer;
    const auto &mine = is_producer ? from : to, &theirs = is_producer ? to : from;
    for (const Rank me : core::all_ranks(mine.ranks())) {
      const RankPlan plan = testing::plan_of(r, me);
      const auto& here = mine.numbers[at(me)];
      EXPECT_EQ(plan.part.elements, std::ranges::count_if(here, [](Index n) { return n >= 0; }));
      plan.plan.for_each_package([&](const index_calc::Package& package) {
        const auto& there = theirs.numbers[at(package.peer)];
        Index last = -1, elements = 0;
        for_each_listed_segment(package, [&](const index_calc::Segment& s) {
          for (Index k = 0; k < s.length; ++k, ++elements) {
            const Index number = here.at(static_cast<std::size_t>(s.begin.value + k));
            EXPECT_EQ(number, there.at(static_cast<std::size_t>(s.peer_begin.value + k)));
            EXPECT_GT(number, last);
            last = number;
            EXPECT_TRUE(got.emplace(number, is_producer ? package.peer : me).second);
          }
        });
        EXPECT_EQ(package.elements, elements);
      });
    }
    EXPECT_EQ(got, expected);
    if (HasFailure()) return;
  }
}

std::string complaint(const std::string& from, const std::vector<std::vector<Index>>& points) {
  const Layout layout = Layout::parse(from);
  std::vector<IndexList> lists;
  for (const auto& of_rank : points)
    lists.push_back(IndexList::of_points(index_calc::shape(layout), of_rank));
  try {
    match_all(layout, Layout::parse("shape=2x3 grid=2x1"), lists, {});
  } catch (const core::Error& e) {
    EXPECT_EQ(e.code(), core::Errc::mismatch);
    return e.what();
  }
  return "none";
}

TEST(ListedRanks, NameAnElementThatIsOnNoRankOrOnTwo) {
  EXPECT_EQ(complaint("shape=2x3 lists=2", {{0, 1, 2}, {3, 4, 5}}), "none");
  EXPECT_EQ(
      complaint("shape=2x3 lists=2", {{0, 1, 2}, {3, 5}}),
      "index lists of the producer: expected every element on a rank; found element (1, 1) on "
      "none: list it, or declare the layout partial");
  EXPECT_EQ(complaint("shape=2x3 lists=2", {{0, 1, 2, 4}, {3, 4, 5}}),
            "index lists of the producer: expected every element on one rank; found element (1, 1) "
            "on ranks 1 and 0: list it once, or declare the layout to have copies");
  EXPECT_EQ(complaint("shape=2x3 lists=2 partial=yes", {{0}, {5}}), "none");
  EXPECT_EQ(complaint("shape=2x3 lists=2 copies=yes", {{0, 1, 2, 4}, {3, 4, 5}}), "none");
  EXPECT_NE(complaint("shape=3x2 lists=2", {{0, 1, 2}, {3, 4, 5}}).find("the same shape"),
            std::string::npos);
}

/// If a producer stores its array by columns, elements listed row by row form runs of one element.
TEST(ListedRanks, HaveRunsInWireOrder) {
  const std::vector<Index> shape{48, 96};
  std::vector<Index> points;
  for (Index number = 0; number < 48 * 96; ++number)
    if (number % 96 % 3 != 2) points.push_back(number);
  const auto from = index_calc::Layout::parse("shape=48x96 grid=1x1 store=column");
  const auto listed =
      listed_layout(shape, 1, true, false, index_calc::IndexList::of_points(shape, points));
  const auto r = testing::redistribution_of(
      {{.layout = {from}}, {.layout = {listed}, .is_partial = true}}, Side::producer);
  const RankPlan plan = testing::plan_of(r, Rank{0});
  EXPECT_GT(plan.plan[0].along[0].elements(), 1);  // rows of one pattern
  EXPECT_EQ(facts(r, plan, plan.plan[0]).runs,
            (index_calc::Runs{.count = 3072, .longest = 1, .shortest = 1}));
}

}  // namespace
}  // namespace tremula::cli
