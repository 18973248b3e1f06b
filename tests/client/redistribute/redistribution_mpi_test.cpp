// SPDX-License-Identifier: Apache-2.0
// Runs redistributions inside one MPI job through the public headers only, like an application. The
// cases and the oracle are in redistribution_case.hpp.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <tremula/tremula_mpi.hpp>

#include "tests/client/redistribution_case.hpp"
#include "tests/index_calc/skew/skewed_oracle.hpp"

namespace {

using namespace tremula;
using client::testing::Case, client::testing::Random;

int rank_in(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}
int size_of(MPI_Comm comm) {
  int size = 0;
  MPI_Comm_size(comm, &size);
  return size;
}

/// Returns a random generator that has the same seed on all ranks.
Random common_random() {
  const char* given = std::getenv("TREMULA_TEST_SEED");
  unsigned seed =
      given != nullptr ? static_cast<unsigned>(std::stoul(given)) : std::random_device{}();
  MPI_Bcast(&seed, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
  setenv("TREMULA_TEST_SEED", std::to_string(seed).c_str(), 1);
  return Random();
}

Redistributed array_of(const client::Update& u) {
  const auto& t = u.transformation;
  Redistributed array{.from = Layout::parse(to_string(u.from)),
                      .to = Layout::parse(to_string(u.to)),
                      .from_type = static_cast<tremula_type>(t.from),
                      .to_type = static_cast<tremula_type>(t.to),
                      .update = {.alpha = t.alpha, .beta = t.beta, .conjugate = t.conjugates}};
  array.update.axes.assign(u.axes.begin(), u.axes.end());
  if (u.of_to) {
    array.update.extents = u.of_to->extents;
    array.update.to_origin = u.of_to->origin;
    array.update.from_origin = u.of_from->origin;
  }
  return array;
}

TEST(RedistributionByMpi, MatchesTheOracle) {
  Random random = common_random();
  const core::Rank me{rank_in(MPI_COMM_WORLD)};
  const int size = size_of(MPI_COMM_WORLD);
  for (int i = 0; i < 60; ++i) {
    const Case wanted(random, size, client::testing::Copies::some);
    std::vector<Redistributed> arrays;
    for (const auto& update : wanted.updates) arrays.push_back(array_of(update));
    Redistribution redistribution(MPI_COMM_WORLD, arrays);
    const auto from = wanted.from(me), expected = wanted.to_after(me);
    for (int round = 0; round < 2; ++round) {
      auto to = wanted.to_before(me);
      redistribution({from.begin(), from.end()}, {to.begin(), to.end()});
      ASSERT_EQ(to, expected) << "case " << i << "\n" << wanted.text();
    }
    if (!wanted.has_copies()) {
      EXPECT_EQ(redistribution.statistics().bytes_sent, 2 * wanted.bytes_sent(me));
    }
    auto once = wanted.to_before(me);
    const auto& a = arrays[0];
    const auto handle = a.update.handle(&a.from, a.to, a.from_type, a.to_type);
    ASSERT_EQ(tremula_redistribute(MPI_COMM_WORLD, &handle, from[0].data(), from[0].size(),
                                   once[0].data(), once[0].size()),
              TREMULA_OK)
        << tremula_last_error();
    ASSERT_EQ(once[0], expected[0]) << "case " << i << "\n" << wanted.text();
  }
}

Index sent_by_all(const Redistribution& redistribution) {
  auto sent = static_cast<Index>(redistribution.statistics().bytes_sent);
  MPI_Allreduce(MPI_IN_PLACE, &sent, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  return sent;
}

TEST(RedistributionByMpi, SendsTheBytesThatRelabelingPredicts) {
  Random random = common_random();
  const core::Rank me{rank_in(MPI_COMM_WORLD)};
  const int size = size_of(MPI_COMM_WORLD);
  for (int i = 0; i < 30; ++i) {
    const Case wanted(random, size,
                      i % 2 == 0 ? client::testing::Copies::none : client::testing::Copies::some);
    std::vector<Redistributed> arrays;
    for (const auto& update : wanted.updates) arrays.push_back(array_of(update));
    const Relabeling found = relabel(arrays, size);
    const core::Rank label{
        static_cast<int>(std::ranges::find(found.process, me.value) - found.process.begin())};
    const auto from = wanted.from(me);
    {
      Redistribution as_they_are(MPI_COMM_WORLD, arrays);
      auto to = wanted.to_before(me);
      as_they_are({from.begin(), from.end()}, {to.begin(), to.end()});
      EXPECT_EQ(sent_by_all(as_they_are), found.before) << "case " << i << "\n" << wanted.text();
    }
    for (auto& array : arrays) array.to = array.to.relabeled(found.process);
    Redistribution redistribution(MPI_COMM_WORLD, arrays);
    auto to = wanted.to_before(label);
    redistribution({from.begin(), from.end()}, {to.begin(), to.end()});
    ASSERT_EQ(to, wanted.to_after(label)) << "case " << i << "\n" << wanted.text();
    ASSERT_EQ(sent_by_all(redistribution), found.after) << "case " << i << "\n" << wanted.text();
    ASSERT_LE(found.after, found.before);
  }
}

/// Returns the numbers of each rank's elements in the order of its buffer: 0 to `count` - 1, dealt
/// out at random, in runs.
std::vector<std::vector<Index>> dealt_at_random(Random& random, int ranks, Index count) {
  std::vector<std::pair<Index, Index>> runs;
  for (Index at = 0; at < count; at += runs.back().second)
    runs.emplace_back(at, std::min(count - at, random.in(1, 5)));
  std::vector<std::vector<Index>> numbers(static_cast<std::size_t>(ranks));
  while (!runs.empty()) {
    const auto at = static_cast<std::size_t>(random.in(0, static_cast<Index>(runs.size()) - 1));
    auto& of_rank = numbers[static_cast<std::size_t>(random.in(0, ranks - 1))];
    for (Index i = 0; i < runs[at].second; ++i) of_rank.push_back(runs[at].first + i);
    runs.erase(runs.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return numbers;
}

TEST(RedistributionByMpi, MovesListedElements) {
  Random random = common_random();
  const int me = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
  const auto mine = static_cast<std::size_t>(me);
  for (int i = 0; i < 30; ++i) {
    const std::vector<Index> shape{random.in(1, 12), random.in(1, 12)};
    const Index count = shape[0] * shape[1];
    const Layout::Listed listed{.shape = shape, .ranks = size};
    const auto from_numbers = dealt_at_random(random, size, count)[mine];
    auto to_numbers = dealt_at_random(random, size, count)[mine];
    if (random.one_in(2)) {  // some elements again, and a place without one
      const auto again = to_numbers.size() / 2;
      to_numbers.push_back(TREMULA_NO_ELEMENT);
      for (std::size_t k = 0; k < again; ++k) to_numbers.push_back(to_numbers[again - k]);
    }
    const bool is_plain = random.one_in(3);  // rows, dealt in turn
    const Layout rows =
        Layout::block_cyclic({.shape = shape, .grid = {size, 1}, .block = {1, shape[1]}});
    std::vector<Index> of_rows;
    for (Index row = me; row < shape[0]; row += size)
      for (Index column = 0; column < shape[1]; ++column)
        of_rows.push_back(row * shape[1] + column);
    const auto& wanted = is_plain ? of_rows : to_numbers;
    const Layout from = Layout::of_points(listed, from_numbers),
                 to = is_plain ? rows : Layout::of_points(listed, to_numbers);
    const Redistributed array{.from = from,
                              .to = to,
                              .from_type = TREMULA_I64,
                              .to_type = TREMULA_F64,
                              .update = {.alpha = 3}};
    std::vector<double> expected;
    for (const Index number : wanted)
      expected.push_back(number < 0 ? -1 : 3.0 * static_cast<double>(number));
    Redistribution redistribution(MPI_COMM_WORLD, {array});
    for (int round = 0; round < 2; ++round) {
      std::vector<double> found(wanted.size(), -1);
      redistribution({std::as_bytes(std::span(from_numbers))},
                     {std::as_writable_bytes(std::span(found))});
      ASSERT_EQ(found, expected) << from.text() << " to " << to.text();
    }
    std::vector<double> once(wanted.size(), -1);
    const auto handle = array.update.handle(&from, to, array.from_type, array.to_type);
    ASSERT_EQ(tremula_redistribute(MPI_COMM_WORLD, &handle, from_numbers.data(),
                                   from_numbers.size() * sizeof(Index), once.data(),
                                   once.size() * sizeof(double)),
              TREMULA_OK)
        << tremula_last_error();
    ASSERT_EQ(once, expected);
  }
}

/// If alpha is 0, no element is moved; the chosen elements are only scaled.
TEST(RedistributionByMpi, MovesPointsInPartsAndTransposed) {
  Random random = common_random();
  const int me = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
  const auto mine = static_cast<std::size_t>(me);
  for (int i = 0; i < 40; ++i) {
    const std::vector<Index> from_shape{random.in(1, 12), random.in(1, 12)};
    const std::vector<Index> extents{random.in(1, from_shape[1]), random.in(1, from_shape[0])};
    const std::vector<Index> from_origin{random.in(0, from_shape[0] - extents[1]),
                                         random.in(0, from_shape[1] - extents[0])};
    const std::vector<Index> to_origin{random.in(0, 3), random.in(0, 3)};
    const std::vector<Index> to_shape{to_origin[0] + extents[0] + random.in(0, 3),
                                      to_origin[1] + extents[1] + random.in(0, 3)};
    const auto from_numbers = dealt_at_random(random, size, from_shape[0] * from_shape[1])[mine];
    const auto to_numbers = dealt_at_random(random, size, to_shape[0] * to_shape[1])[mine];
    const double alpha = random.one_in(4) ? 0 : 3;
    const Redistributed array{
        .from = Layout::of_points({.shape = from_shape, .ranks = size}, from_numbers),
        .to = Layout::of_points({.shape = to_shape, .ranks = size}, to_numbers),
        .from_type = TREMULA_I64,
        .to_type = TREMULA_F64,
        .update = {.alpha = alpha,
                   .beta = 0.5,
                   .axes = {1, 0},
                   .extents = extents,
                   .from_origin = from_origin,
                   .to_origin = to_origin}};
    std::vector<double> expected;
    for (const Index number : to_numbers) {
      const Index row = number / to_shape[1] - to_origin[0],
                  column = number % to_shape[1] - to_origin[1];
      const bool is_chosen = row >= 0 && row < extents[0] && column >= 0 && column < extents[1];
      const Index source = (from_origin[0] + column) * from_shape[1] + from_origin[1] + row;
      expected.push_back(is_chosen ? alpha * static_cast<double>(source) - 4 : -8);
    }
    std::vector<double> found(to_numbers.size(), -8);
    Redistribution redistribution(MPI_COMM_WORLD, {array});
    redistribution({std::as_bytes(std::span(from_numbers))},
                   {std::as_writable_bytes(std::span(found))});
    ASSERT_EQ(found, expected) << array.from.text() << " to " << array.to.text();
  }
}

/// Returns a skewed or a block-cyclic layout on some of the ranks, without ghost cells or gaps.
index_calc::Layout skewed_or_not(Random& random, const std::vector<Index>& shape, int size,
                                 bool is_skewed) {
  index_calc::Layout layout;
  if (is_skewed)
    layout = index_calc::testing::random_skewed(random, shape, size);
  else
    layout = index_calc::Layout(index_calc::Grid(
        {random.block_cyclic(shape[0], 5, size), random.block_cyclic(shape[1], 5, 1)}));
  const auto count = index_calc::rank_count(layout);
  index_calc::Ranks ranks{.order = layout.ranks().order};
  if (count < size)
    ranks.members = {{core::Rank{static_cast<int>(random.in(0, size - count))}, count}};
  return layout.with(ranks);
}

TEST(RedistributionByMpi, MovesSkewedBlocks) {
  Random random = common_random();
  const core::Rank me{rank_in(MPI_COMM_WORLD)};
  const int size = size_of(MPI_COMM_WORLD);
  for (int i = 0; i < 60; ++i) {
    const std::vector<Index> shape{random.in(1, 20), random.in(1, 20)};
    const bool is_first = random.one_in(2);
    const auto from = skewed_or_not(random, shape, size, is_first),
               to = skewed_or_not(random, shape, size, !is_first || random.one_in(2));
    auto numbers = index_calc::testing::numbers_of(from);
    const auto elements = numbers[me], wanted = index_calc::testing::numbers_of(to)[me];
    const Redistributed array{.from = Layout::parse(to_string(from)),
                              .to = Layout::parse(to_string(to)),
                              .from_type = TREMULA_I64,
                              .to_type = TREMULA_F64,
                              .update = {.alpha = 3}};
    std::vector<double> expected;
    for (const Index number : wanted) expected.push_back(3.0 * static_cast<double>(number));
    Redistribution redistribution(MPI_COMM_WORLD, {array});
    for (int round = 0; round < 2; ++round) {
      std::vector<double> found(wanted.size(), -1);
      redistribution({std::as_bytes(std::span(elements))},
                     {std::as_writable_bytes(std::span(found))});
      ASSERT_EQ(found, expected) << "case " << i << "\n"
                                 << to_string(from) << " to " << to_string(to);
    }
    if (copy_count(from) > 1 || copy_count(to) > 1) continue;
    std::size_t sent = 0;
    for (const Index number : elements) sent += std::ranges::count(wanted, number) == 0 ? 1U : 0U;
    EXPECT_EQ(redistribution.statistics().bytes_sent, 2 * sent * sizeof(Index));
  }
}

/// Partial sums on some of the ranks: a mesh with two axes that split dimensions or own skewed
/// blocks, and one or two axes of sums, in any order.
struct Summed {
  index_calc::Layout layout;
  std::vector<int> layer_of;  ///< layer of each rank; -1: takes no part
  int layers = 1;
};
Summed summed(Random& random, const std::vector<Index>& shape, int size) {
  std::vector<std::pair<Index, int>> axes;  // extent, and role: 0 and 1 split, 2 sums
  Index ranks = 1;
  for (const int role : random.one_in(4) ? std::vector{0, 1, 2, 2} : std::vector{0, 1, 2}) {
    axes.emplace_back(random.in(1, std::min<Index>(role == 2 ? 3 : 2, size / ranks)), role);
    ranks *= axes.back().first;
  }
  for (std::size_t i = axes.size(); i > 1; --i)
    std::swap(axes[i - 1], axes[static_cast<std::size_t>(random.in(0, static_cast<Index>(i) - 1))]);
  const bool is_skewed = random.one_in(2);
  std::string text = "shape=" + std::to_string(shape[0]) + "x" + std::to_string(shape[1]) +
                     " block=" + std::to_string(random.in(1, 4)) + "x" +
                     std::to_string(random.in(1, 4)) + " mesh=",
              more, sums;
  for (std::size_t a = 0; a < axes.size(); ++a) {
    const auto& [extent, role] = axes[a];
    text += (a == 0 ? "" : "x") + std::to_string(extent);
    if (role == 2)
      sums += (sums.empty() ? " sum=" : "/") + std::to_string(a);
    else if (is_skewed)
      more += " owner" + std::to_string(a) + (role == 0 ? "=b0-b1" : "=b1+b0/2");
    else
      more += " axes" + std::to_string(role) + "=" + std::to_string(a);
  }
  const Index first = random.in(0, size - ranks);
  Summed result{
      .layout = index_calc::Layout::parse(text + more + sums + " members=" + std::to_string(first) +
                                          "-" + std::to_string(first + ranks - 1)),
      .layer_of = std::vector<int>(static_cast<std::size_t>(size), -1)};
  for (const auto& [extent, role] : axes) result.layers *= role == 2 ? static_cast<int>(extent) : 1;
  for (Index cell = 0; cell < ranks; ++cell) {
    Index rest = cell, step = 1, layer = 0;
    for (std::size_t a = axes.size(); a-- > 0; rest /= axes[a].first)
      if (axes[a].second == 2) {
        layer += rest % axes[a].first * step;
        step *= axes[a].first;
      }
    result.layer_of[static_cast<std::size_t>(first + cell)] = static_cast<int>(layer);
  }
  return result;
}

TEST(RedistributionByMpi, AddsUpPartialSums) {
  Random random = common_random();
  const int size = size_of(MPI_COMM_WORLD);
  const auto me = static_cast<std::size_t>(rank_in(MPI_COMM_WORLD));
  for (int i = 0; i < 80; ++i) {
    const std::vector<Index> shape{random.in(1, 16), random.in(1, 16)};
    const Index kind = random.in(0, 3);  // sums to any, any to sums, sums to sums, sums to lists
    Summed from{.layout = skewed_or_not(random, shape, size, false),
                .layer_of = std::vector<int>(static_cast<std::size_t>(size))},
        to{.layout = skewed_or_not(random, shape, size, random.one_in(2)),
           .layer_of = std::vector<int>(static_cast<std::size_t>(size))};
    if (kind != 1) from = summed(random, shape, size);
    if (kind == 1 || kind == 2) to = summed(random, shape, size);
    const auto numbers_of = [&](const index_calc::Layout& layout) {
      auto of_members = index_calc::testing::numbers_of(layout);
      std::vector<std::vector<Index>> numbers;
      for (int rank = 0; rank < size; ++rank) numbers.push_back(of_members[core::Rank{rank}]);
      return numbers;
    };
    const auto from_numbers = numbers_of(from.layout),
               to_numbers = kind == 3 ? dealt_at_random(random, size, shape[0] * shape[1])
                                      : numbers_of(to.layout);
    // These sums are inexact: a different order of layers gives different last bits.
    const auto summand = [](int layer, Index number) {
      return 0.1 * static_cast<double>(number + 1) + 0.7 * layer;
    };
    const double alpha = random.one_in(2) ? 1 : 2, beta = random.one_in(2) ? 0 : 0.5;
    std::vector<double> elements, expected, before;
    for (const Index number : from_numbers[me])
      elements.push_back(summand(from.layer_of[me], number));
    for (const Index number : to_numbers[me]) {
      before.push_back(static_cast<double>(number) + 0.25);
      double value = beta * before.back();
      for (int layer = 0; layer < from.layers && (kind == 3 || to.layer_of[me] == 0); ++layer)
        value = alpha * summand(layer, number) + value;
      expected.push_back(value);
    }
    const Layout target = kind == 3
                              ? Layout::of_points({.shape = shape, .ranks = size}, to_numbers[me])
                              : Layout::parse(to_string(to.layout));
    Redistribution redistribution(MPI_COMM_WORLD, {{.from = Layout::parse(to_string(from.layout)),
                                                    .to = target,
                                                    .update = {.alpha = alpha, .beta = beta}}});
    for (int round = 0; round < 2; ++round) {
      std::vector<double> found = before;
      redistribution({std::as_bytes(std::span(elements))},
                     {std::as_writable_bytes(std::span(found))});
      ASSERT_EQ(found, expected) << "case " << i << "\n"
                                 << to_string(from.layout) << " to " << target.text();
    }
    const bool has_copies =
        copy_count(from.layout) > from.layers || copy_count(to.layout) > to.layers;
    if (has_copies) continue;
    std::size_t sent = 0;  // every summand once, to the layer that gets the sum
    for (std::size_t peer = 0; peer < to_numbers.size(); ++peer)
      for (const Index number : from_numbers[me])
        if (peer != me && (kind == 3 || to.layer_of[peer] == 0) &&
            std::ranges::count(to_numbers[peer], number) > 0)
          sent += sizeof(double);
    EXPECT_EQ(redistribution.statistics().bytes_sent, 2 * sent)
        << to_string(from.layout) << " to " << target.text();
  }
}

/// Returns a layout with every second element on rank 0 and the others on no rank.
Layout every_second(Index elements, int me, std::vector<double>& values) {
  std::vector<Index> points;
  for (Index i = 0; i < elements && me == 0; i += 2) points.push_back(i);
  values.assign(points.begin(), points.end());
  return Layout::of_points(
      {.shape = {elements}, .ranks = size_of(MPI_COMM_WORLD), .is_partial = true}, points);
}

TEST(RedistributionByMpi, LeavesElementsWithoutASourceUnchanged) {
  const int me = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
  const Index elements = Index{6} * size;
  const Layout to =
      Layout::parse("shape=" + std::to_string(elements) + " grid=" + std::to_string(size));
  for (const double alpha : {0.0, 1e-300, 2.0})
    for (const double beta : {0.0, 0.5, 1.0}) {
      std::vector<double> from, found(6, 9.0), expected;
      const Layout partial = every_second(elements, me, from);
      for (Index i = 6 * me; i < 6 * me + 6; ++i)
        expected.push_back(i % 2 == 0 ? alpha * static_cast<double>(i) + beta * 9.0 : 9.0);
      redistribute(MPI_COMM_WORLD, partial, to, from, found, {.alpha = alpha, .beta = beta});
      EXPECT_EQ(found, expected) << alpha << " " << beta;
    }
}

TEST(RedistributionByMpi, AddsAPartialSourceToSumsOnlyWithBetaOne) {
  const int me = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
  std::vector<double> from, to(8, 5.0 + me), expected(8, 5.0 + me);
  const Layout partial = every_second(8, me, from),
               sums = Layout::parse("shape=8 mesh=" + std::to_string(size) + " sum=0");
  redistribute(MPI_COMM_WORLD, partial, sums, from, to, {.alpha = 1, .beta = 1});
  for (std::size_t i = 0; i < 8 && me == 0; i += 2) expected[i] += static_cast<double>(i);
  EXPECT_EQ(to, expected);
  if (size == 1) return;  // one layer
  try {
    redistribute(MPI_COMM_WORLD, partial, sums, from, to);
    ADD_FAILURE() << "expected an error";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("expected a source that has every element, or beta 1"),
              std::string::npos)
        << e.what();
  }
  EXPECT_EQ(to, expected);
}

TEST(RedistributionByMpi, RefusesGhostCellsWithSkewedBlocks) {
  const int size = size_of(MPI_COMM_WORLD);
  const auto text = std::to_string(size);
  const Layout skewed = Layout::parse("shape=8x64 mesh=" + text + " block=1x1 owner0=b0+b1"),
               padded = Layout::parse("shape=8x64 grid=1x" + text + " ghost=0x1");
  try {
    const Redistribution made(MPI_COMM_WORLD, {{.from = padded, .to = skewed}});
    ADD_FAILURE() << "expected an error";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("without ghost cells or gaps"), std::string::npos)
        << e.what();
  }
}

TEST(RedistributionByMpi, ReportsARepeatedElementToAllRanks) {
  const int me = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
  const Index count = 4 * size;
  std::vector<Index> mine;
  for (Index i = 0; i < 4; ++i) mine.push_back(4 * me + i);
  const Layout::Listed listed{.shape = {count}, .ranks = size};
  const Layout good = Layout::of_points(listed, mine);
  // Rank 0 has this element as well; the last element is on no rank.
  if (me == size - 1) mine.back() = size == 1 ? 0 : 2;
  try {
    const Layout bad = Layout::of_points(listed, mine);
    const Redistribution made(
        MPI_COMM_WORLD,
        {{.from = good, .to = bad, .from_type = TREMULA_I64, .to_type = TREMULA_I64}});
    ADD_FAILURE() << "expected an error";
  } catch (const Error& e) {
    const std::string text = e.what();
    EXPECT_TRUE(text.find("on none") != text.npos || text.find("every element on") != text.npos ||
                text.find("once") != text.npos)
        << text;
  }
  // The communicator still works.
  std::vector<std::int64_t> from{1, 2, 3, 4}, to(4);
  Redistribution({MPI_COMM_WORLD,
                  {{.from = good, .to = good, .from_type = TREMULA_I64, .to_type = TREMULA_I64}}})(
      {std::as_bytes(std::span(from))}, {std::as_writable_bytes(std::span(to))});
  EXPECT_EQ(to, from);
}

/// Messages between the other ranks may still be in flight afterwards, so the communicator is a
/// duplicate that no later test uses.
TEST(RedistributionByMpi, FailsForListsIfARankStaysAway) {
  const int me = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
  if (size == 1) return;
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  const Layout plain = Layout::block({.shape = {size}, .grid = {size}});
  const std::vector<Index> mine{me};
  const Layout listed = Layout::of_points({.shape = {size}, .ranks = size}, mine);
  const auto make = [&](const Layout& to) {
    try {
      const Redistribution made(
          comm, {{.from = plain, .to = to, .from_type = TREMULA_I64, .to_type = TREMULA_I64}});
      return std::string();
    } catch (const Error& e) {
      return std::string(e.what());
    }
  };
  setenv("TREMULA_TIMEOUT", "2", 1);
  EXPECT_EQ(make(plain), "");
  unsetenv("TREMULA_TIMEOUT");
  if (me != 0) {
    EXPECT_NE(make(listed).find("expected all ranks to report in time"), std::string::npos);
    EXPECT_NE(make(listed).find("over which nothing has failed"), std::string::npos);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

/// Returns the resident memory of this process in MB.
double resident() {
  long all = 0, pages = 0;
  std::ifstream("/proc/self/statm") >> all >> pages;
  return static_cast<double>(pages) * 4096 / 1e6;
}

TEST(RedistributionByMpi, LeavesNothingBehind) {
  const int size = size_of(MPI_COMM_WORLD), me = rank_in(MPI_COMM_WORLD);
  const auto rows = Layout::block({.shape = {64, 64}, .grid = {size, 1}}),
             columns = Layout::block({.shape = {64, 64}, .grid = {1, size}});
  std::vector<double> from(static_cast<std::size_t>(rows.local(me).allocated)),
      to(static_cast<std::size_t>(columns.local(me).allocated));
  const auto call = [&](MPI_Comm comm) { redistribute(comm, rows, columns, from, to); };
  const auto grow = [&](int communicators, int calls) {
    for (int i = 0; i < communicators; ++i) {
      MPI_Comm comm = MPI_COMM_NULL;
      MPI_Comm_dup(MPI_COMM_WORLD, &comm);
      call(comm);
      MPI_Comm_free(&comm);
    }
    for (int i = 0; i < calls; ++i) call(MPI_COMM_WORLD);
  };
  grow(100, 2000);
  const double before = resident();
  grow(300, 8000);
  EXPECT_LT(resident() - before, 4.0);  // keeping 300 communicators would take some 20 MB
}

TEST(RedistributionByMpi, OutlivesTheCommunicatorItWasMadeFor) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  const int size = size_of(comm), me = rank_in(comm);
  const auto block = Layout::block({.shape = {2 * size}, .grid = {size}}),
             cyclic = Layout::block_cyclic({.shape = {2 * size}, .grid = {size}, .block = {1}});
  Redistribution redistribution(comm, {Redistributed::of<int>(block, cyclic)});
  MPI_Comm_free(&comm);
  const std::vector<int> from{2 * me, 2 * me + 1};
  std::vector<int> to(2);
  redistribution(from, to);
  EXPECT_EQ(to, (std::vector<int>{me, me + size}));
  std::vector<float> others(2);
  EXPECT_THROW(redistribution(from, others), Error) << "not the type that it was made for";
}

/// Returns members that rotate parts in a ring: rank r's part goes to the rank before it.
std::string rotated(int size) {
  std::string members = " members=" + std::to_string(size - 1);
  for (int r = 0; r + 1 < size; ++r) members += "/" + std::to_string(r);
  return members;
}

TEST(RedistributionByMpi, UsesSharedMemoryOnlyIfThereIsSome) {
  const int size = size_of(MPI_COMM_WORLD), me = rank_in(MPI_COMM_WORLD);
  if (size == 1) return;
  const bool is_alone = std::getenv("TREMULA_TEST_ALONE") != nullptr;
  const int rows = 700000;  // several segments
  const std::string shape =
      "shape=" + std::to_string(rows * size) + " grid=" + std::to_string(size);
  Redistribution redistribution(
      MPI_COMM_WORLD,
      {Redistributed::of<int>(Layout::parse(shape), Layout::parse(shape + rotated(size)))});
  std::vector<int> from(rows), to(rows);
  for (int i = 0; i < rows; ++i) from[static_cast<std::size_t>(i)] = me * rows + i;
  redistribution(std::span<const int>(from), std::span(to));
  const int source = (me + 1) % size;
  for (int i = 0; i < rows; ++i) ASSERT_EQ(to[static_cast<std::size_t>(i)], source * rows + i);
  const auto s = redistribution.statistics();
  const auto bytes = static_cast<std::uint64_t>(rows) * sizeof(int);
  EXPECT_EQ(s.bytes_sent, bytes);
  EXPECT_GT(s.messages_sent, 1u);
  EXPECT_GT(s.plan_seconds, 0);
  EXPECT_EQ(s.copied_bytes, is_alone ? 0 : 2 * bytes);  // alone: straight from and to the arrays
}

TEST(RedistributionByMpi, LetsMessagesOfTheApplicationProgress) {
  const int size = size_of(MPI_COMM_WORLD), me = rank_in(MPI_COMM_WORLD);
  if (size == 1) return;
  const auto block = Layout::block({.shape = {2 * size}, .grid = {size}}),
             cyclic = Layout::block_cyclic({.shape = {2 * size}, .grid = {size}, .block = {1}});
  std::vector<int> from(2, me), to(2);
  const auto redistribute_them = [&] {
    redistribute(MPI_COMM_WORLD, block, cyclic, std::span<const int>(from), std::span(to));
  };
  redistribute_them();  // does the set-up with collective calls of MPI
  // Rank 1 sends before it takes part; rank 0 takes part before it waits.
  std::vector<char> message(10 << 20, static_cast<char>(me));
  MPI_Request request = MPI_REQUEST_NULL;
  const int bytes = static_cast<int>(message.size());
  if (me == 0) MPI_Irecv(message.data(), bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request);
  if (me == 1) MPI_Send(message.data(), bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
  redistribute_them();
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  EXPECT_EQ(message.back(), me == 0 ? 1 : me);
}

TEST(RedistributionByMpi, EndsOnAllRanksIfOneRefusesTheCall) {
  const int size = size_of(MPI_COMM_WORLD), me = rank_in(MPI_COMM_WORLD);
  if (size == 1) return;
  const auto rows = Layout::block({.shape = {size, size}, .grid = {size, 1}}),
             columns = Layout::block({.shape = {size, size}, .grid = {1, size}});
  const auto count = static_cast<std::size_t>(size);
  std::vector<int> from(count), to(count);
  for (int j = 0; j < size; ++j) from[static_cast<std::size_t>(j)] = me * size + j;
  auto update = tremula_update_init(rows.handle(), columns.handle(), TREMULA_I32);
  const auto call = [&](MPI_Comm comm, const int* source) {
    return tremula_redistribute(comm, &update, source, count * sizeof(int), to.data(),
                                count * sizeof(int));
  };
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  if (me == 0)
    EXPECT_EQ(call(comm, nullptr), TREMULA_INVALID_ARGUMENT);
  else
    EXPECT_EQ(call(comm, from.data()), TREMULA_MISMATCH) << tremula_last_error();
  EXPECT_EQ(call(comm, from.data()), TREMULA_OK) << tremula_last_error();
  for (int i = 0; i < size; ++i) EXPECT_EQ(to[static_cast<std::size_t>(i)], i * size + me);
  MPI_Comm_free(&comm);
}

/// The error's text does not fit into one gather, so a second gather follows on all ranks.
TEST(RedistributionByMpi, ReportsAConfigErrorOfOneRankToAllRanks) {
  const int size = size_of(MPI_COMM_WORLD), me = rank_in(MPI_COMM_WORLD);
  const auto rows = Layout::block({.shape = {size, size}, .grid = {size, 1}}),
             columns = Layout::block({.shape = {size, size}, .grid = {1, size}});
  const auto count = static_cast<std::size_t>(size);
  std::vector<int> from(count), to(count);
  for (int j = 0; j < size; ++j) from[static_cast<std::size_t>(j)] = me * size + j;
  const auto update = tremula_update_init(rows.handle(), columns.handle(), TREMULA_I32);
  const auto call = [&](MPI_Comm comm) {
    return tremula_redistribute(comm, &update, from.data(), count * sizeof(int), to.data(),
                                count * sizeof(int));
  };
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  const std::string missing = "/" + std::string(200, 'a') + "/" + std::string(200, 'b') + ".yaml";
  if (me == size - 1) setenv("TREMULA_CONFIG", missing.c_str(), 1);
  EXPECT_EQ(call(comm), TREMULA_INVALID_ARGUMENT);
  EXPECT_NE(std::string(tremula_last_error()).find(missing), std::string::npos)
      << tremula_last_error();
  unsetenv("TREMULA_CONFIG");
  EXPECT_EQ(call(comm), TREMULA_OK) << tremula_last_error();
  for (int i = 0; i < size; ++i) EXPECT_EQ(to[static_cast<std::size_t>(i)], i * size + me);
  MPI_Comm_free(&comm);
}

TEST(RedistributionByMpi, EndsOnAllRanksIfTheSkinRefusesOne) {
  const int size = size_of(MPI_COMM_WORLD), me = rank_in(MPI_COMM_WORLD);
  if (size == 1) return;
  const auto rows = Layout::block({.shape = {size, size}, .grid = {size, 1}}),
             columns = Layout::block({.shape = {size, size}, .grid = {1, size}});
  const auto count = static_cast<std::size_t>(size);
  std::vector<int> from(count), to(count);
  for (int j = 0; j < size; ++j) from[static_cast<std::size_t>(j)] = me * size + j;
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  Redistribution redistribution(comm, {Redistributed::of<int>(rows, columns)});
  if (me == 0)
    EXPECT_THROW(redistribution(from, std::vector<float>(count)), Error);
  else
    EXPECT_THROW(redistribution(from, to), Error) << "rank 0 has passed no buffers";
  EXPECT_NO_THROW(redistribution(from, to));
  for (int i = 0; i < size; ++i) EXPECT_EQ(to[static_cast<std::size_t>(i)], i * size + me);
  MPI_Comm_free(&comm);
}

}  // namespace
