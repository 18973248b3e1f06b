// SPDX-License-Identifier: Apache-2.0
// Compares tiles of random layouts with the contents of every place of every buffer, by definition.
#include "cli/plan/picture/tiles.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "listed_sides.hpp"
#include "tests/index_calc/skew/skewed_oracle.hpp"

namespace tremula::cli {
namespace {

using index_calc::Layout;
using index_calc::testing::Numbers, index_calc::testing::Random;

std::vector<Index> drawn_shape(Random& random) {
  std::vector<Index> shape{random.in(1, 30)};
  if (random.one_in(2)) shape.push_back(random.in(1, 30));
  return shape;
}

/// Returns a layout that is dense in its buffers, as a redistribution with a skewed layout requires.
Layout random_layout(Random& random, const std::vector<Index>& shape) {
  if (random.one_in(2)) return index_calc::testing::random_skewed(random, shape, 12);
  const Layout layout = random.layout(shape, 4, true);
  return layout.dense();
}

Index number_at(const ShownPart& part, Index row, Index column) {
  return row * part.columns.extent + column;
}

template <class Visit>
void for_each_element(const Tile& tile, const ShownPart& part, const Visit& visit) {
  for (Index row = tile.top; row < tile.bottom; ++row)
    for (Index column = tile.left; column < tile.right; ++column)
      visit(number_at(part, row, column));
}

std::map<Index, std::vector<Rank>> holders(const Numbers& numbers, const ShownPart& part) {
  std::map<Index, std::vector<Rank>> result;
  for (const auto& [rank, buffer] : numbers)
    for (const Index number : buffer)
      if (number >= 0 && number / part.columns.extent < part.rows.shown &&
          number % part.columns.extent < part.columns.shown)
        if (auto& ranks = result[number]; ranks.empty() || ranks.back() != rank)
          ranks.push_back(rank);
  return result;
}

TEST(HeldTiles, NameTheRanksThatHaveTheElements) {
  Random random;
  for (int i = 0; i < 300; ++i) {
    const auto shape = drawn_shape(random);
    const Redistribution r{.from = random_layout(random, shape),
                           .to = random_layout(random, shape)};
    SCOPED_TRACE(to_string(r.from) + " to " + to_string(r.to));
    const ShownPart part(r);
    for (const Side side : {Side::producer, Side::consumer}) {
      std::map<Index, std::vector<Rank>> found;
      for (const HeldTiles& of : held_tiles(r, side, part))
        for (const Tile& tile : of.tiles)
          for_each_element(tile, part, [&](Index number) {
            EXPECT_TRUE(found.emplace(number, of.ranks).second) << number << " is in two tiles";
          });
      EXPECT_EQ(found, holders(index_calc::testing::numbers_of(r.layout_of(side)), part));
    }
    if (HasFailure()) return;
  }
}

/// Returns a side's buffers in the form that the oracle for skewed layouts uses.
Numbers numbers_of(const index_calc::testing::Side& side) {
  Numbers numbers;
  for (std::size_t r = 0; r < side.numbers.size(); ++r) numbers[core::to_rank(r)] = side.numbers[r];
  return numbers;
}

/// Every element that is on a rank is in exactly one tile, which names all ranks of the element; a
/// square contains only elements of its ranks.
TEST(HeldTiles, NameTheRanksThatListTheElements) {
  Random random;
  for (int i = 0; i < 200; ++i) {
    const auto sides = testing::random_sides(random, drawn_shape(random), true);
    const Redistribution r = testing::redistribution_of(sides, Side::producer);
    SCOPED_TRACE(to_string(r.from) + " to " + to_string(r.to));
    const ShownPart part(r);
    for (const Side side : {Side::producer, Side::consumer}) {
      std::map<Index, std::vector<Rank>> found;
      for (const HeldTiles& of : held_tiles(r, side, part)) {
        EXPECT_FALSE(of.ranks.empty());
        for (const Tile& tile : of.tiles)
          for_each_element(tile, part, [&](Index number) {
            EXPECT_TRUE(found.emplace(number, of.ranks).second) << number << " is in two tiles";
          });
        if (!of.square) continue;
        EXPECT_EQ(of.square->bottom - of.square->top, of.square->right - of.square->left);
        for_each_element(*of.square, part,
                         [&](Index number) { EXPECT_EQ(found[number], of.ranks); });
      }
      const auto& listed = side == Side::producer ? sides.first : sides.second;
      EXPECT_EQ(found, holders(numbers_of(listed), part));
    }
    if (HasFailure()) return;
  }
}

TEST(HeldTiles, HaveTheLargestSquareOfListedElements) {
  Redistribution r{.from = Layout::parse("shape=4x6 lists=2"),
                   .to = Layout::parse("shape=4x6 grid=1x1")};
  const std::vector<Index> shape{4, 6};
  // 0 0 0 0 1 0      1 is an L; its lower right is a square of 3.
  // 0 0 0 1 1 1
  // 0 0 0 1 1 1
  // 1 1 1 1 1 1
  r.lists = match_all(
      r.from, r.to,
      std::vector{index_calc::IndexList::of_segments(shape, std::vector<Index>{0, 5, 6, 12},
                                                     std::vector<Index>{4, 1, 3, 3}),
                  index_calc::IndexList::of_segments(shape, std::vector<Index>{4, 9, 15},
                                                     std::vector<Index>{1, 3, 9})},
      {});
  const auto held = held_tiles(r, Side::producer, ShownPart(r));
  ASSERT_EQ(held.size(), 2u);
  EXPECT_EQ(held[0].square, (Tile{0, 3, 0, 3}));
  EXPECT_EQ(held[1].square, (Tile{1, 4, 3, 6}));
  EXPECT_EQ(held[1].tiles, (std::vector<Tile>{{3, 4, 0, 6}, {1, 3, 3, 6}, {0, 1, 4, 5}}));
}

/// Rows of a large array are longer than its shown part.
TEST(HeldTiles, CoverTheShownCorner) {
  const Redistribution r{
      .from = Layout::parse("shape=90x70 mesh=3x2 block=1x1 owner0=b0+b1 owner1=b1/2"),
      .to = Layout::parse("shape=90x70 mesh=2x2 axes1=1")};
  const ShownPart part(r);
  ASSERT_EQ(part.rows.shown, 24);
  for (const Side side : {Side::producer, Side::consumer}) {
    const auto expected = holders(index_calc::testing::numbers_of(r.layout_of(side)), part);
    std::size_t elements = 0;
    for (const HeldTiles& of : held_tiles(r, side, part))
      for (const Tile& tile : of.tiles)
        for_each_element(tile, part, [&](Index number) {
          EXPECT_EQ(of.ranks, expected.at(number));
          ++elements;
        });
    EXPECT_EQ(elements, expected.size());
  }
}

/// Checks that all packages of a consumer together cover the elements that it shares with any
/// producer, and that each package has only elements of its producer.
void expect_packages_are_what_consumers_get(const Redistribution& r, const Numbers& sent_numbers,
                                            const Numbers& wanted_numbers) {
  SCOPED_TRACE(to_string(r.from) + " to " + to_string(r.to) + " by " +
               std::string(to_string(r.side)));
  const ShownPart part(r);
  const auto sent = holders(sent_numbers, part), wanted = holders(wanted_numbers, part);
  std::set<std::pair<Index, Rank>> got, expected;
  for (const Rank rank : ranks_of(r.mine())) {
    const RankPlan plan = testing::plan_of(r, rank);
    plan.plan.for_each_package([&](const index_calc::Package& package) {
      const bool is_producer = r.side == Side::producer;
      const Rank producer = is_producer ? rank : package.peer,
                 consumer = is_producer ? package.peer : rank;
      for (const Tile& tile : package_tiles(r, plan, package, part))
        for_each_element(tile, part, [&](Index number) {
          EXPECT_TRUE(std::ranges::binary_search(sent.at(number), producer));
          EXPECT_TRUE(got.emplace(number, consumer).second) << number << " arrives twice";
        });
    });
  }
  for (const auto& [number, ranks] : wanted)
    if (sent.contains(number))
      for (const Rank rank : ranks) expected.emplace(number, rank);
  EXPECT_EQ(got, expected);
}

TEST(PackageTiles, CoverTheElementsOfAConsumer) {
  Random random;
  for (int i = 0; i < 200; ++i) {
    const auto shape = drawn_shape(random);
    const Redistribution r{.from = random_layout(random, shape),
                           .to = random_layout(random, shape),
                           .side = random.one_in(2) ? Side::producer : Side::consumer};
    expect_packages_are_what_consumers_get(r, index_calc::testing::numbers_of(r.from),
                                           index_calc::testing::numbers_of(r.to));
    if (HasFailure()) return;
  }
}

TEST(PackageTiles, CoverTheElementsOfAConsumerOfLists) {
  Random random;
  for (int i = 0; i < 200; ++i) {
    const auto sides = testing::random_sides(random, drawn_shape(random));
    expect_packages_are_what_consumers_get(
        testing::redistribution_of(sides, random.one_in(2) ? Side::producer : Side::consumer),
        numbers_of(sides.first), numbers_of(sides.second));
    if (HasFailure()) return;
  }
}

TEST(Joined, JoinsNeighbours) {
  const std::vector<Tile> squares{{0, 2, 4, 6}, {0, 2, 0, 2}, {2, 4, 0, 2}, {0, 2, 2, 4},
                                  {2, 4, 2, 4}, {4, 5, 0, 4}, {6, 7, 0, 4}, {2, 4, 4, 6}};
  EXPECT_EQ(joined(squares), (std::vector<Tile>{{4, 5, 0, 4}, {6, 7, 0, 4}, {0, 4, 0, 6}}));
}

}  // namespace
}  // namespace tremula::cli
