// SPDX-License-Identifier: Apache-2.0
#include "core/nearest.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tremula::core {
namespace {

TEST(Nearest, CountsLettersInsertedDroppedAndReplaced) {
  EXPECT_EQ(letters_between("", ""), 0u);
  EXPECT_EQ(letters_between("abc", ""), 3u);
  EXPECT_EQ(letters_between("kitten", "sitting"), 3u);
  EXPECT_EQ(letters_between("staus", "status"), 1u);
}

TEST(Nearest, IsTheLikelyWordOrNone) {
  const std::vector<std::string> commands{"bench", "plan", "serve", "status", "version"};
  EXPECT_EQ(likely_meant("staus", commands), "status");
  EXPECT_EQ(likely_meant("servr", commands), "serve");
  EXPECT_EQ(likely_meant("wurst", commands), "");
  EXPECT_EQ(likely_meant("staus", {}), "");
}

}  // namespace
}  // namespace tremula::core
