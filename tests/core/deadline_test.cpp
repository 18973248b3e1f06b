// SPDX-License-Identifier: Apache-2.0
#include "core/deadline.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

namespace tremula::core {
namespace {

TEST(Deadline, IsAheadUntilItsTimeHasPassed) {
  const auto before = Deadline::Clock::now();
  const Deadline deadline = Deadline::after(0.05);
  EXPECT_LE(deadline.remaining(), 0.05);
  std::this_thread::sleep_until(before + std::chrono::milliseconds(60));
  EXPECT_TRUE(deadline.expired());
  EXPECT_EQ(deadline.remaining(), 0.0);
}

TEST(Deadline, CountsDown) {
  const Deadline deadline = Deadline::after(1000);
  const double first = deadline.remaining();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_LE(deadline.remaining(), first - 0.005);
  EXPECT_GT(deadline.remaining(), 0);
  EXPECT_FALSE(deadline.expired());
}

TEST(Deadline, ExpiresAtOnceIfTheTimeIsNotPositive) {
  for (const double seconds :
       {0.0, -1.0, -1e300, -std::numeric_limits<double>::infinity(), std::nan("")}) {
    const Deadline deadline = Deadline::after(seconds);
    EXPECT_TRUE(deadline.expired()) << seconds;
    EXPECT_EQ(deadline.remaining(), 0.0) << seconds;
  }
}

TEST(Deadline, DoesNotWrapForHugeTimes) {
  constexpr double nine_years = 9 * 365.0 * 24 * 3600;
  for (const double seconds : {1e9, 1e300, std::numeric_limits<double>::infinity()})
    EXPECT_GT(Deadline::after(seconds).remaining(), nine_years) << seconds;
}

}  // namespace
}  // namespace tremula::core
