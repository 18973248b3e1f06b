// SPDX-License-Identifier: Apache-2.0
#include "index_calc/plan/volumes.hpp"

#include <gtest/gtest.h>

#include <map>

#include "core/error.hpp"
#include "tests/index_calc/oracle.hpp"
#include "tests/index_calc/random.hpp"

namespace tremula::index_calc {
namespace {

using testing::Random, testing::World;

/// How many elements a rank of mine and a rank of theirs both own, by their group ranks, without
/// zeros.
using Matrix = std::map<std::pair<Rank, Rank>, Index>;

Matrix counted(const Layout& mine, const Layout& theirs) {
  Matrix result;
  const World here(mine), there(theirs);
  for (const auto& [global, owner] : here.owner) ++result[{owner, there.owner.at(global)}];
  return result;
}

Matrix matrix(const Volumes& volumes, const Layout& mine, const Layout& theirs) {
  Matrix result;
  const std::vector<Rank> my_ranks = ranks_of(mine), their_ranks = ranks_of(theirs);
  for (RankCount p = 0; p < volumes.rows(); ++p) {
    RankCount last = -1;
    for (const Volume& v : volumes.row(p)) {
      EXPECT_LT(last, v.peer) << "row " << p;
      last = v.peer;
      result[{my_ranks.at(static_cast<std::size_t>(p)),
              their_ranks.at(static_cast<std::size_t>(v.peer))}] += v.elements;
    }
  }
  return result;
}

TEST(Volumes, CountTheOwnersOfEveryElement) {
  Random random;
  for (int round = 0; round < 600; ++round) {
    std::vector<Index> shape;
    for (Index d = random.in(1, 4); d > 0; --d)
      shape.push_back(random.one_in(20) ? 0 : random.in(1, 9));
    const Index most = shape.size() == 1 ? 8 : 3;
    const Layout mine = random.layout(shape, most), theirs = random.layout(shape, most);
    SCOPED_TRACE(to_string(mine) + "  to  " + to_string(theirs));
    const Volumes volumes(mine, theirs);
    ASSERT_EQ(volumes.rows(), rank_count(mine));
    ASSERT_EQ(volumes.columns(), rank_count(theirs));
    const Matrix expected = counted(mine, theirs);
    ASSERT_EQ(matrix(volumes, mine, theirs), expected);
  }
}

/// Returns splits into intervals of at most `longest` elements, with random owners.
Splits many_intervals(Random& random, Index extent, Index longest) {
  Splits splits{.bounds = {0}, .owner = {}, .grid = random.in(1, 40)};
  while (splits.bounds.back() < extent) {
    splits.bounds.push_back(std::min(extent, splits.bounds.back() + random.in(1, longest)));
    splits.owner.push_back(random.in(0, splits.grid - 1));
  }
  return splits;
}

TEST(Volumes, CountManyIntervalsAgainstAnyBlocks) {
  Random random;
  for (int round = 0; round < 60; ++round) {
    const Index extent = random.in(1, 2000);
    const auto side = [&](bool has_intervals) {
      return Layout(
          Grid({has_intervals
                    ? Distribution(many_intervals(random, extent, random.in(1, 30)))
                    : Distribution(random.block_cyclic(extent, random.one_in(2) ? 3 : 300, 40))}));
    };
    const bool has_intervals = random.one_in(2);
    const Layout mine = side(has_intervals), theirs = side(!has_intervals || random.one_in(2));
    SCOPED_TRACE(to_string(mine) + "  to  " + to_string(theirs));
    ASSERT_EQ(matrix(Volumes(mine, theirs), mine, theirs), counted(mine, theirs));
  }
}

// An interval for each coordinate of both sides: one pass over the intervals, not one for each.
TEST(Volumes, MergeTheIntervalsOfManyCoordinates) {
  const auto shifted = [](Index first) {
    Splits splits{.bounds = {0, first}, .owner = {0}, .grid = 100'001};
    for (Index c = 1; c < splits.grid; ++c) {
      splits.bounds.push_back(splits.bounds.back() + (c + 1 < splits.grid ? 4 : 5 - first));
      splits.owner.push_back(c);
    }
    return splits;
  };
  const Layout mine(Grid({shifted(1)})), theirs(Grid({shifted(3)}));
  const Volumes volumes(mine, theirs);
  EXPECT_EQ(volumes.row(0), (std::vector<Volume>{{0, 1}}));
  EXPECT_EQ(volumes.row(1), (std::vector<Volume>{{0, 2}, {1, 2}}));
  EXPECT_EQ(volumes.row(99'999), (std::vector<Volume>{{99'998, 2}, {99'999, 2}}));
  EXPECT_EQ(volumes.row(100'000), (std::vector<Volume>{{99'999, 2}, {100'000, 2}}));
}

// Two billion pairs of an interval and a coordinate overlap, too many to visit each of them.
TEST(Volumes, CountIntervalsThatMeetEveryCoordinate) {
  const Index intervals = 500'000, coordinates = 4096;
  Splits splits{.bounds = {0}, .owner = {}, .grid = 2};
  for (Index i = 0; i < intervals; ++i) {
    splits.bounds.push_back((i + 1) * coordinates);
    splits.owner.push_back(i % 2);
  }
  const Layout mine(Grid({splits})),
      theirs(Grid({BlockCyclic{.extent = intervals * coordinates, .grid = coordinates}}));
  const std::vector<Volume> row = Volumes(mine, theirs).row(1);
  ASSERT_EQ(row.size(), 4096U);
  EXPECT_EQ(row.back(), (Volume{4095, intervals / 2}));
  EXPECT_EQ(Volumes(theirs, mine).row(4095),
            (std::vector<Volume>{{0, intervals / 2}, {1, intervals / 2}}));
}

TEST(Volumes, CountIntervalsAgainstBlocksIn63Bits) {
  const Layout mine = Layout::parse(
                   "shape=9223372036854775807 grid=2 splits0=0/5/9223372036854775807"),
               theirs = Layout::parse(
                   "shape=9223372036854775807 grid=2 block=4611686018427387904 "
                   "cut=4611686018427387901");
  EXPECT_EQ(Volumes(mine, theirs).row(0), (std::vector<Volume>{{0, 3}, {1, 2}}));
  EXPECT_EQ(Volumes(mine, theirs).row(1),
            (std::vector<Volume>{{0, 4611686018427387900}, {1, 4611686018427387902}}));
}

TEST(Volumes, Are64Bits) {
  const Layout whole = Layout::parse("shape=3037000499x3037000499 grid=1x1");
  const Layout rows = Layout::parse("shape=3037000499x3037000499 grid=2x1");
  EXPECT_EQ(Volumes(whole, whole).row(0),
            (std::vector<Volume>{{0, Index{3037000499} * 3037000499}}));
  EXPECT_EQ(Volumes(whole, rows).row(0),
            (std::vector<Volume>{{0, Index{1518500250} * 3037000499},
                                 {1, Index{1518500249} * 3037000499}}));
}

TEST(Volumes, FollowTheFactorsAndNotTheRanks) {
  const Layout mine = Layout::parse("shape=1000000000000x1000000 grid=1000x1000"),
               theirs = Layout::parse("shape=1000000000000x1000000 grid=999x1001 ranks=column");
  const Volumes volumes(mine, theirs);
  EXPECT_EQ(volumes.rows(), 1'000'000);
  EXPECT_EQ(volumes.columns(), 999'999);
  const auto row = volumes.row(999'999);
  EXPECT_LE(row.size(), 4U);
  Index elements = 0;
  for (const Volume& v : row) elements += v.elements;
  EXPECT_EQ(elements, local_part(mine, Rank{999'999}).elements);
}

TEST(Volumes, RefuseOtherShapesAndTooManyPairs) {
  const auto complaint = [](const std::string& from, const std::string& to) {
    try {
      Volumes(Layout::parse(from), Layout::parse(to));
    } catch (const core::Error& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_EQ(
      complaint("shape=8x6 grid=1x1", "shape=6x8 grid=1x1"),
      "expected two layouts of the same shape, found this side's \"shape=8x6 grid=1x1\" and the "
      "other side's \"shape=6x8 grid=1x1\"; give both the same shape");
  const std::string shape = "shape=100000000 ";
  EXPECT_EQ(complaint(shape + "grid=4097 block=1", shape + "grid=4096 block=1"),
            "expected at most 16777216 pairs of coordinates that overlap along dimension 0, found "
            "more, grid 4097 against grid 4096; take coarser grids, or larger blocks");
  EXPECT_EQ(complaint("shape=16777217 grid=1 splits0=0/16777217", "shape=16777217 grid=16777217"),
            "expected at most 16777216 pairs of coordinates that overlap along dimension 0, found "
            "more, grid 1 against grid 16777217; take coarser grids, or larger blocks");
  EXPECT_THROW(Volumes(Layout::parse("shape=4 grid=2"), Layout::parse("shape=4 grid=2")).row(2),
               core::Error);
}

}  // namespace
}  // namespace tremula::index_calc
