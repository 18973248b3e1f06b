// SPDX-License-Identifier: Apache-2.0
#include "index_calc/plan/skewed_plan.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "index_calc/pack/pack.hpp"
#include "index_calc/plan/plan.hpp"
#include "index_calc/proof/content_hash.hpp"
#include "tests/index_calc/cells.hpp"
#include "tests/index_calc/skew/skewed_oracle.hpp"
#include "tests/rounds.hpp"

namespace tremula::index_calc {
namespace {

using testing::Numbers, testing::Random;

std::string trace_of(const Layout& source, const Layout& sink) {
  return to_string(source) + "  to  " + to_string(sink);
}

/// The layouts and the contents of all ranks of both sides.
struct Ends {
  const Layout &source, &sink;
  Numbers from, to;
};

LocalPart part_of(const Layout& layout, Rank rank) {
  return dense_part(local_part(layout, rank), layout.storage().order);
}

std::span<const std::byte> bytes_of(const std::vector<Index>& numbers) {
  return std::as_bytes(std::span(numbers));
}

/// Checks that every rank of the sink gets its elements, whether they are packed and unpacked in two stretches
/// or copied directly from either end. Also checks that the plan of every source rank agrees with the plans of
/// its peers.
void expect_moves_all(Random& random, const Ends& ends, const Hosts& hosts = {}) {
  std::map<Rank, Plan> source_plans;
  Index sent = 0, received = 0;
  for (const auto& [rank, numbers] : ends.from) {
    ASSERT_EQ(local_part(ends.source, rank).allocated, static_cast<Index>(numbers.size()));
    source_plans.emplace(
        rank, make_plan(ends.source, ends.sink, rank, Role::source, Algorithm::aspen, hosts));
    source_plans.at(rank).for_each_package([&](const Package& p) { sent += p.elements; });
  }
  for (const auto& [rank, expected] : ends.to) {
    SCOPED_TRACE("sink rank " + std::to_string(rank.value));
    const LocalPart part = part_of(ends.sink, rank);
    ASSERT_EQ(part.allocated, static_cast<Index>(expected.size()));
    std::vector<Index> by_wire(expected.size(), -1), from_peer = by_wire, to_peer = by_wire;
    const Plan plan = make_plan(ends.sink, ends.source, rank, Role::sink, Algorithm::aspen, hosts);
    Rank before{-1};
    plan.for_each_package([&](const Package& package) {
      ASSERT_LT(before, package.peer);
      before = package.peer;
      received += package.elements;
      const auto& theirs = ends.from.at(package.peer);
      const Plan& their_plan = source_plans.at(package.peer);
      ASSERT_EQ(their_plan.fingerprint(), plan.fingerprint());
      const auto opposite = their_plan.package_for(rank);
      ASSERT_TRUE(opposite);
      ASSERT_EQ(opposite->elements, package.elements);
      const LocalPart their_part = part_of(ends.source, package.peer);
      std::vector<Index> wire(static_cast<std::size_t>(package.elements));
      const Index cut = random.in(0, package.elements);
      for (const auto& [first, count] : {std::pair{Index{0}, cut}, {cut, package.elements - cut}}) {
        const auto some = std::span(wire).subspan(static_cast<std::size_t>(first),
                                                  static_cast<std::size_t>(count));
        pack(*opposite, their_part, Order::row, sizeof(Index), {first, count}, bytes_of(theirs),
             std::as_writable_bytes(some));
        unpack(package, part, Order::row, sizeof(Index), {first, count}, std::as_bytes(some),
               std::as_writable_bytes(std::span(by_wire)));
      }
      copy_from_peer(package, part, their_part, sizeof(Index), bytes_of(theirs),
                     std::as_writable_bytes(std::span(from_peer)));
      copy_to_peer(*opposite, their_part, part, sizeof(Index), bytes_of(theirs),
                   std::as_writable_bytes(std::span(to_peer)));
    });
    ASSERT_EQ(by_wire, expected);
    ASSERT_EQ(from_peer, expected);
    ASSERT_EQ(to_peer, expected);
  }
  EXPECT_EQ(sent, received);
}

void expect_moves_all(Random& random, const Layout& source, const Layout& sink) {
  SCOPED_TRACE(trace_of(source, sink));
  expect_moves_all(random, {source, sink, testing::numbers_of(source), testing::numbers_of(sink)});
}

Layout dense_layout(Random& random, const std::vector<Index>& shape) {
  const Layout layout = random.layout(shape, 4, true);
  return layout.dense();
}

TEST(SkewedPlan, MovesEveryElementBetweenAnyTwoLayouts) {
  Random random;
  for (int i = 0; i < testing_only::rounds(2500) && !HasFatalFailure(); ++i) {
    const auto shape = testing::random_shape(random, static_cast<std::size_t>(random.in(1, 4)));
    Layout skewed = testing::random_skewed(random, shape, 8);
    Layout other =
        random.one_in(3) ? testing::random_skewed(random, shape, 8) : dense_layout(random, shape);
    if (random.one_in(2)) std::swap(skewed, other);
    expect_moves_all(random, skewed, other);
  }
}

/// In one job, a rank keeps the elements that it has, and copies on the host of the sink send first.
TEST(SkewedPlan, DistributesCopiesByRanksAndHosts) {
  Random random;
  for (int i = 0; i < testing_only::rounds(500) && !HasFatalFailure(); ++i) {
    const std::vector<Index> shape{random.in(1, 30), random.in(1, 30)};
    const Layout source = testing::random_skewed(random, shape, 12),
                 sink = random.one_in(2) ? testing::random_skewed(random, shape, 12)
                                         : dense_layout(random, shape);
    std::vector<std::uint32_t> machines;
    Rank last{};  // members may be any ranks
    for (const Layout& layout : {source, sink})
      last = std::max(last, std::ranges::max(ranks_of(layout)));
    for (Rank r{}; r <= last; ++r) machines.push_back(static_cast<std::uint32_t>(random.in(0, 2)));
    const Ends ends{source, sink, testing::numbers_of(source), testing::numbers_of(sink)};
    SCOPED_TRACE(trace_of(source, sink));
    expect_moves_all(random, ends, {machines, machines, random.one_in(2)});
  }
}

/// A hash of the whole array is the same in every layout.
TEST(SkewedPlan, ProvesTheSameContentInAnyLayout) {
  Random random;
  for (int i = 0; i < testing_only::rounds(200); ++i) {
    const std::vector<Index> shape{random.in(1, 30), random.in(1, 30)};
    const auto hash_of = [&](const Layout& layout) {
      std::uint64_t sum = 0;
      for (const auto& [rank, numbers] : testing::numbers_of(layout)) {
        const LocalPart part = part_of(layout, rank);
        const IndexList list = IndexList::of_layout(layout, rank, local_part(layout, rank));
        sum += ContentHash(list, part, sizeof(Index)).of(bytes_of(numbers));
      }
      return sum;
    };
    const Layout skewed = testing::random_skewed(random, shape, 8, false);
    EXPECT_EQ(hash_of(skewed),
              hash_of(Layout::parse(fmt::format("shape={}x{} grid=1x1", shape[0], shape[1]))))
        << to_string(skewed);
  }
}

// The table of layouts, compared with the kernels' own definitions: the boxes of the array that each rank
// (x, y, z) of the mesh holds.

struct Box {
  Index row, rows, column, columns;
};
using Cell = std::array<Index, 3>;
struct TableRow {
  std::string name, layout;
  std::vector<Index> mesh;
  std::function<std::vector<Box>(const Cell&)> boxes;  ///< of a rank, in the order of block numbers
};

/// Returns the first index and the length of [cut_b, cut_{b+1}), with cut_i = floor(n * i / k).
std::pair<Index, Index> part(Index n, Index k, Index b) {
  return {n * b / k, n * (b + 1) / k - n * b / k};
}
Box box(std::pair<Index, Index> rows, std::pair<Index, Index> columns) {
  return {rows.first, rows.second, columns.first, columns.second};
}
/// Returns the first index and the length of tile t, where n elements are cut into tiles of v.
std::pair<Index, Index> tile(Index n, Index v, Index t) { return {t * v, std::min(v, n - t * v)}; }
Index tiles(Index n, Index v) { return (n + v - 1) / v; }

/// CONFLUX and CONFCHOX: ranks (i, j, k) of q x q x c, tiles of v.
std::vector<TableRow> factorization_rows(Index m, Index n, Index q, Index c, Index v) {
  const std::string mesh = fmt::format("shape={}x{} mesh={}x{}x{} ", m, n, q, q, c);
  const std::vector<Index> extents{q, q, c};
  const auto tiles_where = [=](Index height, Index width, auto&& is_held) {
    return [=](const Cell& at) {
      std::vector<Box> held;
      for (Index I = 0; I < tiles(m, height); ++I)
        for (Index J = 0; J < tiles(n, width); ++J)
          if (is_held(I, J, at[0], at[1], at[2]))
            held.push_back(box(tile(m, height, I), tile(n, width, J)));
      return held;
    };
  };
  return {{"input on layer 0", mesh + fmt::format("block={}x{} owner0=b0 owner1=b1 owner2=0", v, v),
           extents,
           tiles_where(v, v,
                       [q](Index I, Index J, Index i, Index j, Index k) {
                         return I % q == i && J % q == j && k == 0;
                       })},
          {"spread input",
           mesh + fmt::format("block={}x{} owner0=b0 owner1=b1 owner2=b0/{}+b1/{}", v, v, q, q),
           extents,
           tiles_where(v, v,
                       [q, c](Index I, Index J, Index i, Index j, Index k) {
                         return I % q == i && J % q == j && (I / q + J / q) % c == k;
                       })},
          // Column panel t, inner slice k, rows of i on (i, t mod q, k).
          {"L", mesh + fmt::format("block={}x{} owner0=b0 owner1=b1/{} owner2=b1", v, v / c, c),
           extents,
           tiles_where(v, v / c,
                       [q, c](Index I, Index J, Index i, Index j, Index k) {
                         const Index t = J / c, slice = J - t * c;
                         return I % q == i && t % q == j && slice == k;
                       })},
          {"U", mesh + fmt::format("block={}x{} owner0=b0/{} owner1=b1 owner2=b0", v / c, v, c),
           extents, tiles_where(v / c, v, [q, c](Index I, Index J, Index i, Index j, Index k) {
             const Index t = I / c, slice = I - t * c;
             return t % q == i && J % q == j && slice == k;
           })}};
}

/// The 1.5D kernels: ranks (u, v) of p/c x c.
std::vector<TableRow> rows_of_15d(Index m, Index n, Index p, Index c) {
  const Index q = p / c;
  const std::string mesh = fmt::format("shape={}x{} mesh={}x{} ", m, n, q, c);
  const std::vector<Index> extents{q, c};
  const auto all = std::pair(Index{0}, n);
  return {{"ds15 dense", mesh + fmt::format("equal0={} owner0=b0/{} owner1=b0", p, c), extents,
           [=](const Cell& r) { return std::vector{box(part(m, p, r[0] * c + r[1]), all)}; }},
          // All-gathered over v: the rows of blocks u c .. u c + c - 1.
          {"ds15 gathered", mesh + fmt::format("equal0={} owner0=b0", q), extents,
           [=](const Cell& r) {
             const Index begin = m * (r[0] * c) / p, end = m * (r[0] * c + c) / p;
             return std::vector{box({begin, end - begin}, all)};
           }},
          {"ds15 sparse", mesh + fmt::format("equal={}x{} owner0=b0 owner1=b1", q, p), extents,
           [=](const Cell& r) {
             std::vector<Box> held;
             for (Index w = 0; w < q; ++w)
               held.push_back(box(part(m, q, r[0]), part(n, p, w * c + r[1])));
             return held;
           }},
          {"ss15 dense", mesh + fmt::format("equal={}x{} owner0=b1 owner1=b0", p, q), extents,
           [=](const Cell& r) {
             std::vector<Box> held;
             for (Index i = r[1]; i < p; i += c)
               held.push_back(box(part(m, p, i), part(n, q, r[0])));
             return held;
           }},
          {"ss15 gathered", mesh + fmt::format("equal={}x{} owner0=b1", 1, q), extents,
           [=](const Cell& r) {
             return std::vector{box({0, m}, part(n, q, r[0]))};
           }},
          {"ss15 sparse", mesh + fmt::format("equal0={} owner0=b0/{} owner1=b0", p, c), extents,
           [=](const Cell& r) { return std::vector{box(part(m, p, r[0] * c + r[1]), all)}; }}};
}

/// The 2.5D kernels: ranks (x, y, z) of s x s x c.
std::vector<TableRow> rows_of_25d(Index m, Index n, Index s, Index c) {
  const std::string mesh = fmt::format("shape={}x{} mesh={}x{}x{} ", m, n, s, s, c);
  const std::vector<Index> extents{s, s, c};
  const Index sc = s * c;
  const auto one = [](auto&& of) {
    return [of](const Cell& r) { return std::vector{of(r[0], r[1], r[2])}; };
  };
  return {
      {"dr25 dense home",
       mesh + fmt::format("equal={}x{} owner0=b0/{} owner1=b1 owner2=b0", sc, s, c), extents,
       one([=](Index x, Index y, Index z) { return box(part(m, sc, x * c + z), part(n, s, y)); })},
      {"dr25 dense pre-skewed",
       mesh + fmt::format("equal={}x{} owner0=b0/{}-b1 owner1=b1 owner2=b0", sc, s, c), extents,
       one([=](Index x, Index y, Index z) {
         const Index k = (x + y) % s;
         return box(part(m, sc, k * c + z), part(n, s, y));
       })},
      {"dr25 sparse pre-skewed",
       mesh + fmt::format("equal={}x{} owner0=b0 owner1=b1/{}-b0 owner2=b1", s, sc, c), extents,
       one([=](Index x, Index y, Index z) {
         const Index k = (x + y) % s;
         return box(part(m, s, x), part(n, sc, k * c + z));
       })},
      {"sr25 A", mesh + fmt::format("equal={}x{} owner0=b0 owner1=b1/{}-b0 owner2=b1", s, sc, c),
       extents, one([=](Index x, Index y, Index z) {
         return box(part(m, s, x), part(n, sc, (x + y) % s * c + z));
       })},
      {"sr25 B", mesh + fmt::format("equal={}x{} owner0=b1/{}-b0 owner1=b0 owner2=b1", s, sc, c),
       extents, one([=](Index x, Index y, Index z) {
         return box(part(m, s, y), part(n, sc, (x + y) % s * c + z));
       })},
      {"sr25 sparse, coordinates", mesh + fmt::format("equal={}x{} owner0=b0 owner1=b1", s, s),
       extents, one([=](Index x, Index y, Index) { return box(part(m, s, x), part(n, s, y)); })}};
}

Numbers numbers_of(const TableRow& row, Index n) {
  Numbers numbers;
  Rank rank{-1};
  testing::World::for_each_index(row.mesh, Order::row, [&](const std::vector<Index>& at) {
    Cell cell{};
    std::ranges::copy(at, cell.begin());
    auto& buffer = numbers[++rank];
    for (const Box& b : row.boxes(cell))
      for (Index i = 0; i < b.rows; ++i)
        for (Index j = 0; j < b.columns; ++j) buffer.push_back((b.row + i) * n + b.column + j);
  });
  return numbers;
}

TEST(SkewedPlan, PlacesEveryRowOfTheTableAsTheKernelsDo) {
  Random random;
  int checked = 0;
  for (const auto& [m, n] : {std::pair<Index, Index>{64, 64}, {61, 47}, {37, 101}, {5, 7}}) {
    for (const Index p : {8, 12, 16, 18, 32}) {
      // Each case calculates for all ranks; a seed can be replayed in builds that skip the same cases.
      if (testing_only::has_few_rounds && (m * n > 3000 || (p > 12 && m > 5))) continue;
      std::vector<TableRow> rows;
      for (Index c = 1; c <= p; ++c) {
        if (p % c != 0) continue;
        std::ranges::move(rows_of_15d(m, n, p, c), std::back_inserter(rows));
        Index s = 1;
        while (s * s < p / c) ++s;
        if (s * s != p / c) continue;
        std::ranges::move(rows_of_25d(m, n, s, c), std::back_inserter(rows));
        for (const Index v : {c, 3 * c})
          std::ranges::move(factorization_rows(m, n, s, c, v), std::back_inserter(rows));
      }
      // Block-cyclic on a grid, and the blocks of CombBLAS, by the same expressions.
      const Index pr = p % 3 == 0 ? 3 : 2, pc = p / pr;
      rows.push_back(
          {"block-cyclic",
           fmt::format("shape={}x{} mesh={}x{} block=3x2 owner0=b0 owner1=b1", m, n, pr, pc),
           {pr, pc},
           [=](const Cell& r) {
             std::vector<Box> held;
             for (Index I = r[0]; I < tiles(m, 3); I += pr)
               for (Index J = r[1]; J < tiles(n, 2); J += pc)
                 held.push_back(box(tile(m, 3, I), tile(n, 2, J)));
             return held;
           }});
      rows.push_back(
          {"CombBLAS",
           fmt::format("shape={}x{} mesh={}x{} equal={}x{} owner0=b0 owner1=b1", m, n, pr, pc, pr,
                       pc),
           {pr, pc},
           [=](const Cell& r) { return std::vector{box(part(m, pr, r[0]), part(n, pc, r[1]))}; }});
      for (const TableRow& row : rows) {
        SCOPED_TRACE(row.name + ": " + row.layout);
        const Layout layout = Layout::parse(row.layout);
        const Numbers numbers = numbers_of(row, n);
        EXPECT_EQ(to_string(layout), to_string(Layout::parse(to_string(layout))));
        Layout other = dense_layout(random, {m, n});
        const Numbers others = testing::numbers_of(other);
        expect_moves_all(random, {other, layout, others, numbers});
        expect_moves_all(random, {layout, other, numbers, others});
        ++checked;
        if (HasFatalFailure()) return;
      }
    }
  }
  std::cout << checked << " layouts of the table\n";
}

/// One hop from ScaLAPACK's layout into the spread input of a factorization: every rank gets N^2 / P
/// elements, and one message from each producer that owns an element of its tiles.
TEST(SkewedPlan, MatchesTheClosedFormForASpreadFeed) {
  constexpr Index n = 1024, v = 16, nb = 64, rows = 3, columns = 2;
  const Layout producer = Layout::parse("shape=1024x1024 grid=3x2 block=64x64");
  const Layout consumer =
      Layout::parse("shape=1024x1024 mesh=4x4x2 block=16x16 owner0=b0 owner1=b1 owner2=b0/4+b1/4");
  for (const Rank rank : all_ranks(32)) {
    std::set<Index> owners;
    for (Index I = 0; I < n / v; ++I)
      for (Index J = 0; J < n / v; ++J)
        if ((I % 4 * 4 + J % 4) * 2 + (I / 4 + J / 4) % 2 == rank.value)
          owners.insert(I * v / nb % rows * columns + J * v / nb % columns);
    const Plan plan = make_plan(consumer, producer, rank, Role::sink);
    EXPECT_EQ(plan.elements(), n * n / 32);
    EXPECT_EQ(plan.size(), owners.size());
    std::size_t families = 0;
    plan.for_each_package(
        [&](const Package& p) { families += p.along[0].period.size() + p.along[1].period.size(); });
    EXPECT_LE(families, static_cast<std::size_t>(n / v * n / v / 32) + plan.size())
        << "at most one family for each tile, and one of rows for each package";
  }
}

/// All-gathered blocks: each copy of the sink gets all of them, and each copy of the source sends an equal part.
TEST(SkewedPlan, MatchesTheClosedFormForCopies) {
  const Layout source = Layout::parse("shape=96x64 mesh=4x2 equal0=4 owner0=b0");
  const Layout sink =
      Layout::parse("shape=96x64 mesh=2x2x2 equal=4x2 owner0=b0/2-b1 owner1=b1 owner2=b0");
  const Layout copied = Layout::parse("shape=96x64 mesh=3x2 equal0=2 owner1=b0");
  for (const Rank rank : all_ranks(8)) {
    EXPECT_EQ(make_plan(sink, source, rank, Role::sink).elements(), 96 * 64 / 8);
    EXPECT_EQ(make_plan(source, sink, rank, Role::source).elements(), 96 * 64 / 4 / 2);
    EXPECT_EQ(make_plan(source, copied, rank, Role::source).elements(), 96 * 64 / 4 / 2 * 3);
  }
  for (const Rank rank : all_ranks(6))
    EXPECT_EQ(make_plan(copied, source, rank, Role::sink).elements(), 96 * 64 / 2);
}

/// A table that repeats the owners of a process grid gives the plans of that grid.
TEST(SkewedPlan, TakesATableOfTheOwnersOfAGrid) {
  const Layout table = Layout::parse("shape=900x700 mesh=6 block=32x16 owner0=2x3:0/1/2/3/4/5"),
               grid = Layout::parse("shape=900x700 grid=2x3 block=32x16"),
               other = Layout::parse("shape=900x700 grid=3x2 block=50x70");
  for (const Rank rank : all_ranks(6)) {
    const Plan of_table = make_plan(table, other, rank, Role::source),
               of_grid = make_plan(grid, other, rank, Role::source);
    ASSERT_EQ(of_table.size(), of_grid.size());
    EXPECT_EQ(of_table.elements(), of_grid.elements());
    for (const Rank peer : all_ranks(6)) {
      const auto found = of_table.package_for(peer), expected = of_grid.package_for(peer);
      ASSERT_EQ(found.has_value(), expected.has_value());
      if (found) {
        EXPECT_EQ(found->elements, expected->elements);
      }
    }
  }
}

/// Symmetric block-cyclic distribution: process {a, b} of r (r - 1) / 2 owns the tiles (I, J) and (J, I)
/// with I = a and J = b modulo r. The table has r * r entries, however many tiles there are.
TEST(SkewedPlan, TakesASmallTableForManyBlocks) {
  const auto text = [](Index extent) {
    return "shape=" + std::to_string(extent) + "x" + std::to_string(extent) +
           " mesh=3 block=10x10 owner0=3x3:0/0/1/0/1/2/1/2/2";
  };
  const Layout small = Layout::parse(text(90)), large = Layout::parse(text(900'000));
  EXPECT_EQ(memory_bytes(small), memory_bytes(large));
  const OwnedBlocks blocks = owned_blocks(*small.skewed());
  for (Index i = 0; i < 9; ++i)
    for (Index j = 0; j < 9; ++j) EXPECT_EQ(blocks.owner_of({i, j}), blocks.owner_of({j, i}));
  for (const Rank rank : all_ranks(3)) {
    EXPECT_EQ(local_part(small, rank).elements, 90 * 90 / 3);
    EXPECT_EQ(local_part(large, rank).elements, Index{900'000} * 900'000 / 3);
  }
}

TEST(SkewedPlan, RefusesSkewedBlocksWhereAGridIsNeeded) {
  const Layout skewed = Layout::parse("shape=8x8 mesh=2x2 block=2x2 owner0=b0 owner1=b1-b0"),
               plain = Layout::parse("shape=8x8 grid=2x2 ghost=1x1");
  const auto error = [](auto&& call) -> std::string {
    try {
      call();
    } catch (const core::Error& e) {
      return std::string(core::to_string(e.code())) + ": " + e.what();
    }
    return "no error";
  };
  EXPECT_EQ(
      error([&] { expect_grid(skewed, "selection"); }),
      "unsupported: selection: expected a layout whose dimensions are distributed one by one, "
      "found \"shape=8x8 mesh=2x2 block=2x2 owner0=b0 owner1=b1-b0\", whose blocks are skewed: "
      "redistribute it to a grid first");
  EXPECT_EQ(
      error([&] { dense_part(local_part(plain, Rank{0}), Order::row); }),
      "unsupported: expected whole local parts without ghost cells or gaps, because a layout is "
      "skewed, found 16 elements in a buffer of 36: leave out ghost and leading, or copy the "
      "part");
  EXPECT_EQ(error([&] {
              local_part(Layout::parse("shape=100000000 mesh=2 block=1 owner0=b0"), Rank{0});
            }),
            "unsupported: skewed layout: expected at most 16777216 blocks along dimension 0, found "
            "100000000: take larger blocks");
  EXPECT_EQ(error([&] {
              local_part(Layout::parse("shape=2x9000000 mesh=2 block=1x1 owner0=2x1:0/1"), Rank{0});
            }),
            "unsupported: skewed layout: expected at most 8388608 blocks along dimension 1 with 2 "
            "rows of tables of owners, found 9000000: take larger blocks or a smaller table");
  // Both sides refuse plans that would take more memory than the data.
  const Layout fine = Layout::parse("shape=20000x20000 grid=4x4 block=1x1"),
               coarse =
                   Layout::parse("shape=20000x20000 mesh=4x4 block=256x256 owner0=b0 owner1=b1-b0"),
               rows = Layout::parse("shape=1048576x64 mesh=1024 block=1x1 owner0=b0+b1"),
               slabs = Layout::parse("shape=1048576x64 grid=1024x1");
  for (const auto& [mine, theirs] : {std::pair{&fine, &coarse}, {&rows, &slabs}}) {
    const auto mine_says = error([&] { make_plan(*mine, *theirs, Rank{0}, Role::source); });
    EXPECT_EQ(mine_says.substr(0, 60),
              "unsupported: expected at most 2097152 boxes for each rank on");
    EXPECT_EQ(mine_says, error([&] { make_plan(*theirs, *mine, Rank{3}, Role::sink); }));
  }
  // Copies, and ranks that own nothing, do not raise the bound for other ranks: 2^22 boxes are on 2 of 4096
  // ranks.
  const Layout tiles = Layout::parse("shape=2048x2048 grid=64x64");
  for (const char* few : {"shape=2048x2048 mesh=2x2048 block=1x1 owner0=b0 owner1=0",
                          "shape=2048x2048 mesh=2x2048 block=1x1 owner0=b0",
                          "shape=2048x2048 mesh=4096 block=1x1 owner0=b0*2048+b1*2048"})
    EXPECT_NE(
        error([&] { make_plan(Layout::parse(few), tiles, Rank{0}, Role::source); })
            .find("expected at most 2097152 boxes for each rank on average, and 16777216 rows of "
                  "blocks of all ranks, because a layout is skewed; found up to 2230272"),
        std::string::npos)
        << few;
  const Layout nothing = Layout::parse("shape=4000000x4000000x0 mesh=2 block=1x1x1 owner0=b2");
  EXPECT_EQ(local_part(nothing, Rank{0}).elements, 0);
  EXPECT_EQ(
      make_plan(nothing, Layout::parse("shape=4000000x4000000x0 grid=1x1x1"), Rank{0}, Role::source)
          .size(),
      0u);
  const Layout grid = Layout::parse("shape=8x8 grid=2x2");
  EXPECT_EQ(error([&] { make_plan(grid, skewed, Rank{0}, Role::source, Algorithm::falls); }),
            "unsupported: expected the algorithm aspen for a skewed layout, found falls: no other "
            "algorithm supports one, so nothing can validate it");
  EXPECT_EQ(error([&] { make_validated_plan(grid, skewed, Rank{0}); }).substr(0, 93),
            "unsupported: validated plan: expected a layout whose dimensions are distributed one "
            "by one, f");
}

/// A descriptor takes a few bytes, and a plan for one rank of many costs only that rank's blocks.
TEST(SkewedPlan, CostsOnlyItsOwnBlocksOfManyRanks) {
  const Layout consumer = Layout::parse(
      "shape=100000x100000 mesh=64x64x16 block=128x128 owner0=b0 owner1=b1 owner2=b0/64+b1/64");
  EXPECT_LT(to_string(consumer).size(), 100u);
  const Layout producer = Layout::parse("shape=100000x100000 grid=4096x1");
  const Plan plan = make_plan(consumer, producer, Rank{12345}, Role::sink);
  EXPECT_EQ(plan.elements(), local_part(consumer, Rank{12345}).elements);
}

}  // namespace
}  // namespace tremula::index_calc
