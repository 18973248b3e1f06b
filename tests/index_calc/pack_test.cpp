// SPDX-License-Identifier: Apache-2.0
#include "index_calc/pack.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "core/error.hpp"
#include "tests/index_calc/oracle.hpp"
#include "tests/index_calc/random.hpp"

namespace tremula::index_calc {
namespace {

using testing::Random, testing::World;

std::vector<Index> shape_of(Random& random, std::size_t dimensions) {
  std::vector<Index> shape;
  for (std::size_t d = 0; d < dimensions; ++d)
    shape.push_back(random.in(random.one_in(20) ? 0 : 1, dimensions == 1   ? 60
                                                         : dimensions == 2 ? 14
                                                                           : 6));
  return shape;
}

/// An element of any size that carries a number, and shows when only a part of it was moved.
void put_number(std::byte* at, std::size_t element_bytes, Index number) {
  for (std::size_t i = 0; i < element_bytes; ++i)
    at[i] = static_cast<std::byte>(static_cast<std::uint64_t>(number) >> (8 * (i % 8)) ^ (i / 8));
}

std::vector<std::byte> buffer_of(const std::vector<Index>& numbers, std::size_t element_bytes) {
  std::vector<std::byte> bytes(numbers.size() * element_bytes);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    put_number(bytes.data() + i * element_bytes, element_bytes, numbers[i]);
  return bytes;
}

TEST(Pack, MovesEveryElementToItsPlaceInAgreedWireOrder) {
  Random random;
  for (int round = 0; round < 1500; ++round) {
    const auto shape = shape_of(random, static_cast<std::size_t>(random.in(1, 4)));
    const Index most = shape.size() < 3 ? 4 : 2;
    const Layout from = random.layout(shape, most), to = random.layout(shape, most);
    const Order order = random.one_in(2) ? Order::row : Order::column;
    const std::size_t width = std::size_t{1} << random.in(0, 4);
    SCOPED_TRACE(to_string(from) + "  to  " + to_string(to) + " width " + std::to_string(width));
    const World source(from), target(to);
    std::map<Rank, std::vector<std::byte>> received;
    for (const auto& [rank, numbers] : target.buffers)
      received[rank] = buffer_of(std::vector<Index>(numbers.size(), -1), width);
    for (const auto& [me, numbers] : source.buffers) {
      const Plan plan = make_plan(from, to, me);
      const LocalPart part = local_part(from, me);
      ASSERT_EQ(part.allocated, static_cast<Index>(numbers.size()));
      const auto local = buffer_of(numbers, width);
      for (std::size_t i = 0; i < plan.size(); ++i) {
        const Package package = plan[i];
        std::vector<std::byte> wire(static_cast<std::size_t>(package.elements) * width);
        pack(package, part, order, width, local, wire);
        const auto expected = source.common(target, me, package.peer, order);
        ASSERT_EQ(wire, buffer_of(expected, width));
        Index jumps = 0, previous = -2;
        for (const Index number : expected) {
          jumps += source.offset.at(number) != previous + 1;
          previous = source.offset.at(number);
        }
        ASSERT_EQ(runs(package, part, order), jumps);
        const Plan other = make_plan(to, from, package.peer);
        ASSERT_LT(other.find(me), other.size());
        unpack(other[other.find(me)], local_part(to, package.peer), order, width, wire,
               received[package.peer]);
      }
    }
    for (const auto& [rank, numbers] : target.buffers)
      ASSERT_EQ(received[rank], buffer_of(numbers, width));
  }
}

}  // namespace
}  // namespace tremula::index_calc
