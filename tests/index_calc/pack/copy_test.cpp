// SPDX-License-Identifier: Apache-2.0
// Tests pack.hpp: packages move in stretches, and directly from one local buffer to the other.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "core/error.hpp"
#include "index_calc/pack/copy_lines.hpp"
#include "index_calc/pack/pack.hpp"
#include "tests/index_calc/cells.hpp"
#include "tests/index_calc/oracle.hpp"
#include "tests/rounds.hpp"

namespace tremula::index_calc {
namespace {

using testing::Random, testing::World, testing::buffer_of, testing::random_shape;
using Buffers = std::map<Rank, std::vector<std::byte>>;

/// Returns random stretches that make up the whole, in random order.
std::vector<Stretch> stretches_of(Index elements, Random& random) {
  std::vector<Stretch> result;
  for (Index at = 0; at < elements;) {
    const Index most = random.one_in(3) ? elements - at : std::min(elements - at, elements / 4 + 1);
    result.push_back({.first = at, .count = random.in(1, most)});
    at += result.back().count;
  }
  for (std::size_t i = result.size(); i > 1; --i)
    std::swap(result[i - 1],
              result[static_cast<std::size_t>(random.in(0, static_cast<Index>(i) - 1))]);
  return result;
}

/// An array in the memory of both sides, and all ways to move it from one side to the other.
struct Redistribution {
  Layout from, to;
  std::size_t width;
  Order order;
  Buffers source;  ///< with all numbers
  Buffers target;  ///< as it must be in the end: -1 where there is no element
  CopyTuning tuning = copy_tuning();

  Buffers empty_target() const {
    Buffers result = target;
    for (auto& [rank, bytes] : result)
      bytes = buffer_of(std::vector<Index>(bytes.size() / width, -1), width);
    return result;
  }

  /// Calls move(my package, my part, me) for all packages of all ranks of `mine`.
  template <class Move>
  void for_each_package(const Layout& mine, const Layout& theirs, const Buffers& ranks,
                        Move&& move) const {
    for (const auto& [me, bytes] : ranks) {
      const Plan plan = make_plan(mine, theirs, me);
      for (std::size_t i = 0; i < plan.size(); ++i) move(plan[i], local_part(mine, me), me);
    }
  }

  std::span<std::byte> piece(std::span<std::byte> wire, Stretch s) const {
    return wire.subspan(static_cast<std::size_t>(s.first) * width,
                        static_cast<std::size_t>(s.count) * width);
  }

  void expect_stretches_make_the_whole(Random& random) const {
    Buffers arrived = empty_target();
    for_each_package(from, to, source, [&](const Package& package, const LocalPart& part, Rank me) {
      const auto elements = static_cast<std::size_t>(package.elements);
      std::vector<std::byte> whole(elements * width), wire(elements * width);
      pack(package, part, order, width, source.at(me), whole);
      for (const Stretch s : stretches_of(package.elements, random))
        pack(package, part, order, width, s, source.at(me), piece(wire, s), tuning);
      ASSERT_TRUE(wire == whole);
      const Plan other = make_plan(to, from, package.peer);
      for (const Stretch s : stretches_of(package.elements, random))
        unpack(*other.package_for(me), local_part(to, package.peer), order, width, s,
               piece(wire, s), arrived.at(package.peer), tuning);
    });
    expect_arrived(arrived);
  }

  void expect_copies_arrive(Random& random) const {
    Buffers read = empty_target();
    Buffers read_in_stretches = read, written = read, written_in_stretches = read;
    for_each_package(to, from, target, [&](const Package& package, const LocalPart& mine, Rank me) {
      const LocalPart theirs = local_part(from, package.peer);
      const auto& bytes = source.at(package.peer);
      copy_from_peer(package, mine, theirs, width, bytes, read.at(me));
      for (const Stretch s : stretches_of(package.elements, random))
        copy_from_peer(package, mine, theirs, order, width, s, bytes, read_in_stretches.at(me),
                       tuning);
    });
    for_each_package(from, to, source, [&](const Package& package, const LocalPart& mine, Rank me) {
      const LocalPart theirs = local_part(to, package.peer);
      const auto& bytes = source.at(me);
      copy_to_peer(package, mine, theirs, width, bytes, written.at(package.peer));
      for (const Stretch s : stretches_of(package.elements, random))
        copy_to_peer(package, mine, theirs, order, width, s, bytes,
                     written_in_stretches.at(package.peer), tuning);
    });
    for (const Buffers* all : {&read, &read_in_stretches, &written, &written_in_stretches})
      expect_arrived(*all);
  }

  void expect_common_runs_arrive(Random& random) const {
    Buffers arrived = empty_target();
    for_each_package(to, from, target, [&](const Package& package, const LocalPart& mine, Rank me) {
      const LocalPart theirs = local_part(from, package.peer);
      std::vector<CommonRun> runs;
      for (const Stretch s : stretches_of(package.elements, random)) {
        runs.clear();
        list_common_runs(package, mine, theirs, order, width, s, target.at(me), runs);
        std::size_t bytes = 0;
        for (std::size_t i = 0; i < runs.size(); ++i) {
          const auto [from_byte, to_byte, length] = runs[i];
          ASSERT_LE(from_byte + length, source.at(package.peer).size());
          std::copy_n(source.at(package.peer).begin() + static_cast<std::ptrdiff_t>(from_byte),
                      length, arrived.at(me).begin() + static_cast<std::ptrdiff_t>(to_byte));
          bytes += length;
          if (i == 0) continue;
          const bool is_joined = runs[i - 1].theirs + runs[i - 1].bytes == from_byte &&
                                 runs[i - 1].mine + runs[i - 1].bytes == to_byte;
          ASSERT_FALSE(is_joined) << "two adjacent runs must be one";
        }
        ASSERT_EQ(bytes, static_cast<std::size_t>(s.count) * width);
      }
    });
    expect_arrived(arrived);
  }

  void expect_arrived(const Buffers& arrived) const {
    for (const auto& [rank, bytes] : target)
      ASSERT_TRUE(arrived.at(rank) == bytes) << "rank " << rank.value;
  }
};

TEST(Copy, PlacesEveryElementAndChangesNoOtherCell) {
  Random random;
  for (int round = 0; round < testing_only::rounds(500) && !::testing::Test::HasFailure();
       ++round) {
    const auto shape = random_shape(random, static_cast<std::size_t>(random.in(1, 4)));
    const Index most = shape.size() < 3 ? 4 : 2;
    Redistribution r{.from = random.layout(shape, most),
                     .to = random.layout(shape, most),
                     .width = std::size_t{1} << random.in(0, 4),
                     .order = random.one_in(2) ? Order::row : Order::column,
                     .source = {},
                     .target = {}};
    SCOPED_TRACE(to_string(r.from) + "  to  " + to_string(r.to) + " width " +
                 std::to_string(r.width));
    for (const auto& [rank, numbers] : World(r.from).buffers)
      r.source[rank] = buffer_of(numbers, r.width);
    for (const auto& [rank, numbers] : World(r.to).buffers)
      r.target[rank] = buffer_of(numbers, r.width);
    r.expect_stretches_make_the_whole(random);
    r.expect_copies_arrive(random);
    r.expect_common_runs_arrive(random);
  }
}

/// Returns the kernels of this processor, for caches that hold `cached_bytes`.
std::vector<CopyTuning> large_tunings(std::size_t cached_bytes) {
  std::vector<CopyTuning> result;
  for (const StoreWidth width : {StoreWidth::least, StoreWidth::avx, StoreWidth::avx512})
    if (has(width)) {
      result.push_back(copy_tuning(width));
      result.back().cached_bytes = cached_bytes;
    }
  return result;
}

Buffers large_buffers(const Layout& layout, std::size_t width) {
  Buffers result;
  for (const auto& [rank, numbers] : testing::large_numbers(layout))
    result[rank] = buffer_of(numbers, width);
  return result;
}

TEST(Copy, IsTheSameWithEveryKernel) {
  Random random;
  for (int round = 0; round < testing_only::rounds(300) && !::testing::Test::HasFailure();
       ++round) {
    // Rows of all lengths, from a part of a cache line to several pieces of a long run.
    const std::string shape = "shape=" + std::to_string(random.in(1, 40)) + "x" +
                              std::to_string(random.in(1, random.one_in(4) ? 4000 : 300)) + " ";
    const auto layout = [&] {
      const Index grid = random.in(1, 3), rows = random.in(1, 40);
      const Index columns = random.in(1, random.one_in(3) ? 1500 : 70);
      return Layout::parse(shape + "grid=1x" + std::to_string(grid) +
                           " block=" + std::to_string(rows) + "x" + std::to_string(columns) +
                           (random.one_in(4) ? " ghost=1x1" : "") +
                           (random.one_in(6) ? " store=column" : ""));
    };
    Redistribution r{.from = layout(),
                     .to = layout(),
                     .width = std::size_t{1} << random.in(0, 4),
                     .order = random.one_in(4) ? Order::column : Order::row,
                     .source = {},
                     .target = {}};
    for (const auto& [rank, numbers] : testing::large_numbers(r.from))
      r.source[rank] = buffer_of(numbers, r.width);
    for (const auto& [rank, numbers] : testing::large_numbers(r.to))
      r.target[rank] = buffer_of(numbers, r.width);
    for (const std::size_t cached_bytes : {std::size_t{0}, std::size_t{16'000}})
      for (const CopyTuning& tuning : large_tunings(cached_bytes)) {
        SCOPED_TRACE(to_string(r.from) + "  to  " + to_string(r.to) + " width " +
                     std::to_string(r.width) + " cached " + std::to_string(cached_bytes));
        r.tuning = tuning;
        r.expect_stretches_make_the_whole(random);
        r.expect_copies_arrive(random);
      }
  }
}

TEST(Copy, IsTheSameBeyondTheCache) {
  Random random;
  constexpr const char* pairs[][2] = {{"grid=1x1", "grid=1x1 store=column ghost=1x1"},
                                      {"grid=1x2 block1=1 ghost=0x1", "grid=1x1"},
                                      {"grid=2x1 block0=7", "grid=1x1 block=5x3 ghost=2x3"},
                                      {"grid=1x2 block1=37", "grid=1x1 store=column"}};
  for (const std::size_t width : {2U, 4U, 8U, 16U})
    for (const auto& [mine, theirs] : pairs) {
      // At most two packages, of more than 2 MiB each.
      const std::string shape = "shape=" + std::to_string(random.in(600, 620)) + "x" +
                                std::to_string((std::size_t{5} << 20) / 600 / width) + " ";
      Redistribution r{.from = Layout::parse(shape + mine),
                       .to = Layout::parse(shape + theirs),
                       .width = width,
                       .order = random.one_in(2) ? Order::row : Order::column,
                       .source = {},
                       .target = {}};
      SCOPED_TRACE(to_string(r.from) + "  to  " + to_string(r.to) + " width " +
                   std::to_string(width));
      r.source = large_buffers(r.from, width);
      r.target = large_buffers(r.to, width);
      r.expect_stretches_make_the_whole(random);
      r.expect_copies_arrive(random);
    }
}

/// A rank with 4 x 6 elements, and a peer that has the right half of them and ghost cells. The peer
/// may make a false claim about its local part.
class FalseClaim : public ::testing::Test {
protected:
  void expect_refused(const LocalPart& theirs, const std::string& text) {
    expect_refused(theirs, their_local_.size(), text);
  }
  void expect_refused(const LocalPart& theirs, std::size_t bytes, const std::string& text) {
    const auto before_mine = my_local_, before_theirs = their_local_;
    const auto span = std::span(their_local_).first(bytes);
    for (const bool reading : {true, false}) {
      try {
        reading ? copy_from_peer(plan_[1], mine_, theirs, 8, span, my_local_)
                : copy_to_peer(plan_[1], mine_, theirs, 8, my_local_, span);
        ADD_FAILURE() << "expected an error with: " << text;
      } catch (const core::Error& e) {
        EXPECT_EQ(e.code(), core::Errc::invalid_argument);
        EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
      }
    }
    EXPECT_EQ(my_local_, before_mine);
    EXPECT_EQ(their_local_, before_theirs);
  }

  Layout layout_ = Layout::parse("shape=4x6 grid=1x1");
  Layout other_ = Layout::parse("shape=4x6 grid=1x2 ghost=1x1");
  Plan plan_ = make_plan(layout_, other_, Rank{0});
  LocalPart mine_ = local_part(layout_, Rank{0}), theirs_ = local_part(other_, Rank{1});
  std::vector<std::byte> my_local_ = std::vector<std::byte>(24 * 8, std::byte{1});
  std::vector<std::byte> their_local_ = std::vector<std::byte>(30 * 8, std::byte{2});
};

TEST_F(FalseClaim, IsRefusedBeforeAnythingIsTouched) {
  constexpr Index most = std::numeric_limits<Index>::max();
  ASSERT_EQ(theirs_.allocated, 30);
  ASSERT_EQ(theirs_.first, 6);
  const std::string outside = "expected all elements of the package among the ";
  LocalPart claimed = theirs_;
  for (const Index first : {Index{-1}, Index{13}, most, -most - 1}) {
    claimed.first = first;
    expect_refused(claimed,
                   outside + "30 of the peer's part, found first " + std::to_string(first));
  }
  claimed.first = 12;  // the last element is in the last cell
  EXPECT_NO_THROW(copy_from_peer(plan_[1], mine_, claimed, 8, their_local_, my_local_));
  for (const std::size_t d : {0U, 1U})
    for (const Index stride : {Index{0}, Index{-1}, Index{12}, most / 2, most, -most - 1}) {
      claimed = theirs_;
      claimed.stride[d] = stride;
      expect_refused(claimed, outside + "30 of the peer's part");
    }
  claimed = theirs_;
  claimed.allocated = 24 - 1;
  expect_refused(claimed, outside + "23 of the peer's part");
  for (const Index allocated : {Index{31}, most / 8, most, Index{-1}, -most - 1}) {
    claimed.allocated = allocated;
    expect_refused(claimed, "expected a peer's buffer of " + std::to_string(allocated) +
                                " elements of 8 bytes, found 240 bytes");
  }
  expect_refused(theirs_, 239, "expected a peer's buffer of 30 elements of 8 bytes, found 239");
  claimed = theirs_;
  claimed.dimensions = 1;
  expect_refused(claimed, "expected a peer's part of 2 dimensions, found 1");
  expect_refused(LocalPart{}, "expected a peer's part of 2 dimensions, found 0");
}

TEST_F(FalseClaim, MayHaveAnyStrideThatNoElementUses) {
  const Layout line = Layout::parse("shape=1x6 grid=1x1");
  const LocalPart mine = local_part(line, Rank{0});
  LocalPart theirs = mine;
  theirs.stride[0] = std::numeric_limits<Index>::max();
  copy_from_peer(make_plan(line, line, Rank{0})[0], mine, theirs, 8,
                 std::span(their_local_).first(48), my_local_);
  EXPECT_EQ(std::ranges::count(my_local_, std::byte{2}), 48);
}

TEST(Stretch, IsRefusedBeyondThePackage) {
  const Layout layout = Layout::parse("shape=6 grid=1");
  const Plan plan = make_plan(layout, layout, Rank{0});
  const Package package = plan[0];
  const LocalPart part = local_part(layout, Rank{0});
  std::vector<std::byte> local(48), wire(48);
  constexpr Index most = std::numeric_limits<Index>::max();
  for (const Stretch s : {Stretch{-1, 2}, Stretch{0, 7}, Stretch{5, 2}, Stretch{7, 0},
                          Stretch{0, -1}, Stretch{1, most}, Stretch{most, 1}})
    EXPECT_THROW(pack(package, part, Order::row, 8, s, local, wire), core::Error);
  EXPECT_THROW(pack(package, part, Order::row, 8, {2, 3}, local, wire), core::Error);
  EXPECT_NO_THROW(pack(package, part, Order::row, 8, {6, 0}, local, std::span(wire).first(0)));
}

}  // namespace
}  // namespace tremula::index_calc
