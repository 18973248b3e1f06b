// SPDX-License-Identifier: Apache-2.0
#include "cli/units.hpp"

#include <gtest/gtest.h>

namespace tremula::cli {
namespace {

TEST(BytesText, HasThreeDigits) {
  const struct {
    double bytes;
    const char* text;
  } rows[] = {{0, "0 B"},          {1, "1 B"},         {999, "999 B"},      {999.4, "999 B"},
              {1000, "1.00 kB"},   {1500, "1.50 kB"},  {9994, "9.99 kB"},   {9996, "10.0 kB"},
              {99960, "100 kB"},   {999499, "999 kB"}, {999500, "1.00 MB"}, {1.234e9, "1.23 GB"},
              {5.6e13, "56.0 TB"}, {7e15, "7.00 PB"},  {2e19, "20.0 EB"},   {1e22, "10000 EB"}};
  for (const auto& row : rows) EXPECT_EQ(bytes_text(row.bytes), row.text);
}

TEST(SecondsText, NamesTheTwoLargestUnits) {
  const struct {
    double seconds;
    const char* text;
  } rows[] = {{0, "0.000 s"},       {0.0014, "0.001 s"},    {0.9996, "1.0 s"},
              {1, "1.0 s"},         {59.94, "59.9 s"},      {59.96, "1 min 0 s"},
              {130, "2 min 10 s"},  {3599, "59 min 59 s"},  {3600, "1 h 0 min"},
              {11100, "3 h 5 min"}, {86399, "23 h 59 min"}, {86400, "1 d 0 h"},
              {187200, "2 d 4 h"}};
  for (const auto& row : rows) EXPECT_EQ(seconds_text(row.seconds), row.text);
}

}  // namespace
}  // namespace tremula::cli
