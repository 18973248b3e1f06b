// SPDX-License-Identifier: Apache-2.0
#include "core/buffer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace tremula::core {
namespace {

static_assert(!std::is_copy_constructible_v<Buffer>);
static_assert(std::is_nothrow_move_constructible_v<Buffer>);

TEST(Buffer, HoldsAsManyBytesAsAskedFor) {
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{63}, std::size_t{64}, std::size_t{100'003}}) {
    Buffer buffer(bytes);
    ASSERT_EQ(buffer.bytes(), bytes);
    ASSERT_EQ(buffer.span().size(), bytes);
    std::ranges::fill(buffer.span(), std::byte{0x5a});
    EXPECT_EQ(std::ranges::count(std::as_const(buffer).span(), std::byte{0x5a}),
              static_cast<std::ptrdiff_t>(bytes));
  }
}

TEST(Buffer, BeginsOnACacheLine) {
  for (std::size_t bytes = 1; bytes < 300; bytes += 7) {
    Buffer buffer(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.span().data()) % Buffer::alignment, 0u)
        << bytes;
  }
}

TEST(Buffer, MayBeEmpty) {
  EXPECT_TRUE(Buffer().span().empty());
  EXPECT_TRUE(Buffer(0).span().empty());
}

TEST(Buffer, MovesWithoutCopyingAndLeavesNothingBehind) {
  Buffer from(128);
  const auto* const place = from.span().data();
  Buffer to(std::move(from));
  EXPECT_EQ(to.span().data(), place);
  EXPECT_EQ(to.bytes(), 128u);
  EXPECT_EQ(from.bytes(), 0u);  // NOLINT(bugprone-use-after-move): the claim of this test
  EXPECT_TRUE(from.span().empty());

  Buffer other(16);
  other = std::move(to);
  EXPECT_EQ(other.span().data(), place);
  EXPECT_EQ(other.bytes(), 128u);
  EXPECT_EQ(to.bytes(), 0u);  // NOLINT(bugprone-use-after-move): the claim of this test
}

}  // namespace
}  // namespace tremula::core
