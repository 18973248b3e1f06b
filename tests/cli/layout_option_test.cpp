// SPDX-License-Identifier: Apache-2.0
#include "cli/plan/layout_option.hpp"

#include <gtest/gtest.h>

namespace tremula::cli {
namespace {

std::string complaint(const std::string& text) {
  try {
    parse_layout_option("--to", text);
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::Errc::invalid_argument);
    return error.what();
  }
  return "none";
}

TEST(LayoutOption, AcceptsALayoutInAnyOrderOfItsWords) {
  EXPECT_EQ(parse_layout_option("--to", "grid=2 shape=10"),
            index_calc::Layout::parse("shape=10 grid=2"));
}

TEST(LayoutOption, PutsACaretUnderTheMistake) {
  EXPECT_EQ(complaint("shape=8x6  gird"),
            "--to, position 11: expected key=value, found \"gird\"\n"
            "  shape=8x6  gird\n"
            "             ^");
  EXPECT_EQ(complaint("shape=8 grid=0"),
            "--to, position 13: expected a number of at least 1, found 0\n"
            "  shape=8 grid=0\n"
            "               ^");
  EXPECT_EQ(complaint("shape=8"),
            "--to, position 7: expected grid=, found the end of the text\n"
            "  shape=8\n"
            "         ^");
  EXPECT_EQ(complaint(""),
            "--to, position 0: expected shape=, found the end of the text\n"
            "  \n"
            "  ^");
}

TEST(LayoutOption, ShowsTheTextWhosePartsDoNotFit) {
  EXPECT_EQ(complaint("shape=*x3\tgrid=3x2 key=id"),
            "--to, position 23: expected whole rows, found dimension 1 split in 2\n"
            "  shape=*x3 grid=3x2 key=id\n"
            "                         ^");
}

TEST(LayoutOption, KeepsTheCaretInItsColumn) {
  EXPECT_EQ(complaint("shape=8\tgrid=\xc3\xa4"),
            "--to, position 13: expected a number, found \"\xc3\xa4\"\n"
            "  shape=8 grid=??\n"
            "               ^");
}

TEST(LayoutOption, CutsALongTextAroundTheMistake) {
  std::string bounds = "0";
  for (int i = 1; i < 100; ++i) bounds += "/" + std::to_string(100 + i);
  const std::string text = complaint("shape=200 grid=100 splits0=" + bounds + "/150/200");
  EXPECT_EQ(text,
            "--to, position 425: expected a bound of at least 199, found 150\n"
            "  .../189/190/191/192/193/194/195/196/197/198/199/150/200\n"
            "                                                  ^");
}

}  // namespace
}  // namespace tremula::cli
