// SPDX-License-Identifier: Apache-2.0
#include "index_calc/pack/pack.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.hpp"
#include "index_calc/plan/runs.hpp"
#include "tests/index_calc/cells.hpp"
#include "tests/index_calc/oracle.hpp"
#include "tests/index_calc/random.hpp"

namespace tremula::index_calc {
namespace {

using testing::Random, testing::World, testing::buffer_of, testing::random_shape;

/// Returns the runs that `elements` form in the buffer, found by comparing neighbouring elements.
Runs runs_of(const World& world, const std::vector<Index>& elements) {
  std::vector<Index> lengths;
  Index previous = -2;
  for (const Index number : elements) {
    if (world.offset.at(number) != previous + 1) lengths.push_back(0);
    ++lengths.back();
    previous = world.offset.at(number);
  }
  return {.count = static_cast<Index>(lengths.size()),
          .longest = *std::ranges::max_element(lengths),
          .shortest = *std::ranges::min_element(lengths)};
}

TEST(Pack, MovesEveryElementToItsPlaceInAgreedWireOrder) {
  Random random;
  for (int round = 0; round < 1000; ++round) {
    const auto shape = random_shape(random, static_cast<std::size_t>(random.in(1, 4)));
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
        ASSERT_EQ(runs(package, part, order), runs_of(source, expected));
        const Plan other = make_plan(to, from, package.peer);
        ASSERT_TRUE(other.package_for(me));
        unpack(*other.package_for(me), local_part(to, package.peer), order, width, wire,
               received[package.peer]);
      }
    }
    for (const auto& [rank, numbers] : target.buffers)
      ASSERT_EQ(received[rank], buffer_of(numbers, width));
  }
}

TEST(Pack, TransposesArraysLargerThanATile) {
  for (const char* shape :
       {"shape=140x137 grid=1x1", "shape=67x3x83 grid=1x1x1", "shape=2x65x3x69 grid=1x1x1x1"}) {
    const Layout rows = Layout::parse(shape), columns = rows.with(Storage{.order = Order::column});
    const World source(rows), target(columns);
    for (const std::size_t width : {1U, 2U, 4U, 8U, 16U}) {
      const auto from = buffer_of(source.buffers.at(Rank{0}), width),
                 to = buffer_of(target.buffers.at(Rank{0}), width);
      for (const Order order : {Order::row, Order::column}) {
        std::vector<std::byte> wire(from.size()), back(from.size());
        pack(make_plan(rows, columns, Rank{0})[0], local_part(rows, Rank{0}), order, width, from,
             wire);
        EXPECT_EQ(wire, order == Order::row ? from : to);
        unpack(make_plan(columns, rows, Rank{0})[0], local_part(columns, Rank{0}), order, width,
               wire, back);
        EXPECT_EQ(back, to);
      }
    }
  }
}

TEST(Pack, WalksContiguousMemoryAsOneRun) {
  const auto runs_of = [](const char* mine, const char* theirs, Order order) {
    const Layout layout = Layout::parse(mine);
    return runs(make_plan(layout, Layout::parse(theirs), Rank{0})[0], local_part(layout, Rank{0}),
                order)
        .count;
  };
  EXPECT_EQ(runs_of("shape=40x30 grid=4x1", "shape=40x30 grid=1x1", Order::row), 1);
  EXPECT_EQ(runs_of("shape=40x30 grid=4x1 block=2x30", "shape=40x30 grid=1x1", Order::row), 1);
  EXPECT_EQ(runs_of("shape=40x30 grid=4x1 ghost=1x0", "shape=40x30 grid=1x1", Order::row), 1);
  EXPECT_EQ(runs_of("shape=40x30 grid=4x1 ghost=0x1", "shape=40x30 grid=1x1", Order::row), 10);
  EXPECT_EQ(runs_of("shape=40x30 grid=4x1", "shape=40x30 grid=1x1", Order::column), 300);
  EXPECT_EQ(runs_of("shape=40x30 grid=1x1", "shape=40x30 grid=1x2", Order::row), 40);
  EXPECT_EQ(runs_of("shape=40x30 grid=1x1", "shape=40x30 grid=1x2 block1=1", Order::row), 600);
}

TEST(Pack, CountsARunOf2ToThe62Elements) {
  const Layout all = Layout::parse("shape=4611686018427387904 grid=1");
  EXPECT_EQ(runs(make_plan(all, all, Rank{0})[0], local_part(all, Rank{0}), Order::row),
            (Runs{.count = 1, .longest = Index{1} << 62, .shortest = Index{1} << 62}));
}

TEST(Pack, RefusesBuffersOfTheWrongSize) {
  const Layout layout = Layout::parse("shape=6 grid=2 ghost=1");
  const Plan plan = make_plan(layout, Layout::parse("shape=6 grid=1"), Rank{0});
  const LocalPart part = local_part(layout, Rank{0});
  std::vector<std::byte> local(40), wire(24);  // 5 and 3 elements of 8 bytes
  EXPECT_NO_THROW(pack(plan[0], part, Order::row, 8, local, wire));
  const auto refused = [&](std::size_t element_bytes, std::size_t local_bytes,
                           std::size_t wire_bytes, const std::string& text) {
    for (const bool packing : {true, false}) {
      try {
        const auto l = std::span(local).first(local_bytes), w = std::span(wire).first(wire_bytes);
        packing ? pack(plan[0], part, Order::row, element_bytes, l, w)
                : unpack(plan[0], part, Order::row, element_bytes, w, l);
        ADD_FAILURE() << "expected an error with: " << text;
      } catch (const core::Error& e) {
        EXPECT_EQ(e.code(), core::Errc::invalid_argument);
        EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
      }
    }
  };
  refused(8, 39, 24, "expected a local buffer of 5 elements of 8 bytes, found 39 bytes");
  refused(8, 40, 23, "expected 3 elements of 8 bytes on the wire, found 23 bytes");
  refused(0, 40, 24, "expected elements of at least 1 byte");
}

}  // namespace
}  // namespace tremula::index_calc
