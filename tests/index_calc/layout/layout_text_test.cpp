// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "tests/index_calc/random.hpp"

namespace tremula::index_calc {
namespace {

using testing::Random;

TEST(LayoutText, RoundTripsRandomLayouts) {
  Random random;
  for (int round = 0; round < 3000; ++round) {
    std::vector<Index> shape;
    for (Index d = random.in(1, 8); d > 0; --d)
      shape.push_back(random.one_in(9) ? 0 : random.in(1, 40));
    const Layout layout = random.layout(shape, 4);
    const std::string text = to_string(layout);
    ASSERT_EQ(Layout::parse(text), layout) << text;
    ASSERT_EQ(to_string(Layout::parse(text)), text);
  }
}

TEST(LayoutText, ReadsAndWritesTheShortestForm) {
  const struct {
    const char* given;
    const char* shortest;
  } rows[] = {
      {"shape=10000x10000 grid=4x4 block=30x50 source=0x0 ranks=row store=row",
       "shape=10000x10000 grid=4x4 block=30x50"},
      {" block0=25 \t grid=4x3\nshape=100x90 block1=30 ", "shape=100x90 grid=4x3"},
      {"shape=100x90 grid=3x2 splits0=0/10/55/100 owners0=0/2/1 block1=45",
       "shape=100x90 grid=3x2 splits0=0/10/55/100 owners0=0/2/1"},
      {"shape=100x90 grid=3x2 splits0=0/10/55/100 owners0=0/1/2 block1=40",
       "shape=100x90 grid=3x2 block1=40 splits0=0/10/55/100"},
      {"shape=9x9x9 grid=3x3x3 block=3x1x3", "shape=9x9x9 grid=3x3x3 block1=1"},
      {"shape=9x9x9 grid=3x3x3 block=2x1x3", "shape=9x9x9 grid=3x3x3 block=2x1x3"},
      {"shape=9 grid=2 source=1 ranks=column store=column ghost=0 leading=7 members=3/0",
       "shape=9 grid=2 source=1 ranks=column store=column ghost=0 leading=7 members=3/0"},
      {"cut=3x0 shape=9x9 grid=2x3", "shape=9x9 grid=2x3 cut=3x0"},
      {"shape=9x9 grid=2x3 block=4x2 source=1x0 cut=0x0",
       "shape=9x9 grid=2x3 block=4x2 source=1x0"},
      {"shape=0x007 grid=2x1 members=0-1", "shape=0x7 grid=2x1 members=0-1"},
      {"shape=9223372036854775807 grid=1", "shape=9223372036854775807 grid=1"},
      {"shape=0x9223372036854775807x2 grid=1x1x1", "shape=0x9223372036854775807x2 grid=1x1x1"},
      {"shape=0 grid=2 splits0=0", "shape=0 grid=2 splits0=0"},
      {"shape=20 grid=3 splits0=0/10/10/20", "shape=20 grid=3 splits0=0/10/20 owners0=0/2"},
      {"shape=20 grid=4 splits0=0/0/10/20/20", "shape=20 grid=4 splits0=0/10/20 owners0=1/2"},
      {"shape=20 grid=3 splits0=0/10/20/20", "shape=20 grid=3 splits0=0/10/20"},
      {"shape=9 grid=2 splits0=0/0/4/4/9 owners0=0/1/0/1",
       "shape=9 grid=2 splits0=0/4/9 owners0=1/1"},
      {"shape=0 grid=2 splits0=0/0/0 owners0=1/0", "shape=0 grid=2 splits0=0"},
      {"grid=8x1 shape=*x3", "shape=*x3 grid=8x1"},
      {"shape=3x* grid=2x4 block1=5 store=column", "shape=3x* grid=2x4 block1=5 store=column"},
      {"shape=3x* grid=2x4 block=1x1", "shape=3x* grid=2x4 block=1x1"},
      {"shape=* grid=4 block=1 source=2", "shape=* grid=4 block=1 source=2"},
      {"shape=* mesh=4x2 axes0=1", "shape=* mesh=4x2 axes0=1"},
      {"sum=2/1 shape=9 mesh=3x2x4 axes0=0", "shape=9 mesh=3x2x4 axes0=0 sum=1/2"},
      {"shape=9x9 mesh=3x2 owner0=b0+b1 sum=1 block=2x2",
       "shape=9x9 mesh=3x2 sum=1 block=2x2 owner0=b0+b1"},
      {"key=id sorted=no shape=*x3 grid=3x1", "shape=*x3 grid=3x1 key=id"},
      {"shape=3x* grid=1x3 store=column key=id sorted=yes ranges=5/70",
       "shape=3x* grid=1x3 store=column key=id ranges=5/70 sorted=yes"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(to_string(Layout::parse(row.given)), row.shortest);
    EXPECT_EQ(Layout::parse(row.given), Layout::parse(row.shortest));
  }
}

struct Malformed {
  std::string text;
  std::size_t position;
  std::string expected;
  std::string found;
};
void expect_refused(const std::vector<Malformed>& rows) {
  for (const Malformed& row : rows) {
    SCOPED_TRACE(row.text);
    try {
      Layout::parse(row.text);
      ADD_FAILURE() << "expected an error, found none";
    } catch (const core::Error& e) {
      EXPECT_EQ(e.code(), core::Errc::invalid_argument);
      const std::string what = e.what();
      const std::string begin =
          "layout, position " + std::to_string(row.position) + ": expected " + row.expected;
      EXPECT_EQ(what.substr(0, begin.size()), begin);
      const std::string end = ", found " + row.found + " in \"" + row.text + "\"";
      EXPECT_EQ(what.substr(what.size() - std::min(what.size(), end.size())), end);
    }
  }
}

TEST(LayoutText, NamesPositionOfAMissingOrWrongKey) {
  expect_refused({
      {"", 0, "shape=", "the end of the text"},
      {"shape=4", 7, "grid=", "the end of the text"},
      {"shape grid=2", 0, "key=value", "\"shape\""},
      {"shape=4 gird=2", 8,
       "one of shape grid mesh sum lists partial copies block equal source cut ranks store ghost "
       "leading members key ranges sorted, or one of axes block equal splits owners owner followed "
       "by the number of a dimension (owner: of an axis)",
       "\"gird\""},
      {"shape=4 grid=2 grid=2", 15, "every key once", "\"grid\" again"},
      {"shape=4 grid=2 =3", 15, "one of shape", "\"\""},
      {"shape=4 grid=2 block100=3", 15, "one of shape", "\"block100\""},
      {"shape=4 grid=2 block00=3", 15, "one of shape", "\"block00\""},
      {"shape=4 grid=2 block10=3", 15, "a dimension from 0 to 0", "\"block10\""},
      {"shape123=4 grid=2", 0, "one of shape", "\"shape123\""},
  });
}

TEST(LayoutText, NamesPositionOfAMistakeInShapeAndGrid) {
  expect_refused({
      {"shape=4x grid=2", 8, "a number", "a space"},
      {"shape=4xx5 grid=2x2", 8, "a number", "\"x5\""},
      {"shape= grid=2", 6, "a number", "a space"},
      {"shape=-4 grid=2", 6, "a number", "\"-4\""},
      {"shape=+4 grid=2", 6, "a number", "\"+4\""},
      {"shape=4,5 grid=2x2", 7, "'x' or a space", "\",5\""},
      {"shape=9223372036854775808 grid=2", 6, "a number below 2^63", "\"9223372036854775808\""},
      {"shape=4294967296x4294967296 grid=1x1", 6, "at most 2^63 - 1 elements",
       "more: the product of the extents up to dimension 1 overflows; split the array into several "
       "fields"},
      {"shape=1x1x1x1x1x1x1x1x1 grid=1", 22, "at most 8 dimensions", "one more"},
      {"shape=4x4 grid=2", 15, "as many numbers as shape has, 2", "1 in \"2\""},
      {"shape=4x4 grid=2x0", 17, "a number of at least 1", "0"},
      {"shape=4x4 grid=65536x32768", 15, "at most 2147483647 ranks", "more"},
      {"shape=4 lists=2147483648", 14, "1 to 2147483647 ranks", "2147483648"},
  });
}

TEST(LayoutText, NamesPositionOfAMistakeWhereAnExtentChanges) {
  expect_refused({
      {"shape=*x* grid=2x2", 8, "one dimension that changes", "a second one"},
      {"shape=*4 grid=2", 7, "'x' or a space", "\"4\""},
      {"shape=4*x2 grid=2x1", 7, "'x' or a space", "\"*x2\""},
      {"shape=* grid=2 splits0=0", 15, "no splits= because an extent changes", "one"},
      {"shape=* grid=2 owners0=0", 15, "no owners= because an extent changes", "one"},
      {"shape=* grid=2 ghost=1", 15, "no ghost= because an extent changes", "one"},
      {"shape=*x3 leading=4 grid=2x1", 10, "no leading= because an extent changes", "one"},
      {"shape=* mesh=2 owner0=b0", 15, "no owner= because an extent changes", "one"},
      {"shape=*x4 equal1=2 mesh=2", 10, "no equal= because an extent changes", "one"},
      {"shape=* lists=2", 8, "no lists= because an extent changes", "one"},
      {"shape=* grid=2 cut=1", 19, "a cut from 0 to 0", "1"},
      {"shape=4 grid=2 key=id", 15, "* in shape= as well", "key= without it"},
      {"shape=* grid=2 sorted=yes", 15, "key= as well", "sorted= without it"},
      {"shape=* grid=2 key=\x80", 19, "a name of visible ASCII characters without spaces",
       "other characters"},
      {"shape=* grid=2 key=", 19, "the name of a field", "the end of the text"},
      {"shape=* grid=3 key=id ranges=4", 29,
       "2 numbers, one fewer than the coordinates along dimension 0", "1"},
      {"shape=* grid=3 key=id ranges=4/3", 29, "ascending numbers of at least 0",
       "2 of them in another order"},
  });
}

TEST(LayoutText, NamesPositionOfAMistakeInBlock) {
  expect_refused({
      {"shape=4 grid=2 block=0", 21, "a number of at least 1", "0"},
      {"shape=4 grid=2 block=2x2", 21, "as many numbers as shape has, 1", "2 in \"2x2\""},
      {"shape=4 grid=2 block0=2x", 23, "a space", "\"x\""},
      {"shape=4 grid=2 block=2 block0=2", 23, "one block for dimension 0", "a second one"},
      {"shape=4 grid=2 block1=2", 15, "a dimension from 0 to 0", "\"block1\""},
      {"shape=4 grid=2 shape0=2", 15, "one of shape", "\"shape0\""},
  });
}

TEST(LayoutText, NamesPositionOfAMistakeInMesh) {
  expect_refused({
      {"shape=4 mesh=2 grid=2", 15, "no grid= with mesh=", "both"},
      {"shape=4 grid=2 axes0=0", 15, "mesh= as well", "axes= without it"},
      {"shape=4 mesh=2x0", 15, "a number of at least 1", "0"},
      {"shape=4 mesh=2 axes0=1", 21, "an axis from 0 to 0", "1"},
      {"shape=4x4 mesh=2 axes0=0 axes1=0", 31, "every axis once", "axis 0 again"},
      {"shape=4 mesh=2 axes1=0", 15, "a dimension from 0 to 0", "\"axes1\""},
      {"shape=4 mesh=2 axes0=", 21, "a number", "the end of the text"},
      {"shape=4 mesh=1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1", 13, "1 to 16 axes", "17"},
      {"shape=4 mesh=65536x65536", 13, "at most 2147483647 ranks", "more"},
      {"shape=4x4 mesh=65536x65536 axes0=0 axes1=1", 15, "at most 2147483647 ranks", "more"},
      {"shape=4 mesh=4294967296x4294967296x4 axes0=0/1/2", 13, "at most 2147483647 ranks", "more"},
      {"shape=4 grid=2 sum=0", 15, "mesh= as well", "sum= without it"},
      {"shape=4 mesh=2x2 sum=0/2", 23, "an axis from 0 to 1", "2"},
      {"shape=4 mesh=2x2 sum=1 axes0=1", 21,
       "axes that split no dimension and have no owner, each once", "axis 1"},
      {"shape=4 mesh=2x2 owner0=b0 sum=1/0", 33,
       "axes that split no dimension and have no owner, each once", "axis 0"},
      {"shape=4 mesh=2x2 sum=1/1", 23, "axes that split no dimension and have no owner, each once",
       "axis 1"},
  });
}

TEST(LayoutText, NamesPositionOfAMistakeInSplits) {
  expect_refused({
      {"shape=4 grid=2 splits=0/4", 15, "one of shape", "\"splits\""},
      {"shape=4 grid=2 splits0=1/4", 23, "bounds that begin with 0", "1"},
      {"shape=4 grid=2 splits0=0/3/2/4", 27, "a bound of at least 3", "2"},
      {"shape=4 grid=2 splits0=0/3/3/4", 23, "owners0=", "3 intervals"},
      {"shape=4 grid=2 splits0=0/3", 25, "a last bound of 4", "3"},
      {"shape=4 grid=2 splits0=0/4 block0=2", 27, "no block for dimension 0", "\"block0=2\""},
      {"shape=4x4 grid=2x1 splits0=0/4 block=2x2", 31, "no block for dimension 0", "\"block=2x2\""},
      {"shape=4 grid=2 splits0=0/1/2/4", 23, "owners0=", "3 intervals"},
      {"shape=4 grid=2 splits0=0/1/4 owners0=0", 37, "2 owners", "1"},
      {"shape=4 grid=2 splits0=0/1/4 owners0=0/2", 39, "an owner from 0 to 1", "2"},
      {"shape=4 grid=2 owners0=0/1", 15, "splits0= as well", "owners0= without it"},
      {"shape=4 grid=2 splits0=0/4 source=1", 34, "a source from 0 to 0 for dimension 0", "1"},
      {"shape=4 grid=2 splits0=0/4 cut=1", 31, "a cut from 0 to 0 for dimension 0", "1"},
  });
}

TEST(LayoutText, NamesPositionOfAMistakeInSourceAndCut) {
  expect_refused({
      {"shape=4x4 grid=2x2 source=0x2", 28, "a source from 0 to 1", "2"},
      {"shape=9x9 grid=2x2 block=4x3 cut=3x3", 35, "a cut from 0 to 2", "3"},
      {"shape=4 grid=2 cut=2", 19, "a cut from 0 to 1", "2"},
      {"shape=4 grid=2 cut=-1", 19, "a number", "\"-1\""},
      {"shape=4 grid=2 cut=1x0", 19, "as many numbers as shape has, 1", "2 in \"1x0\""},
      {"shape=4 grid=2 cut0=1", 15, "one of shape", "\"cut0\""},
  });
}

TEST(LayoutText, NamesPositionOfAMistakeInOrderGhostAndLeading) {
  expect_refused({
      {"shape=4 grid=2 ranks=rows", 21, "row or column", "\"rows\""},
      {"shape=4 grid=2 store=", 21, "row or column", "the end of the text"},
      {"shape=4 grid=2 ghost=1x1", 21, "as many numbers as shape has, 1", "2 in \"1x1\""},
      {"shape=4 grid=2 leading=0", 23, "a number of at least 1", "0"},
  });
}

TEST(LayoutText, NamesPositionOfAMistakeInMembers) {
  expect_refused({
      {"shape=4 grid=2 members=0-2", 23, "2 ranks, one for each cell of the grid", "3"},
      {"shape=4 grid=2 members=1/0-1", 23, "every rank once", "rank 1 twice"},
      {"shape=4 grid=4 members=0-1/1-2", 23, "every rank once", "rank 1 twice"},
      {"shape=4 grid=2 members=5-4", 25, "a last rank of at least 5", "4"},
      {"shape=4 grid=2 members=0,1", 24, "'-', '/' or a space", "\",1\""},
      {"shape=4 grid=2 members=2147483647/1", 23, "a rank below 2^31 - 1", "2147483647"},
  });
}

TEST(LayoutText, QuotesLinesAsOneLine) {
  try {
    Layout::parse("shape=4\n  gird=2\r\n");
    FAIL() << "expected an error";
  } catch (const core::Error& e) {
    const std::string what = e.what();
    EXPECT_TRUE(what.ends_with("found \"gird\" in \"shape=4   gird=2  \"")) << what;
  }
}

TEST(LayoutText, QuotesOnlyTheTextAroundAMistake) {
  const std::string text = "shape=100 grid=2 members=" + std::string(100'000, '1') + " store=row";
  try {
    Layout::parse(text);
    FAIL() << "expected an error";
  } catch (const core::Error& e) {
    const std::string what = e.what();
    EXPECT_EQ(what.find("layout, position 25: expected a number below 2^63, found \"1111"), 0U)
        << what;
    EXPECT_LT(what.size(), 500U);
  }
}

TEST(LayoutText, AnyBytesEndInALayoutOrAnError) {
  Random random;
  const std::string characters = "shapegridblockx=/-0123456789 \n\xff";
  for (int round = 0; round < 20'000; ++round) {
    std::string text = "shape=12x9 grid=2x3 block=3x2 members=0-5";
    for (Index edits = random.in(1, 3); edits > 0; --edits) {
      const auto at = static_cast<std::size_t>(random.in(0, static_cast<Index>(text.size()) - 1));
      const char c = characters[static_cast<std::size_t>(
          random.in(0, static_cast<Index>(characters.size()) - 1))];
      if (random.one_in(3))
        text.erase(at, 1);
      else if (random.one_in(2))
        text.insert(at, 1, c);
      else
        text[at] = c;
    }
    try {
      const Layout layout = Layout::parse(text);
      EXPECT_EQ(Layout::parse(to_string(layout)), layout) << text;
    } catch (const core::Error& e) {
      EXPECT_EQ(std::string(e.what()).find("layout, position "), 0U) << text << "\n" << e.what();
    }
  }
}

}  // namespace
}  // namespace tremula::index_calc
