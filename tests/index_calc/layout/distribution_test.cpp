// SPDX-License-Identifier: Apache-2.0
#include "index_calc/layout/distribution.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "core/error.hpp"
#include "tests/index_calc/oracle.hpp"
#include "tests/index_calc/random.hpp"

namespace tremula::index_calc {
namespace {

using testing::deal, testing::Dealt, testing::Random;

// Values returned by ScaLAPACK 2.2.1 (numroc_, indxg2p_, indxg2l_), converted to 0-based indices.

TEST(Distribution, LocalExtentEqualsNumroc) {
  const struct {
    BlockCyclic d;
    std::vector<Index> numroc;  ///< shape: [coordinate]
  } rows[] = {
      {{.extent = 9, .block = 2, .grid = 2, .source = 0}, {5, 4}},
      {{.extent = 9, .block = 2, .grid = 3, .source = 0}, {4, 3, 2}},
      {{.extent = 10, .block = 3, .grid = 3, .source = 2}, {3, 3, 4}},
      {{.extent = 100, .block = 30, .grid = 4, .source = 1}, {10, 30, 30, 30}},
      {{.extent = 7, .block = 10, .grid = 2, .source = 1}, {0, 7}},
      {{.extent = 1, .block = 1, .grid = 5, .source = 0}, {1, 0, 0, 0, 0}},
      {{.extent = 64, .block = 8, .grid = 4, .source = 3}, {16, 16, 16, 16}},
      {{.extent = 1000, .block = 64, .grid = 7, .source = 2}, {128, 128, 192, 168, 128, 128, 128}},
      {{.extent = 13, .block = 4, .grid = 3, .source = 0}, {5, 4, 4}},
  };
  for (const auto& row : rows)
    for (Index c = 0; c < row.d.grid; ++c)
      EXPECT_EQ(local_extent(row.d, {c}), row.numroc[static_cast<std::size_t>(c)])
          << "extent " << row.d.extent << " block " << row.d.block << " coordinate " << c;
}

TEST(Distribution, OwnerAndLocalIndexEqualIndxg2pAndIndxg2l) {
  const struct {
    BlockCyclic d;
    std::vector<Index> indxg2p, indxg2l;  ///< shape: [element]
  } rows[] = {
      {{.extent = 9, .block = 2, .grid = 2, .source = 0},
       {0, 0, 1, 1, 0, 0, 1, 1, 0},
       {0, 1, 0, 1, 2, 3, 2, 3, 4}},
      {{.extent = 11, .block = 3, .grid = 3, .source = 2},
       {2, 2, 2, 0, 0, 0, 1, 1, 1, 2, 2},
       {0, 1, 2, 0, 1, 2, 0, 1, 2, 3, 4}},
      {{.extent = 10, .block = 1, .grid = 4, .source = 1},
       {1, 2, 3, 0, 1, 2, 3, 0, 1, 2},
       {0, 0, 0, 0, 1, 1, 1, 1, 2, 2}},
      {{.extent = 12, .block = 5, .grid = 2, .source = 0},
       {0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0},
       {0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6}},
  };
  for (const auto& row : rows)
    for (Index i = 0; i < row.d.extent; ++i) {
      EXPECT_EQ(owner(row.d, {i}).value, row.indxg2p[static_cast<std::size_t>(i)]);
      EXPECT_EQ(to_local(row.d, {i}).value, row.indxg2l[static_cast<std::size_t>(i)]);
    }
  const struct {
    Index i;
    BlockCyclic d;
    Index indxg2p, indxg2l, numroc;
  } far[] = {
      {999999, {.extent = 2147483647, .block = 64, .grid = 7, .source = 3}, 3, 142911, 306783424},
      {2000000000,
       {.extent = 2147483647, .block = 1000, .grid = 11, .source = 5},
       7,
       181818000,
       195226000},
      {123456788,
       {.extent = 2147483647, .block = 30, .grid = 4, .source = 0},
       2,
       30864188,
       536870910},
  };
  for (const auto& row : far) {
    EXPECT_EQ(owner(row.d, {row.i}).value, row.indxg2p);
    EXPECT_EQ(to_local(row.d, {row.i}).value, row.indxg2l);
    EXPECT_EQ(local_extent(row.d, {row.indxg2p}), row.numroc);
    EXPECT_EQ(to_global(row.d, {row.indxg2p}, {row.indxg2l}).value, row.i);
  }
}

void expect_equals_definition(const Distribution& d) {
  const Dealt dealt = deal(d);
  ASSERT_EQ(extent(d), static_cast<Index>(dealt.owner.size()));
  ASSERT_EQ(grid(d), static_cast<Index>(dealt.count.size()));
  for (Index c = 0; c < grid(d); ++c)
    ASSERT_EQ(local_extent(d, {c}), dealt.count[static_cast<std::size_t>(c)]);
  for (std::size_t i = 0; i < dealt.owner.size(); ++i) {
    const GlobalIndex global{static_cast<Index>(i)};
    ASSERT_EQ(owner(d, global).value, dealt.owner[i]);
    ASSERT_EQ(to_local(d, global).value, dealt.local[i]);
    ASSERT_EQ(to_global(d, {dealt.owner[i]}, {dealt.local[i]}), global);
  }
}

TEST(Distribution, EqualsDefinitionForAllSmallBlockCyclic) {
  for (Index n = 0; n <= 13; ++n)
    for (Index block = 1; block <= 6; ++block)
      for (Index grid = 1; grid <= 4; ++grid)
        for (Index source = 0; source < grid; ++source)
          for (Index cut = 0; cut < block; ++cut) {
            expect_equals_definition(BlockCyclic{
                .extent = n, .block = block, .grid = grid, .source = source, .cut = cut});
            if (HasFatalFailure()) return;
          }
}

TEST(Distribution, EqualsDefinitionForRandomSplits) {
  Random random;
  for (int round = 0; round < 2000; ++round) {
    expect_equals_definition(random.splits(random.in(0, 60), 6));
    if (HasFatalFailure()) return;
  }
}

TEST(Distribution, IsExactAtTheLargestExtent) {
  constexpr Index n = std::numeric_limits<Index>::max();
  for (const BlockCyclic d :
       {BlockCyclic{.extent = n, .block = 1, .grid = 1000, .source = 999},
        BlockCyclic{.extent = n, .block = Index{1} << 40, .grid = Index{1} << 30, .source = 7},
        BlockCyclic{.extent = n, .block = n, .grid = 3, .source = 1},
        BlockCyclic{.extent = n, .block = n / 2, .grid = 2, .source = 0},
        BlockCyclic{.extent = n, .block = n, .grid = 2, .source = 1, .cut = n - 1},
        BlockCyclic{.extent = n, .block = n, .grid = 1, .source = 0, .cut = n / 2},
        BlockCyclic{.extent = n, .block = n / 2 + 1, .grid = 2, .source = 0, .cut = n / 2},
        BlockCyclic{.extent = n, .block = n / 3, .grid = 3, .source = 2, .cut = n / 3 - 1}}) {
    const GlobalIndex last{n - 1};
    EXPECT_EQ(to_global(d, owner(d, last), to_local(d, last)), last);
    EXPECT_EQ(to_local(d, last).value, local_extent(d, owner(d, last)) - 1);
  }
}

TEST(Distribution, ValidateNamesBrokenCondition) {
  const struct {
    Distribution d;
    const char* text;
  } rows[] = {
      {BlockCyclic{.extent = -1}, "expected an extent of at least 0, found -1"},
      {BlockCyclic{.extent = 1, .block = 0}, "expected a block of at least 1 element, found 0"},
      {BlockCyclic{.extent = 1, .grid = 0}, "expected a grid of at least 1 coordinate, found 0"},
      {BlockCyclic{.extent = 1, .grid = 2, .source = 2},
       "expected a source coordinate from 0 to 1, found 2"},
      {BlockCyclic{.extent = 1, .grid = 2, .source = -1},
       "expected a source coordinate from 0 to 1, found -1"},
      {BlockCyclic{.extent = 9, .block = 3, .grid = 2, .source = 0, .cut = 3},
       "expected a cut from 0 to 2, found 3"},
      {BlockCyclic{.extent = 9, .block = 3, .grid = 2, .source = 0, .cut = -1},
       "expected a cut from 0 to 2, found -1"},
      {Splits{.bounds = {0, 4}, .owner = {0}, .grid = 0},
       "expected a grid of at least 1 coordinate, found 0"},
      {Splits{.bounds = {}, .owner = {}, .grid = 1},
       "expected bounds that begin with 0, found none"},
      {Splits{.bounds = {1, 4}, .owner = {0}, .grid = 1},
       "expected bounds that begin with 0, found 1"},
      {Splits{.bounds = {0, 4, 4}, .owner = {0, 0}, .grid = 1}, "found 4 after 4"},
      {Splits{.bounds = {0, 4}, .owner = {0, 0}, .grid = 1},
       "the 1 intervals between 2 bounds, found 2 owners"},
      {Splits{.bounds = {0, 4}, .owner = {2}, .grid = 2},
       "expected owners from 0 to 1, found 2 for interval 0"},
  };
  for (const auto& row : rows) {
    try {
      validate(row.d);
      ADD_FAILURE() << "expected: " << row.text;
    } catch (const core::Error& e) {
      EXPECT_EQ(e.code(), core::Errc::invalid_argument);
      EXPECT_NE(std::string(e.what()).find(row.text), std::string::npos) << e.what();
    }
  }
  EXPECT_NO_THROW(validate(BlockCyclic{.extent = 0, .block = 3, .grid = 2, .source = 1}));
  EXPECT_NO_THROW(validate(Splits{.bounds = {0}, .owner = {}, .grid = 2}));
}

}  // namespace
}  // namespace tremula::index_calc
