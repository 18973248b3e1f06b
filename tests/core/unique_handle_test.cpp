// SPDX-License-Identifier: Apache-2.0
#include "core/unique_handle.hpp"

#include <gtest/gtest.h>

#include <type_traits>
#include <vector>

namespace tremula::core {
namespace {

std::vector<int> closed;  // in order; each test clears it

struct NumberTraits {
  using Handle = int;
  static Handle none() { return -1; }
  static void close(Handle handle) noexcept { closed.push_back(handle); }
};
using Number = UniqueHandle<NumberTraits>;

static_assert(!std::is_copy_constructible_v<Number> && !std::is_copy_assignable_v<Number>);
static_assert(std::is_nothrow_move_constructible_v<Number> &&
              std::is_nothrow_move_assignable_v<Number>);

class UniqueHandleTest : public testing::Test {
protected:
  void SetUp() override { closed.clear(); }
};

TEST_F(UniqueHandleTest, ClosesOnceAtTheEnd) {
  { const Number handle(0); }
  EXPECT_EQ(closed, std::vector{0});
}

TEST_F(UniqueHandleTest, ClosesNothingIfEmpty) {
  {
    Number empty;
    const Number none(-1);
    EXPECT_FALSE(empty);
    EXPECT_FALSE(none);
    empty.reset();
  }
  EXPECT_TRUE(closed.empty());
}

TEST_F(UniqueHandleTest, MovesItsDutyToClose) {
  {
    Number from(4);
    const Number to(std::move(from));
    EXPECT_FALSE(from);  // NOLINT(bugprone-use-after-move): the claim of this test
    EXPECT_EQ(to.get(), 4);
    EXPECT_TRUE(closed.empty());
  }
  EXPECT_EQ(closed, std::vector{4});
}

TEST_F(UniqueHandleTest, ClosesItsOldHandleWhenAssigned) {
  {
    Number handle(1);
    handle = Number(2);
    EXPECT_EQ(closed, std::vector{1});
    EXPECT_EQ(handle.get(), 2);
  }
  EXPECT_EQ(closed, (std::vector{1, 2}));
}

TEST_F(UniqueHandleTest, SurvivesBeingAssignedToItself) {
  Number handle(7);
  Number& same = handle;
  handle = std::move(same);
  EXPECT_EQ(handle.get(), 7);
  EXPECT_TRUE(closed.empty());
}

TEST_F(UniqueHandleTest, ResetClosesAtOnceAndOnlyOnce) {
  Number handle(3);
  handle.reset();
  handle.reset();
  EXPECT_FALSE(handle);
  EXPECT_EQ(closed, std::vector{3});
}

}  // namespace
}  // namespace tremula::core
