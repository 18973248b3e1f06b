// SPDX-License-Identifier: Apache-2.0
#include "cli/plan/lists_file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/error.hpp"

namespace tremula::cli {
namespace {

using core::Index;
using index_calc::IndexList, index_calc::Layout, index_calc::ListRun;

class ListsFile : public ::testing::Test {
protected:
  ~ListsFile() override { std::filesystem::remove(file_); }
  std::vector<IndexList> read(const std::string& layout, const std::string& text) {
    std::ofstream(file_) << text;
    return read_lists("--to-lists", file_, Layout::parse(layout));
  }
  /// Returns the part of the complaint that follows the name of the file.
  std::string complaint_about(const std::string& text,
                              const std::string& layout = "shape=4x6 lists=2 partial=yes") {
    try {
      read(layout, text);
    } catch (const core::Error& e) {
      EXPECT_EQ(e.code(), core::Errc::invalid_argument);
      const std::string what = e.what(), file = "--to-lists " + file_ + ": ";
      EXPECT_EQ(what.rfind(file, 0), 0u) << what;
      return what.substr(file.size());
    }
    return "none";
  }
  const std::string file_ =
      std::filesystem::temp_directory_path() / ("lists_" + std::to_string(::getpid()) + ".yaml");
};

/// Returns the number of the element in each place of the buffer.
std::vector<Index> places(const IndexList& list) {
  std::vector<Index> numbers(static_cast<std::size_t>(list.allocated()), -1);
  for (const ListRun& run : list.runs())
    for (Index i = 0; i < run.length; ++i)
      numbers[static_cast<std::size_t>(run.local + i)] = run.global + i;
  return numbers;
}

TEST_F(ListsFile, HoldsBoxesSegmentsOrPointsOfEachRank) {
  const auto lists = read("shape=4x6 lists=4",
                          "- boxes: [[[1, 4], [3, 6]], [[0, 0], [1, 2]], [[2, 2], [2, 5]]]\n"
                          "- segments: [[20, 23], [2, 4]]\n"
                          "- points: [23, [1, 3], 8]\n"
                          "- points:\n");
  ASSERT_EQ(lists.size(), 4u);
  EXPECT_EQ(places(lists[0]), (std::vector<Index>{10, 11, 16, 17, 0, 1}));
  EXPECT_EQ(places(lists[1]), (std::vector<Index>{20, 21, 22, 2, 3}));
  EXPECT_EQ(places(lists[2]), (std::vector<Index>{23, 9, 8}));
  EXPECT_EQ(lists[3].elements(), 0);
}

TEST_F(ListsFile, FollowsTheOrderOfTheMembers) {
  const auto lists = read("shape=4 lists=2 members=3/1", "[{points: [2, 3]}, {points: [0, 1]}]");
  ASSERT_EQ(lists.size(), 4u);
  EXPECT_EQ(places(lists[3]), (std::vector<Index>{2, 3}));
  EXPECT_EQ(places(lists[1]), (std::vector<Index>{0, 1}));
  EXPECT_EQ(lists[0].elements() + lists[2].elements(), 0);
}

TEST_F(ListsFile, NamesTheRankAndTheItemThatIsWrong) {
  const std::string entries = "expected a list of 2 entries, one for each rank of lists=2, found ";
  const std::string kinds = "one of boxes, segments and points";
  EXPECT_EQ(complaint_about("- points: [0]\n"), entries + "1; each is " + kinds);
  EXPECT_EQ(complaint_about("points: [0]\n"), entries + "no list; each is " + kinds);
  const auto second = [&](const std::string& entry) {
    return complaint_about("- points: [0]\n- " + entry + "\n");
  };
  const std::string rank = "rank 1, line 2: ";
  EXPECT_EQ(second("5"), rank + "expected " + kinds + ", found '5'");
  EXPECT_EQ(second("cells: [1]"), rank + "expected " + kinds + ", found 'cells'");
  EXPECT_EQ(second("points: 7"), rank + "expected a list of points, found '7'");
  EXPECT_EQ(second("points: [1, x]"), rank + "point 1: expected a whole number, found 'x'");
  EXPECT_EQ(second("points: [1, 2.5]"), rank + "point 1: expected a whole number, found '2.5'");
  const std::string numbers =
      "point 0: expected a number from 0 to 23, or -1 for a place without an element, ";
  EXPECT_EQ(second("points: [24]"), rank + numbers + "found 24");
  EXPECT_EQ(second("points: [-2]"), rank + numbers + "found -2");
  EXPECT_EQ(second("points: [3, -1, 4, 3]"), "none");  // a consumer may list such points
  EXPECT_EQ(second("points: [[0, 6]]"),
            rank + "point 0: expected an element of an array of 4x6, found [0, 6]");
  EXPECT_EQ(second("points: [[0]]"),
            rank + "point 0: expected 2 numbers, one for each dimension of 4x6, found '[0]'");
  EXPECT_EQ(second("segments: [[0, 2], [5, 4]]"),
            rank + "segment 1: expected a beginning and an end from 0 to 24, found 5 and 4");
  EXPECT_EQ(second("segments: [7]"),
            rank + "segment 0: expected a beginning and an end, such as [24, 30], found '7'");
  EXPECT_EQ(
      second("boxes: [[[0, 0], [1, 1]], [[2, 2], [5, 3]]]"),
      rank + "box 1: expected a beginning and an end in an array of 4x6, found [2, 2] and [5, 3]");
  EXPECT_EQ(second("boxes: [[0, 0]]"),
            rank + "box 0: expected 2 numbers, one for each dimension of 4x6, found '0'");
  EXPECT_NE(complaint_about("- [").find("line 1"), std::string::npos);
}

TEST_F(ListsFile, MayListNothingOfAnEmptyArray) {
  const std::string shape = "shape=1099511627776x1099511627776x0 lists=1";
  EXPECT_EQ(read(shape, "[{segments: [[0, 0]]}]").front().elements(), 0);
  try {
    read(shape, "[{points: [[1099511627775, 1099511627775, 0]]}]");
    FAIL();
  } catch (const core::Error& e) {
    EXPECT_NE(std::string(e.what()).find("expected an element of an array of"), std::string::npos)
        << e.what();
  }
}

TEST_F(ListsFile, MustExist) {
  try {
    read_lists("--from-lists", "/nowhere/lists.yaml", Layout::parse("shape=4 lists=2"));
    FAIL();
  } catch (const core::Error& e) {
    EXPECT_STREQ(e.what(),
                 "--from-lists /nowhere/lists.yaml: expected a YAML file that can be read, found "
                 "none; give the name of one");
  }
}

}  // namespace
}  // namespace tremula::cli
