// SPDX-License-Identifier: Apache-2.0
#include "coupling/weights/exact_sum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

namespace tremula::weights {
namespace {

double sum_of(const std::vector<double>& values) {
  ExactSum sum;
  for (const double value : values) sum.add(value);
  return sum.value();
}

TEST(ExactSum, LosesNothing) {
  constexpr double largest = std::numeric_limits<double>::max(),
                   least = std::numeric_limits<double>::denorm_min();
  EXPECT_EQ(sum_of({}), 0);
  EXPECT_EQ(sum_of({1e300, 1, -1e300}), 1);
  EXPECT_EQ(sum_of({-1e300, -1, 1e300}), -1);
  EXPECT_EQ(sum_of({largest, largest, -largest, least, -largest}), least);
  EXPECT_EQ(sum_of({0.1, 0.2, 0.3, -0.6}), sum_of({-0.6, 0.3, 0.2, 0.1}));
  EXPECT_EQ(sum_of({-0.5, 0.25}), -0.25);
  EXPECT_EQ(sum_of({-largest}), -largest);
  EXPECT_TRUE(std::isnan(sum_of({1, std::numeric_limits<double>::quiet_NaN()})));
  EXPECT_EQ(sum_of({1, std::numeric_limits<double>::infinity()}),
            std::numeric_limits<double>::infinity());
}

TEST(ExactSum, IsTheSameInEveryOrderAndPartition) {
  std::mt19937_64 random(2611);
  std::uniform_real_distribution<double> fraction(-1, 1);
  std::uniform_int_distribution<int> exponent(-300, 300);
  std::vector<double> values(3000);
  for (double& value : values) value = std::ldexp(fraction(random), exponent(random));
  const double whole = sum_of(values);
  for (int round = 0; round < 20; ++round) {
    std::ranges::shuffle(values, random);
    std::vector<ExactSum> parts(7);
    for (const double value : values) parts[random() % parts.size()].add(value);
    ExactSum sum;
    for (const ExactSum& part : parts) sum.add(part);
    EXPECT_EQ(sum.value(), whole);
  }
}

}  // namespace
}  // namespace tremula::weights
