// SPDX-License-Identifier: Apache-2.0
#include "cli/plan/picture/shown_part.hpp"

#include <gtest/gtest.h>

namespace tremula::cli {
namespace {

ShownAxis axis_of(const std::string& from, const std::string& to) {
  return shown_axis(index_calc::Layout::parse(from), index_calc::Layout::parse(to), 0);
}

TEST(ShownAxis, IsTheWholeOfFewBlocks) {
  EXPECT_TRUE(axis_of("shape=10 grid=2 block=4 source=1",
                      "shape=10 grid=2 splits0=0/3/10 "
                      "owners0=1/0")
                  .is_whole());
}

TEST(ShownAxis, HasAtMost64Blocks) {
  EXPECT_TRUE(axis_of("shape=64 grid=1 block=1", "shape=64 grid=1 block=1").is_whole());
  EXPECT_EQ(axis_of("shape=65 grid=1 block=1", "shape=65 grid=2").shown, 24);
  EXPECT_EQ(axis_of("shape=1000 grid=1", "shape=1000 grid=3 block=7").shown, 24 * 7);
  EXPECT_EQ(
      axis_of("shape=4611686018427387904 grid=2", "shape=4611686018427387904 grid=1000 block=3")
          .shown,
      72);
}

TEST(ShownAxis, BeginsWithAShorterBlockWhereItIsCut) {
  EXPECT_TRUE(axis_of("shape=10 grid=2 block=4 source=1 cut=3", "shape=10 grid=2 block=20 cut=19")
                  .is_whole());
  EXPECT_EQ(axis_of("shape=4611686018427387904 grid=2 block=7 cut=5",
                    "shape=4611686018427387904 grid=3 block=4611686018427387904 cut=1")
                .shown,
            24 * 7 - 5);
}

TEST(ShownAxis, EndsWithAPeriodWhereOneFits) {
  // A period of 12 elements: 6 blocks of 2. Four periods are 24 blocks.
  const ShownAxis some = axis_of("shape=1000 grid=2 block=2", "shape=1000 grid=2 block=3");
  EXPECT_EQ(some.shown, 48);
  EXPECT_EQ(some.periods, 4);
  // A period of 60 elements: 60 blocks.
  const ShownAxis one = axis_of("shape=1000 grid=4 block=1", "shape=1000 grid=3 block=5");
  EXPECT_EQ(one.shown, 60);
  EXPECT_EQ(one.periods, 1);
  const ShownAxis none = axis_of("shape=1000 grid=8 block=1", "shape=1000 grid=3 block=5");
  EXPECT_EQ(none.shown, 24);
  EXPECT_EQ(none.periods, 0);
}

TEST(ShownAxis, EndsWithABlockWhereOwnersAreSkewed) {
  const ShownAxis blocks = axis_of("shape=1000 mesh=4 block=3 owner0=b0/2", "shape=1000 grid=2");
  EXPECT_EQ(blocks.shown, 24 * 3);
  EXPECT_EQ(blocks.periods, 0);
  // Block 24 of 100 begins at floor(1010 * 24 / 100).
  EXPECT_EQ(axis_of("shape=1010 mesh=4 equal=100 owner0=b0", "shape=1010 grid=2").shown, 242);
  EXPECT_TRUE(axis_of("shape=50 mesh=4 equal=100 owner0=b0", "shape=50 grid=2").is_whole());
  // A hundred blocks without elements, then all ten elements.
  std::string bounds;
  for (int block = 0; block < 100; ++block) bounds += "0/";
  bounds = "shape=10 mesh=2 splits0=" + bounds + "10 owner0=b0";
  EXPECT_TRUE(axis_of(bounds, bounds).is_whole());
  // Block 64 of 10000 begins with element 0.
  EXPECT_EQ(axis_of("shape=100 mesh=4 equal=10000 owner0=b0", "shape=100 grid=2").shown, 24);
}

}  // namespace
}  // namespace tremula::cli
