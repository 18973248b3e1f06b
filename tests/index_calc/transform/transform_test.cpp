// SPDX-License-Identifier: Apache-2.0
#include "index_calc/transform/transform.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <sstream>

#include "index_calc/pack/copy_lines.hpp"
#include "tests/index_calc/cells.hpp"
#include "tests/index_calc/oracle.hpp"
#include "tests/index_calc/transform_oracle.hpp"
#include "tests/rounds.hpp"

namespace tremula::index_calc {
namespace {

using core::element_bytes;
using testing::Random, testing::Values, testing::World, testing::all_types;
using enum core::ElementType;
using Numbers = std::map<Rank, std::vector<Index>>;

std::string text_of(const Transformation& t) {
  std::ostringstream text;
  text << to_string(t.from) << " to " << to_string(t.to) << " alpha " << t.alpha << " beta "
       << t.beta << (t.conjugates ? " conjugated" : "");
  return text.str();
}

/// A buffer at a random byte offset.
class Cells {
public:
  Cells(std::size_t bytes, Random& random)
      : skip_(static_cast<std::size_t>(random.in(0, 17))),
        bytes_(bytes),
        memory_(bytes + skip_, std::byte{0xff}) {}
  std::span<std::byte> span() { return std::span(memory_).subspan(skip_, bytes_); }

private:
  std::size_t skip_, bytes_;
  std::vector<std::byte> memory_;
};

/// An array that is moved once by pack and unpack, and once by copy_from_peer.
class TransformCase {
public:
  TransformCase(const Layout& from, const Layout& to, Numbers from_numbers, Numbers to_numbers,
                const Transformation& t, Random& random)
      : from_(from), to_(to), to_numbers_(std::move(to_numbers)), t_(t), random_(random) {
    for (const auto& [rank, numbers] : from_numbers) {
      source_.emplace(rank, filled(numbers, t.from, t.alpha == 0.0 ? -1 : 0));
      for (std::size_t i = 0; i < numbers.size(); ++i)
        if (numbers[i] >= 0) {
          const auto number = static_cast<std::size_t>(numbers[i]);
          if (at_.size() <= number) at_.resize(number + 1);
          at_[number] = {rank, i};
        }
    }
    for (const auto& [rank, numbers] : to_numbers_)
      before_.emplace(rank, filled(numbers, t.to, t.beta == 0.0 ? -1 : 7));
    if (random_.one_in(3)) tuning_.cached_bytes = 0;
  }

  void expect_right() {
    const std::size_t from_width = element_bytes(t_.from);
    expect_arrives([&](const Package& package, Rank me, Stretch s, std::span<std::byte> mine) {
      const Plan theirs = make_plan(from_, to_, package.peer);
      Cells wire(static_cast<std::size_t>(s.count) * from_width, random_);
      pack(*theirs.package_for(me), local_part(from_, package.peer), order_, from_width, s,
           source_.at(package.peer).span(), wire.span());
      unpack(package, local_part(to_, me), order_, t_, s, wire.span(), mine, tuning_);
    });
    expect_arrives([&](const Package& package, Rank me, Stretch s, std::span<std::byte> mine) {
      copy_from_peer(package, local_part(to_, me), local_part(from_, package.peer), order_, t_, s,
                     source_.at(package.peer).span(), mine, tuning_);
    });
  }

private:
  struct Cell {
    Rank rank{};
    std::size_t at = 0;
  };
  using Move = std::function<void(const Package&, Rank, Stretch, std::span<std::byte>)>;

  /// Returns cells with a value for each number; with `shift` -1, all bytes are 0xff (NaN for
  /// floating-point types).
  Cells filled(const std::vector<Index>& numbers, core::ElementType type, Index shift) {
    const std::size_t width = element_bytes(type);
    Cells cells(numbers.size() * width, random_);
    const Values values(t_);
    for (std::size_t i = 0; i < numbers.size(); ++i)
      if (numbers[i] >= 0 && shift >= 0)
        values.put(&cells.span()[i * width], type, numbers[i] + shift);
    return cells;
  }

  void expect_arrives(const Move& move) {
    for (const auto& [me, numbers] : to_numbers_) {
      Cells arrived = before_.at(me);
      const Plan plan = make_plan(to_, from_, me);
      for (std::size_t i = 0; i < plan.size(); ++i)
        for (Index first = 0, left = plan[i].elements; left > 0;) {
          const Index now = random_.one_in(3) ? left : random_.in(1, left);
          move(plan[i], me, {.first = first, .count = now}, arrived.span());
          first += now;
          left -= now;
        }
      expect_right(numbers, before_.at(me).span(), arrived.span());
    }
  }

  void expect_right(const std::vector<Index>& numbers, std::span<std::byte> before,
                    std::span<std::byte> after) {
    const std::size_t from_width = element_bytes(t_.from), width = element_bytes(t_.to);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const auto *const was = &before[i * width], *const is = &after[i * width];
      if (numbers[i] < 0) {
        ASSERT_EQ(std::memcmp(was, is, width), 0) << "cell " << i << " is not an element";
      } else {
        const Cell cell = at_.at(static_cast<std::size_t>(numbers[i]));
        ASSERT_TRUE(
            testing::is_right(t_, &source_.at(cell.rank).span()[cell.at * from_width], was, is))
            << "number " << numbers[i];
      }
    }
  }

  Layout from_, to_;
  Numbers to_numbers_;
  Transformation t_;
  Random& random_;
  CopyTuning tuning_ = copy_tuning();
  Order order_ = random_.one_in(2) ? Order::row : Order::column;
  std::vector<Cell> at_;  ///< [number]
  std::map<Rank, Cells> source_, before_;
};

TEST(Transform, FollowsTheFormulaAndChangesNoOtherCell) {
  Random random;
  for (int round = 0; round < testing_only::rounds(1500) && !HasFailure(); ++round) {
    const auto shape = testing::random_shape(random, static_cast<std::size_t>(random.in(1, 4)));
    const Index most = random.one_in(5) ? 1 : shape.size() < 3 ? 4 : 2;
    const Layout from = random.layout(shape, most), to = random.layout(shape, most);
    const Transformation t = testing::random_transformation(random);
    SCOPED_TRACE(to_string(from) + "  to  " + to_string(to) + " " + text_of(t));
    TransformCase(from, to, World(from).buffers, World(to).buffers, t, random).expect_right();
  }
}

TEST(Transform, CoversEveryPairOfTypesInRowsAndTiles) {
  Random random;
  const Layout rows = Layout::parse("shape=67x41 grid=1x1");
  const Layout columns = Layout::parse("shape=67x41 grid=1x1 store=column leading=71");
  const Layout row = Layout::parse("shape=301 grid=1");
  const Numbers from = World(rows).buffers, there = World(columns).buffers,
                line = World(row).buffers;
  for (const auto type : all_types)
    for (const auto other : all_types) {
      if (core::is_complex(type) && !core::is_complex(other)) continue;
      for (const auto& [alpha, beta] : {std::pair{0., 0.}, {0., 3.}, {1., 0.}, {2., 0.}, {2., 1.}})
        for (const bool is_tiled : {true, false}) {
          const Transformation t{type, other, alpha, beta, beta == 0};
          SCOPED_TRACE(text_of(t));
          if (is_tiled)
            TransformCase(rows, columns, from, there, t, random).expect_right();
          else
            TransformCase(row, row, line, line, t, random).expect_right();
          if (HasFailure()) return;
        }
    }
}

TEST(Transform, IsTheSameBeyondTheCache) {
  Random random;
  constexpr const char* pairs[][2] = {
      {"grid=1x1", "grid=1x1 store=column ghost=1x1"},
      {"grid=1x1", "grid=1x1"},
      {"grid=1x2 block1=1 ghost=0x1", "grid=1x1"},
      {"grid=1x1", "grid=1x2 block1=1"},
      {"grid=1x1 block=5x3 ghost=2x3", "grid=1x2 block1=2"},
      {"grid=1x2 block1=37", "grid=1x1 store=column"},
  };
  double beta = 0;
  for (const auto& [mine, theirs] : pairs) {
    for (const auto& [type, other] : {std::pair{f64, f32}, {f32, c128}, {i32, i64}, {c64, c64}}) {
      const std::string shape = "shape=" + std::to_string(random.in(400, 420)) + "x800 ";
      const Layout from = Layout::parse(shape + mine), to = Layout::parse(shape + theirs);
      const Transformation t{type, other, random.one_in(2) ? 1. : 2., beta, true};
      SCOPED_TRACE(to_string(from) + "  to  " + to_string(to) + " " + text_of(t));
      TransformCase(from, to, testing::large_numbers(from), testing::large_numbers(to), t, random)
          .expect_right();
      if (HasFailure()) return;
      beta = 1 - beta;
    }
    beta = 1 - beta;
  }
}

TEST(Transform, ScalesOnlyOwnedCells) {
  Random random;
  for (int round = 0; round < testing_only::rounds(500); ++round) {
    const auto shape = testing::random_shape(random, static_cast<std::size_t>(random.in(1, 4)));
    const Layout layout = random.layout(shape, 3);
    Transformation t = testing::random_transformation(random);
    SCOPED_TRACE(to_string(layout) + " " + text_of(t));
    const std::size_t width = element_bytes(t.to);
    for (const auto& [me, numbers] : World(layout).buffers) {
      Cells before(numbers.size() * width, random);
      for (std::size_t i = 0; t.beta != 0.0 && i < numbers.size(); ++i)
        if (numbers[i] >= 0) Values(t).put(&before.span()[i * width], t.to, numbers[i]);
      Cells after = before;
      scale(local_part(layout, me), t, after.span());
      Transformation beta_to = t;
      beta_to.alpha = 0;
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        const auto *const was = &before.span()[i * width], *const is = &after.span()[i * width];
        ASSERT_TRUE(numbers[i] < 0 ? std::memcmp(was, is, width) == 0
                                   : testing::is_right(beta_to, nullptr, was, is));
      }
    }
  }
}

}  // namespace
}  // namespace tremula::index_calc
