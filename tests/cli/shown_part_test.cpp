// SPDX-License-Identifier: Apache-2.0
#include "cli/plan/picture/shown_part.hpp"

#include <gtest/gtest.h>

namespace tremula::cli {
namespace {

using index_calc::BlockCyclic, index_calc::Splits;
using Intervals = std::vector<Interval>;

TEST(ShownAxis, IsTheWholeOfFewBlocks) {
  const ShownAxis axis = shown_axis(BlockCyclic{.extent = 10, .block = 4, .grid = 2, .source = 1},
                                    Splits{.bounds = {0, 3, 10}, .owner = {1, 0}, .grid = 2});
  EXPECT_TRUE(axis.is_whole());
  EXPECT_EQ(axis.from, (Intervals{{0, 4, 1}, {4, 8, 0}, {8, 10, 1}}));
  EXPECT_EQ(axis.to, (Intervals{{0, 3, 1}, {3, 10, 0}}));
}

TEST(ShownAxis, HasAtMost64Blocks) {
  const BlockCyclic whole{.extent = 1000, .block = 1000};
  EXPECT_TRUE(shown_axis(BlockCyclic{.extent = 64}, BlockCyclic{.extent = 64}).is_whole());
  EXPECT_EQ(shown_axis(BlockCyclic{.extent = 65}, BlockCyclic{.extent = 65, .block = 65}).shown,
            24);
  EXPECT_EQ(shown_axis(whole, BlockCyclic{.extent = 1000, .block = 7, .grid = 3}).shown, 24 * 7);
  const Index large = Index{1} << 62;
  const ShownAxis axis = shown_axis(BlockCyclic{.extent = large, .block = large / 2, .grid = 2},
                                    BlockCyclic{.extent = large, .block = 3, .grid = 1000});
  EXPECT_EQ(axis.shown, 72);
  EXPECT_EQ(axis.from, (Intervals{{0, 72, 0}}));
}

TEST(ShownAxis, BeginsWithAShorterBlockWhereItIsCut) {
  const ShownAxis whole =
      shown_axis(BlockCyclic{.extent = 10, .block = 4, .grid = 2, .source = 1, .cut = 3},
                 BlockCyclic{.extent = 10, .block = 20, .grid = 2, .source = 0, .cut = 19});
  EXPECT_TRUE(whole.is_whole());
  EXPECT_EQ(whole.from, (Intervals{{0, 1, 1}, {1, 5, 0}, {5, 9, 1}, {9, 10, 0}}));
  EXPECT_EQ(whole.to, (Intervals{{0, 1, 0}, {1, 10, 1}}));
  const Index large = Index{1} << 62;
  const ShownAxis corner =
      shown_axis(BlockCyclic{.extent = large, .block = 7, .grid = 2, .source = 0, .cut = 5},
                 BlockCyclic{.extent = large, .block = large, .grid = 3, .source = 2, .cut = 1});
  EXPECT_EQ(corner.shown, 24 * 7 - 5);
  EXPECT_EQ(corner.from[1], (Interval{2, 9, 1}));
  EXPECT_EQ(corner.to, (Intervals{{0, 24 * 7 - 5, 2}}));
}

TEST(ShownAxis, EndsWithAPeriodWhereOneFits) {
  // Periods of 12 elements: 6 blocks of 2. Four of them are 24 blocks.
  const ShownAxis some = shown_axis(BlockCyclic{.extent = 1000, .block = 2, .grid = 2},
                                    BlockCyclic{.extent = 1000, .block = 3, .grid = 2});
  EXPECT_EQ(some.shown, 48);
  EXPECT_EQ(some.periods, 4);
  // Of 60 elements: 60 blocks.
  const ShownAxis one = shown_axis(BlockCyclic{.extent = 1000, .block = 1, .grid = 4},
                                   BlockCyclic{.extent = 1000, .block = 5, .grid = 3});
  EXPECT_EQ(one.shown, 60);
  EXPECT_EQ(one.periods, 1);
  const ShownAxis none = shown_axis(BlockCyclic{.extent = 1000, .block = 1, .grid = 8},
                                    BlockCyclic{.extent = 1000, .block = 5, .grid = 3});
  EXPECT_EQ(none.shown, 24);
  EXPECT_EQ(none.periods, 0);
}

TEST(Intervals, AreOwnedAndCommon) {
  const Intervals a{{0, 4, 1}, {4, 8, 1}, {8, 10, 0}, {10, 12, 1}};
  EXPECT_EQ(owned(a, 1), (Intervals{{0, 8, 1}, {10, 12, 1}}));
  EXPECT_EQ(common(owned(a, 1), {{1, 2, 0}, {6, 11, 0}, {12, 13, 0}}),
            (Intervals{{1, 2, 1}, {6, 8, 1}, {10, 11, 1}}));
}

}  // namespace
}  // namespace tremula::cli
