// SPDX-License-Identifier: Apache-2.0
// The arrays are distributed by the oracle, and every element carries its own global number.
#include "index_calc/proof/content_hash.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <span>

#include "core/error.hpp"
#include "index_calc/view/view.hpp"
#include "tests/index_calc/oracle.hpp"
#include "tests/index_calc/random.hpp"

namespace tremula::index_calc {
namespace {

using core::Bytes;
using testing::Random, testing::World;

/// Returns the memory of a rank, with elements of `width` bytes; cells without an element contain
/// noise.
Bytes stored(const std::vector<Index>& numbers, std::size_t width, Random& random) {
  Bytes bytes(numbers.size() * width);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    for (std::size_t k = 0; k < width; ++k) {
      const Index value = numbers[i] < 0 ? random.in(0, 255) : numbers[i] >> (8 * (k % 2));
      bytes[i * width + k] = static_cast<std::byte>(value + static_cast<Index>(k / 2));
    }
  return bytes;
}

std::uint64_t sum_of_ranks(const Layout& layout, std::size_t width, Random& random) {
  std::uint64_t sum = 0;
  for (const auto& [rank, numbers] : World(layout).buffers)
    sum += ContentHash(layout, rank, local_part(layout, rank), width)
               .of(stored(numbers, width, random));
  return sum;
}

TEST(ContentHash, IsTheSameForEveryDistribution) {
  Random random;
  for (int turn = 0; turn < 60; ++turn) {
    std::vector<Index> shape;
    for (Index d = random.in(1, 4); d > 0; --d) shape.push_back(random.in(1, 9));
    for (const std::size_t width : {1U, 2U, 4U, 8U, 16U}) {
      const Layout one = random.layout(shape, 3), other = random.layout(shape, 3);
      SCOPED_TRACE(to_string(one) + " and " + to_string(other));
      ASSERT_EQ(sum_of_ranks(one, width, random), sum_of_ranks(other, width, random));
    }
  }
}

/// Walking from the first interval for each element would take 10^11 steps.
TEST(ContentHash, TakesOnePassOverManySplits) {
  constexpr Index intervals = 200'000, length = 10;
  Splits splits{.bounds = {0}, .owner = {}, .grid = 2};
  for (Index i = 0; i < intervals; ++i) {
    splits.bounds.push_back((i + 1) * length);
    splits.owner.push_back(i % 2);
  }
  const Layout dealt(Grid({splits}));
  Random random;
  EXPECT_EQ(sum_of_ranks(dealt, 8, random),
            sum_of_ranks(Layout::parse("shape=2000000 grid=1"), 8, random));
}

TEST(ContentHash, IsTheSameOnBothSidesOfAPackage) {
  Random random;
  for (int turn = 0; turn < 60; ++turn) {
    std::vector<Index> shape;
    for (Index d = random.in(1, 3); d > 0; --d) shape.push_back(random.in(1, 9));
    const Layout mine = random.layout(shape, 3), theirs = random.layout(shape, 3);
    SCOPED_TRACE(to_string(mine) + " and " + to_string(theirs));
    const World here(mine), there(theirs);
    for (const auto& [me, numbers] : here.buffers) {
      const ContentHash hash(mine, me, local_part(mine, me), 8);
      const Bytes array = stored(numbers, 8, random);
      std::uint64_t sum = 0;
      make_plan(mine, theirs, me).for_each_package([&](const Package& package) {
        const auto plan = make_plan(theirs, mine, package.peer);
        const ContentHash peers(theirs, package.peer, local_part(theirs, package.peer), 8);
        ASSERT_EQ(
            hash.of(package, array),
            peers.of(*plan.package_for(me), stored(there.buffers.at(package.peer), 8, random)));
        sum += hash.of(package, array);
      });
      ASSERT_EQ(sum, hash.of(array));
    }
  }
}

TEST(ContentHash, NoticesFlippedBitsAndSwappedElements) {
  const Layout layout = Layout::parse("shape=5x7 grid=1x1");
  const LocalPart part = local_part(layout, Rank{0});
  for (const std::size_t width : {1U, 2U, 4U, 8U, 16U}) {
    const ContentHash hash(layout, Rank{0}, part, width);
    Random random;
    std::vector<Index> numbers;
    for (Index i = 0; i < part.allocated; ++i) numbers.push_back(i);
    Bytes array = stored(numbers, width, random);
    const auto before = hash.of(array);
    for (std::size_t bit = 0; bit < array.size() * 8; ++bit) {
      array[bit / 8] ^= std::byte{1} << (bit % 8);
      ASSERT_NE(hash.of(array), before) << "bit " << bit;
      array[bit / 8] ^= std::byte{1} << (bit % 8);
    }
    for (std::size_t a = 0; a < numbers.size(); ++a)
      for (std::size_t b = 0; b < a; ++b) {
        std::swap_ranges(&array[a * width], &array[a * width] + width, &array[b * width]);
        ASSERT_NE(hash.of(array), before) << a << " and " << b;
        std::swap_ranges(&array[a * width], &array[a * width] + width, &array[b * width]);
      }
    ASSERT_EQ(hash.of(array), before);
  }
}

// A column of a 3 x 4 array whose only rank has all elements in its buffer.
TEST(ContentHash, LeavesOutPlacesThatAreNotListed) {
  const std::vector<Index> shape{3, 4}, column{3, 1};
  std::vector<Index> numbers(12);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<Index>(i);
  const Layout listed = listed_layout(shape, 1, false, false, IndexList::of_points(shape, numbers));
  const Layout part = selected(listed, {.origin = {0, 2}, .extents = column});
  const ContentHash hash(*part.listed()->mine, flattened(local_part(part, Rank{0})), 8);
  const Layout alone = Layout::parse("shape=3x1 grid=1x1");
  const std::vector<Index> values{7, 8, 9};
  std::vector<Index> buffer(12, -1);
  for (std::size_t row = 0; row < 3; ++row) buffer[row * 4 + 2] = values[row];
  const auto bytes = [](const std::vector<Index>& of) { return std::as_bytes(std::span(of)); };
  EXPECT_EQ(hash.of(bytes(buffer)),
            ContentHash(alone, Rank{0}, local_part(alone, Rank{0}), 8).of(bytes(values)));
}

TEST(ContentHash, RefusesASkewedLayout) {
  const Layout skewed = Layout::parse("shape=8x8 mesh=2x2 block=2x2 owner0=b0 owner1=b1-b0");
  EXPECT_THROW(ContentHash(skewed, Rank{0}, local_part(skewed, Rank{0}), 8), core::Error);
}

TEST(ContentHash, IsZeroForARankWithoutElements) {
  const Layout layout = Layout::parse("shape=2 grid=3");
  EXPECT_EQ(ContentHash(layout, Rank{2}, local_part(layout, Rank{2}), 8).of(Bytes()), 0u);
}

}  // namespace
}  // namespace tremula::index_calc
