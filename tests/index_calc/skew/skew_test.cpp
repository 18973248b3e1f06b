// SPDX-License-Identifier: Apache-2.0
#include "index_calc/skew/skew.hpp"

#include <gtest/gtest.h>

#include <span>

#include "index_calc/layout/process_grid.hpp"
#include "tests/index_calc/cells.hpp"
#include "tests/index_calc/skew/skewed_oracle.hpp"

namespace tremula::index_calc {
namespace {

using testing::Random;

TEST(Skew, RoundTripsThroughText) {
  Random random;
  for (int i = 0; i < 3000; ++i) {
    const auto shape = testing::random_shape(random, static_cast<std::size_t>(random.in(1, 4)));
    const Layout layout = testing::random_skewed(random, shape, 1000);
    const std::string text = to_string(layout);
    const Layout again = Layout::parse(text);
    EXPECT_EQ(again, layout) << text;
    EXPECT_EQ(fingerprint(again), fingerprint(layout)) << text;
    Skewed other = *layout.skewed();
    testing::change(std::get<BlockOwner>(other.axes.back().use), other.axes.back().ranks);
    EXPECT_NE(fingerprint(Layout(other, layout.ranks(), layout.storage())), fingerprint(layout))
        << text;
    ASSERT_FALSE(HasFailure());
  }
}

TEST(Skew, IsWrittenAsTheShortestText) {
  for (const auto& [given, shortest] : {
           std::pair{"shape=9x9 mesh=2x3 owner1=1+b0/2*3-b1 owner0=b0", ""},
           {"shape=9x9 mesh=2x3 owner0=b0-0 block0=9 block1=3",
            "shape=9x9 mesh=2x3 block1=3 owner0=b0"},
           {"shape=9x9 mesh=2x3 owner0=b0/1*1 equal0=3 equal1=4",
            "shape=9x9 mesh=2x3 equal=3x4 owner0=b0"},
           {"shape=9x9 mesh=2x3 owner0=-0 equal1=4 store=column",
            "shape=9x9 mesh=2x3 equal1=4 owner0=0 store=column"},
           {"shape=9 mesh=1x1x1x1x1x1x1x1x1x1x1x2 owner11=-b0*2-3 block=2 cut=1",
            "shape=9 mesh=1x1x1x1x1x1x1x1x1x1x1x2 block=2 owner11=-b0*2-3 cut=1"},
       }) {
    const std::string expected =
        *shortest != '\0' ? shortest : "shape=9x9 mesh=2x3 owner0=b0 owner1=b0/2*3-b1+1";
    std::string text = to_string(Layout::parse(given));
    EXPECT_EQ(Layout::parse(text), Layout::parse(given));
    EXPECT_EQ(text, expected);
  }
}

struct Refused {
  std::string text;
  std::string complaint;  ///< a part of it
};

void expect_refused(std::span<const Refused> texts) {
  for (const Refused& r : texts) try {
      Layout::parse(r.text);
      ADD_FAILURE() << "expected an error, found none: " << r.text;
    } catch (const core::Error& e) {
      EXPECT_EQ(e.code(), core::Errc::invalid_argument);
      EXPECT_NE(std::string(e.what()).find(r.complaint), std::string::npos) << r.text << "\n"
                                                                            << e.what();
    }
}

TEST(Skew, NamesTheFaultOfAText) {
  expect_refused(std::vector<Refused>{
      {"shape=9x9 mesh=2x2 owner0=sum",
       "position 26: expected block numbers b0, b1, ... and numbers, as in b0/2-b1+1, or a table "
       "of coordinates, as in 2x3:0/1/1/2/0/2 (partial sums and shards are not supported; an "
       "axis without owner makes copies), found \"sum\""},
      {"shape=9x9 mesh=2x2 owner0=shard", "position 26: expected block numbers"},
      {"shape=9x9 mesh=2x2 owner0=*", "position 26: expected block numbers"},
      {"shape=9x9 mesh=2x2 owner0=", "position 26: expected block numbers"},
      {"shape=9x9 mesh=2x2 owner0=b0+", "position 29: expected block numbers"},
      {"shape=9x9 mesh=2x2 owner0=b0b1", "position 28: expected '+', '-' or a space"},
      {"shape=9x9 mesh=2x2 owner0=b0/0", "position 29: expected a number from 1 to 2147483647"},
      {"shape=9x9 mesh=2x2 owner0=b0*0", "position 29: expected a number from 1 to 2147483647"},
      {"shape=9x9 mesh=2x2 owner0=b0*9999999999", "position 29: expected a number from 1 to"},
      {"shape=9x9 mesh=2x2 owner0=1+b0+1",
       "position 31: expected a block number b0, b1, ..., and at most one other"},
      {"shape=9x9 mesh=2x2 owner0=b0 owner0=b1", "position 29: expected every key once"},
      {"shape=9x9 mesh=2x2 owner2=b0", "position 19: expected an axis of the mesh from 0 to 1"},
      {"shape=9x9 mesh=2x2 owner0=b2",
       "position 26: expected block numbers of dimensions 0 to 1, found b2"},
      {"shape=9x9 grid=2x2 owner0=b0", "position 19: expected mesh= as well"},
      {"shape=9x9 mesh=2x2 owner0=b0 axes0=1", "position 29: expected no axes= with owner="},
      {"shape=9x9 mesh=2x2 owner0=b0 owners0=0", "position 29: expected no owners= with"},
      {"shape=9x9 mesh=2x2 owner0=b0 splits0=0/8",
       "position 39: expected a last bound of 9, the shape of dimension 0, found 8"},
      {"shape=9x9 mesh=2x2 owner0=b0 splits0=0/9 block0=3",
       "expected no block for dimension 0, which has splits0="},
      {"shape=9x9 mesh=2x2 owner0=b0 splits0=0/9 equal0=3",
       "expected no equal for dimension 0, which has splits0="},
      {"shape=9x9 mesh=2x2 owner0=b0 splits0=0/9 cut=1x0", "expected a cut from 0 to 0"},
      {"shape=9x9 mesh=2x2 equal0=3", "position 19: expected owner= as well"},
      {"shape=9x9 mesh=2x2 owner0=b0 equal0=2 equal1=99999999999",
       "position 45: expected at least 1 and, if equal, at most 2147483647"},
      {"shape=9x9 mesh=2x2 owner0=b0 equal0=3 equal=3x3", "expected one equal for dimension 0"},
      {"shape=9x9 mesh=2x2 owner0=b0 equal0=3 block0=3", "expected no block for dimension 0"},
      {"shape=9x9 mesh=2x2 owner0=b0 equal0=0", "position 36: expected a number of at least 1"},
      {"shape=9x9 mesh=2x2 owner0=b0 equal2=2", "expected a dimension from 0 to 1"},
      {"shape=9x9 mesh=2x2 owner0=b0 equal0=3 cut=1x0",
       "position 42: expected a cut from 0 to 0 for dimension 0, found 1"},
      {"shape=9x9 mesh=2x2 owner0=b0 source=1x0", "expected a source from 0 to 0"},
      {"shape=9x9 mesh=2x2 owner0=b0 ghost=1x1", "expected no ghost or leading"},
      {"shape=9x9 mesh=2x2 owner0=b0 leading=9", "expected no ghost or leading"},
      {"shape=9x9 mesh=2x2 owner100=b0", "position 19: expected one of shape"},
      {"shape=9x9 lists=4 owner0=b0",
       "expected only shape, partial, copies and members with lists="},
  });
}

TEST(Skew, NamesTheFaultOfATable) {
  expect_refused(std::vector<Refused>{
      {"shape=9x9 mesh=2x2 owner0=:", "position 26: expected the extents and the entries of a"},
      {"shape=9x9 mesh=2x2 owner0=2x:0", "position 28: expected the extents and the entries of"},
      {"shape=9x9 mesh=2x2 owner0=0x1:0", "position 26: expected a number from 1 to 2147483647"},
      {"shape=9x9 mesh=2x2 owner0=2/1:0", "position 27: expected 'x' or ':', found \"/1:0\""},
      {"shape=9x9 mesh=2x2 owner0=2x1:0x1", "position 31: expected '/' or a space"},
      {"shape=9x9 mesh=2x2 owner0=2x1:0/", "position 32: expected the extents and the entries"},
      {"shape=9x9 mesh=2x2 owner0=2x1:0/2",
       "position 26: expected coordinates from 0 to 1 in the table, found 2"},
      {"shape=9x9 mesh=2x2 owner0=2x1:0/1/0",
       "position 26: expected 2 entries, the product of the extents of the table, found 3"},
      {"shape=9x9 mesh=2x2 owner0=2147483647x2147483647x2147483647:0",
       "position 26: expected a table of 2 dimensions, as many as the array has, found 3"},
      {"shape=9x9x9 mesh=2 owner0=2147483647x2147483647x2147483647:0",
       "position 26: expected 9223372036854775807 entries, the product of the extents"},
  });
}

/// Every rank finds its blocks in the order of their numbers, with their places and their owner.
TEST(Skew, FindsTheBlocksOfEveryRankAndTheirPlaces) {
  Random random;
  for (int i = 0; i < 1000; ++i) {
    const auto shape = testing::random_shape(random, static_cast<std::size_t>(random.in(1, 3)));
    Layout layout = testing::random_skewed(random, shape, 8);
    layout = layout.with_members({});
    SCOPED_TRACE(to_string(layout));
    const OwnedBlocks blocks = owned_blocks(*layout.skewed());
    const ProcessGrid grid(layout);
    for (const auto& [rank, numbers] : testing::skewed_numbers(layout)) {
      const OwnerCoords owner = owner_coords(grid.cell_of(rank)->coords);
      const OwnedBlocks::Places places(blocks, owner);
      Index at = 0, count_of_blocks = 0;
      blocks.for_each_block(owner, [&](const BlockNumbers& block) {
        ++count_of_blocks;
        ASSERT_EQ(places.of(block), at);
        ASSERT_EQ(blocks.owner_of(block), owner);
        Index first = 0, count = 1;
        for (std::size_t d = 0; d < shape.size(); ++d) {
          first = first * shape[d] + blocks.cuts(d).begin(block[d]);
          count *= blocks.cuts(d).size(block[d]);
        }
        ASSERT_EQ(numbers.at(static_cast<std::size_t>(at)), first);
        at += count;
      });
      ASSERT_EQ(at, static_cast<Index>(numbers.size()));
      ASSERT_EQ(blocks.elements(owner), at);
      ASSERT_EQ(blocks.count(owner), count_of_blocks);
    }
  }
}

/// The block of an element is found without a search, even in an extent of up to 2^62.
TEST(Skew, FindsTheBlockOfAnElement) {
  Random random;
  for (int i = 0; i < 20000; ++i) {
    const Index extent = random.in(1, random.one_in(2) ? 40 : Index{1} << 62);
    const Index count = random.in(1, random.one_in(2) ? 50 : max_owner_number);
    const Index block = random.in(1, random.one_in(2) ? 9 : extent);
    const Index element = random.in(0, extent - 1);
    std::vector<Index> bounds{0, 0, extent, extent};
    for (Index more = random.in(0, 6); more > 0; --more)
      bounds.insert(bounds.end(), random.one_in(2) ? 2 : 1, random.in(0, extent));
    std::ranges::sort(bounds);
    for (const BlockCuts& cuts :
         {BlockCuts::equal(extent, count),
          BlockCuts::cyclic(extent, block, random.in(0, block - 1)), BlockCuts::at(bounds)}) {
      const Index found = cuts.block_of(element);
      ASSERT_LE(cuts.begin(found), element);
      ASSERT_GT(cuts.end(found), element);
    }
  }
}

}  // namespace
}  // namespace tremula::index_calc
