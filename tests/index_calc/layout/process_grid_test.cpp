// SPDX-License-Identifier: Apache-2.0
#include "index_calc/layout/process_grid.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "tests/index_calc/random.hpp"

namespace tremula::index_calc {

namespace {

using testing::Random;

TEST(ProcessGrid, RanksNumberTheGridInRankOrder) {
  Layout layout = Layout::parse("shape=6x6 grid=2x3");
  const GridCoords row_of_4{GridCoord{1}, GridCoord{1}}, column_of_4{GridCoord{0}, GridCoord{2}};
  EXPECT_EQ(coords_of(layout, Rank{4}), row_of_4);
  EXPECT_EQ(ProcessGrid(layout).rank_at(row_of_4), Rank{4});
  layout = layout.with(Ranks{.order = Order::column});
  EXPECT_EQ(coords_of(layout, Rank{4}), column_of_4);
  EXPECT_EQ(ProcessGrid(layout).rank_at(column_of_4), Rank{4});
  for (const Rank outside : {Rank{-1}, Rank{6}, Rank{std::numeric_limits<RankCount>::max()}}) {
    EXPECT_FALSE(coords_of(layout, outside));
    EXPECT_FALSE(ProcessGrid(layout).coords_of(outside));
  }
}

TEST(ProcessGrid, MembersTakePartInGridOrder) {
  const Layout layout = Layout::parse("shape=6x6 grid=2x2 members=5-6/1/9");
  const std::vector<Rank> members = {{5}, {6}, {1}, {9}};
  EXPECT_EQ(ranks_of(layout), members);
  EXPECT_EQ(ranks_of(Layout::parse("shape=6x6 grid=2x1")), (std::vector<Rank>{{0}, {1}}));
  const ProcessGrid grid(layout);
  EXPECT_EQ(grid.size(), 4);
  for (RankCount cell = 0; cell < 4; ++cell) {
    const GridCoords coords{GridCoord{cell / 2}, GridCoord{cell % 2}};
    const Rank rank = members[static_cast<std::size_t>(cell)];
    EXPECT_EQ(grid.rank_at(coords), rank);
    EXPECT_EQ(grid.coords_of(rank), coords);
    EXPECT_EQ(coords_of(layout, rank), coords);
  }
  for (const Rank idle : {Rank{-1}, Rank{0}, Rank{2}, Rank{4}, Rank{7}, Rank{10}}) {
    EXPECT_FALSE(coords_of(layout, idle));
    EXPECT_FALSE(grid.coords_of(idle));
    EXPECT_EQ(local_part(layout, idle).allocated, 0);
  }
}

TEST(ProcessGrid, RankAtIsInverseOfCoordsOf) {
  Random random;
  for (int round = 0; round < 300; ++round) {
    const Layout layout = random.layout({random.in(0, 9), random.in(1, 9), random.in(1, 9)}, 3);
    const ProcessGrid grid(layout);
    RankCount taking_part = 0;
    for (const Rank rank : all_ranks(40)) {
      const auto coords = coords_of(layout, rank);
      ASSERT_EQ(grid.coords_of(rank), coords) << to_string(layout);
      if (!coords) continue;
      ++taking_part;
      ASSERT_EQ(grid.rank_at(*coords), rank) << to_string(layout);
    }
    ASSERT_EQ(taking_part, rank_count(layout)) << to_string(layout);
  }
}

TEST(ProcessGrid, FindsMembersWithoutSearchingEveryRange) {
  // Searching all ranges for each query would take 2^41 steps.
  constexpr RankCount ranks = 1 << 20;
  Ranks members;
  for (RankCount r = 0; r < ranks; ++r) members.members.push_back({Rank{2 * (ranks - 1 - r)}, 1});
  const Layout layout = Layout::parse("shape=1048576 grid=1048576").with(members);
  const ProcessGrid grid(layout);
  for (RankCount r = 0; r < ranks; ++r) {
    const GridCoords coords{GridCoord{r}};
    ASSERT_EQ(grid.rank_at(coords), Rank{2 * (ranks - 1 - r)});
    ASSERT_EQ(grid.coords_of(Rank{2 * (ranks - 1 - r)}), coords);
    ASSERT_FALSE(grid.coords_of(Rank{2 * r + 1}));
  }
}

}  // namespace
}  // namespace tremula::index_calc
