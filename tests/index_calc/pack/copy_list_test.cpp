// SPDX-License-Identifier: Apache-2.0
#include "index_calc/pack/copy_list.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "core/error.hpp"
#include "index_calc/pack/pack.hpp"
#include "index_calc/plan/runs.hpp"
#include "tests/index_calc/cells.hpp"

namespace tremula::index_calc {
namespace {

using testing::Random, testing::random_shape;
using Bytes = std::vector<std::byte>;

constexpr std::size_t any_number_of_runs = std::numeric_limits<std::size_t>::max();

Bytes random_bytes(Random& random, std::size_t count) {
  Bytes result(count);
  for (std::byte& b : result) b = static_cast<std::byte>(random.in(0, 255));
  return result;
}

/// A rank's part of an array, one package of it, and the place of that package in a message.
struct SmallPart {
  Plan plan;
  Package package;
  LocalPart part;
  Order order;
  std::size_t width;
  Bytes local;
  std::size_t wire_at = 0;

  std::size_t bytes() const { return static_cast<std::size_t>(package.elements) * width; }
};

/// Returns the packages of one rank of a random pair of layouts, each with its own buffer.
std::vector<SmallPart> random_parts(Random& random) {
  const auto shape = random_shape(random, static_cast<std::size_t>(random.in(1, 4)));
  const Layout from = random.layout(shape, 3), to = random.layout(shape, 3);
  const Order order = random.one_in(2) ? Order::row : Order::column;
  const std::size_t width = std::size_t{1} << random.in(0, 4);
  const Rank me{static_cast<RankCount>(random.in(0, 8))};
  std::vector<SmallPart> result;
  const Plan plan = make_plan(from, to, me);
  const LocalPart part = local_part(from, me);
  for (std::size_t i = 0; i < plan.size(); ++i) {
    result.push_back(
        {.plan = plan,
         .package = {},
         .part = part,
         .order = order,
         .width = width,
         .local = random_bytes(random, static_cast<std::size_t>(part.allocated) * width)});
  }
  for (std::size_t i = 0; i < result.size(); ++i) result[i].package = result[i].plan[i];
  return result;
}

/// Parts of several arrays in one message, with gaps between them.
class MessageOfSmallParts {
public:
  explicit MessageOfSmallParts(Random& random) {
    for (Index arrays = random.in(1, 5); arrays > 0; --arrays)
      for (SmallPart& p : random_parts(random)) {
        bytes_ += static_cast<std::size_t>(random.in(0, 2));
        p.wire_at = bytes_;
        bytes_ += p.bytes();
        EXPECT_TRUE(append(list_, p.package, p.part, p.order, p.width,
                           static_cast<std::uint32_t>(parts_.size()), p.wire_at,
                           any_number_of_runs));
        parts_.push_back(std::move(p));
      }
    wire_ = random_bytes(random, bytes_);
  }

  std::size_t bytes() const { return bytes_; }

  void expect_gathers_as_pack() const {
    Bytes expected = wire_, found = wire_;
    std::vector<const std::byte*> arrays;
    for (const SmallPart& p : parts_) {
      pack(p.package, p.part, p.order, p.width, p.local,
           std::span(expected).subspan(p.wire_at, p.bytes()));
      arrays.push_back(p.local.data());
    }
    gather(list_.entries, arrays, found.data());
    ASSERT_EQ(found, expected);
  }

  void expect_scatters_as_unpack() const {
    std::vector<Bytes> expected, found;
    for (const SmallPart& p : parts_) {
      expected.push_back(p.local);
      found.push_back(p.local);
      unpack(p.package, p.part, p.order, p.width, std::span(wire_).subspan(p.wire_at, p.bytes()),
             expected.back());
    }
    std::vector<std::byte*> arrays;
    for (Bytes& b : found) arrays.push_back(b.data());
    scatter(list_.entries, wire_.data(), arrays);
    ASSERT_EQ(found, expected);
  }

  void expect_ascends_on_the_wire_in_whole_runs() const {
    std::size_t at = 0;
    Index all_runs = 0;
    for (const SmallPart& p : parts_) all_runs += runs(p.package, p.part, p.order).count;
    ASSERT_EQ(list_.entries.size(), static_cast<std::size_t>(all_runs));
    for (const CopyList::Entry& e : list_.entries) {
      ASSERT_GE(e.wire, at);
      at = e.wire + e.bytes;
    }
  }

private:
  std::vector<SmallPart> parts_;
  CopyList list_;
  std::size_t bytes_ = 0;
  Bytes wire_;
};

TEST(CopyList, MovesTheSameAsPackAndUnpack) {
  Random random;
  std::size_t bytes = 0;
  for (int round = 0; round < 500 && !::testing::Test::HasFatalFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const MessageOfSmallParts message(random);
    message.expect_gathers_as_pack();
    message.expect_scatters_as_unpack();
    message.expect_ascends_on_the_wire_in_whole_runs();
    bytes += message.bytes();
  }
  EXPECT_GT(bytes, 10'000U) << "hardly anything was moved";
}

TEST(CopyList, CopiesRunsOfEveryLength) {
  for (std::uint32_t bytes = 1; bytes <= 700; ++bytes) {
    Bytes local(bytes + 2), wire(bytes + 4);
    for (std::size_t i = 0; i < local.size(); ++i) local[i] = static_cast<std::byte>(i % 251 + 1);
    const CopyList::Entry entry{.local = 1, .wire = 2, .bytes = bytes, .array = 0};
    gather({&entry, 1}, std::array<const std::byte*, 1>{local.data()}, wire.data());
    Bytes expected(bytes + 4);
    std::copy_n(local.begin() + 1, bytes, expected.begin() + 2);
    ASSERT_EQ(wire, expected) << bytes;
    Bytes back(bytes + 2);
    scatter({&entry, 1}, wire.data(), std::array<std::byte*, 1>{back.data()});
    local.front() = local.back() = std::byte{0};
    ASSERT_EQ(back, local) << bytes;
  }
}

TEST(CopyList, JoinsNeighboursOfOneArray) {
  const Layout mine = Layout::parse("shape=4x6 grid=1x1"),
               theirs = Layout::parse("shape=4x6 grid=2x1");
  const Plan plan = make_plan(mine, theirs, Rank{0});
  const LocalPart part = local_part(mine, Rank{0});
  CopyList list;
  ASSERT_TRUE(append(list, plan[0], part, Order::row, 8, 7, 100, 1));
  ASSERT_TRUE(append(list, plan[1], part, Order::row, 8, 7, 196, 1));
  using Entries = std::vector<CopyList::Entry>;
  EXPECT_EQ(list.entries, (Entries{{.local = 0, .wire = 100, .bytes = 192, .array = 7}}));
  ASSERT_TRUE(append(list, plan[0], part, Order::row, 8, 8, 292, 1));
  ASSERT_TRUE(append(list, plan[1], part, Order::row, 8, 8, 389, 1));
  EXPECT_EQ(list.entries, (Entries{{.local = 0, .wire = 100, .bytes = 192, .array = 7},
                                   {.local = 0, .wire = 292, .bytes = 96, .array = 8},
                                   {.local = 96, .wire = 389, .bytes = 96, .array = 8}}));
}

TEST(CopyList, SplitsARunThatAnEntryCannotHold) {
  const Layout line = Layout::parse("shape=1000000000 grid=1");
  CopyList list;
  ASSERT_TRUE(append(list, make_plan(line, line, Rank{0})[0], local_part(line, Rank{0}), Order::row,
                     8, 0, 3, 1));
  std::uint64_t at = 0;
  for (const CopyList::Entry& e : list.entries) {
    EXPECT_EQ(e.local, at);
    EXPECT_EQ(e.wire, at + 3);
    at += e.bytes;
  }
  EXPECT_EQ(at, 8'000'000'000U);
  EXPECT_EQ(list.entries.size(), 4U);
}

TEST(CopyList, LeavesOutPackagesOfManyRuns) {
  const Layout mine = Layout::parse("shape=4x6 grid=1x1"),
               theirs = Layout::parse("shape=4x6 grid=1x2");
  const Plan plan = make_plan(mine, theirs, Rank{0});
  const LocalPart part = local_part(mine, Rank{0});
  CopyList list;
  EXPECT_FALSE(append(list, plan[0], part, Order::row, 8, 0, 0, 3));
  EXPECT_TRUE(list.entries.empty());
  EXPECT_TRUE(append(list, plan[0], part, Order::row, 8, 0, 0, 4));
  EXPECT_EQ(list.entries.size(), 4U);
}

TEST(CopyList, RefusesAPartThatDoesNotHoldThePackage) {
  const Layout layout = Layout::parse("shape=4x6 grid=1x1");
  const Plan plan = make_plan(layout, layout, Rank{0});
  const auto expect_refused = [&](const LocalPart& part, std::size_t element_bytes) {
    CopyList list;
    try {
      append(list, plan[0], part, Order::row, element_bytes, 0, 0, any_number_of_runs);
      ADD_FAILURE() << "expected an error";
    } catch (const core::Error& e) {
      EXPECT_EQ(e.code(), core::Errc::invalid_argument);
    }
    EXPECT_TRUE(list.entries.empty());
  };
  LocalPart part = local_part(layout, Rank{0});
  expect_refused(part, 0);
  part.allocated = 23;
  expect_refused(part, 8);
  part.allocated = std::numeric_limits<Index>::max();
  expect_refused(part, 8);
  part = local_part(layout, Rank{0});
  part.first = 1;
  expect_refused(part, 8);
}

}  // namespace
}  // namespace tremula::index_calc
