// SPDX-License-Identifier: Apache-2.0
#include "cli/plan/picture/volumes.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <set>

#include "core/error.hpp"
#include "tests/index_calc/skew/skewed_oracle.hpp"

namespace tremula::cli {
namespace {

using index_calc::Layout;
using index_calc::testing::Random, index_calc::testing::World;

TEST(Volumes, EqualDealingTheBlocks) {
  Random random;
  for (int i = 0; i < 60; ++i) {
    const std::vector<Index> shape{random.in(1, 12), random.in(1, 9)};
    const Layout from = random.layout(shape, 4), to = random.layout(shape, 4);
    SCOPED_TRACE(to_string(from) + " to " + to_string(to));
    const World here(from), there(to);
    const Volumes found = volumes({.from = from, .to = to}, 256);
    ASSERT_EQ(found.rows, here.buffers.size());
    ASSERT_EQ(found.columns, there.buffers.size());
    Index packages = 0, largest = 0, smallest = 0;
    std::size_t cell = 0;
    for (const auto& [producer, a] : here.buffers)
      for (const auto& [consumer, b] : there.buffers) {
        const auto elements = static_cast<Index>(
            here.common(there, producer, consumer, index_calc::Order::row).size());
        EXPECT_EQ(found.producers[cell / found.columns], producer);
        EXPECT_EQ(found.consumers[cell % found.columns], consumer);
        EXPECT_EQ(found.cells[cell++], static_cast<double>(elements));
        if (elements == 0) continue;
        smallest = packages++ == 0 ? elements : std::min(smallest, elements);
        largest = std::max(largest, elements);
      }
    EXPECT_EQ(found.total, shape[0] * shape[1]);
    EXPECT_EQ(found.packages, packages);
    EXPECT_EQ(found.largest, largest);
    EXPECT_EQ(found.smallest, smallest);
    if (HasFailure()) return;
  }
}

/// Returns the elements that each rank has.
std::map<Rank, std::set<Index>> sets_of(const Layout& layout) {
  std::map<Rank, std::set<Index>> sets;
  for (const auto& [rank, buffer] : index_calc::testing::numbers_of(layout))
    for (const Index number : buffer)
      if (number >= 0) sets[rank].insert(number);
  return sets;
}

// Layouts may have copies. A consumer receives every element of its part, and a pair exchanges at
// most the elements that both have.
TEST(Volumes, GiveEveryConsumerItsPart) {
  Random random;
  for (int i = 0; i < 100; ++i) {
    const std::vector<Index> shape{random.in(1, 12), random.in(1, 9)};
    const auto layout = [&] {
      const Layout one = random.one_in(2) ? index_calc::testing::random_skewed(random, shape, 8)
                                          : random.layout(shape, 3, true);
      return one.dense();
    };
    const Layout from = layout(), to = layout();
    SCOPED_TRACE(to_string(from) + " to " + to_string(to));
    const Volumes found = volumes({.from = from, .to = to}, 256);
    auto here = sets_of(from), there = sets_of(to);
    Index total = 0;
    for (std::size_t c = 0; c < found.columns; ++c) {
      const auto& wanted = there[found.consumers[c]];
      double got = 0;
      for (std::size_t p = 0; p < found.rows; ++p) {
        const double elements = found.cells[p * found.columns + c];
        const auto& held = here[found.producers[p]];
        EXPECT_LE(elements,
                  std::ranges::count_if(wanted, [&](Index n) { return held.contains(n); }));
        got += elements;
      }
      EXPECT_EQ(got, static_cast<double>(wanted.size())) << "consumer " << found.consumers[c].value;
      total += static_cast<Index>(wanted.size());
    }
    EXPECT_EQ(found.total, total);
    if (HasFailure()) return;
  }
}

TEST(Volumes, AreSharedByCopiesOfAProducer) {
  const Volumes found = volumes({.from = Layout::parse("shape=8x8 mesh=2x2 axes0=1"),
                                 .to = Layout::parse("shape=8x8 grid=1x2")},
                                256);
  EXPECT_EQ(found.cells, std::vector<double>(8, 8.0));
}

TEST(Volumes, AreMeansWhereRanksShareACell) {
  // Producers 0 to 4 hold two elements each, consumers 0 to 2 hold four, four and two.
  const Volumes found = volumes(
      {.from = Layout::parse("shape=10 grid=5"), .to = Layout::parse("shape=10 grid=3")}, 2);
  EXPECT_EQ(found.producers_per_cell, 3u);
  EXPECT_EQ(found.consumers_per_cell, 2u);
  EXPECT_EQ(found.rows, 2u);
  EXPECT_EQ(found.columns, 2u);
  EXPECT_EQ(found.cells, (std::vector<double>{6.0 / 6, 0, 2.0 / 4, 2.0 / 2}));
  EXPECT_EQ(found.packages, 5);
}

TEST(Volumes, AreCountedUpTo63Bits) {
  const Volumes found = volumes({.from = Layout::parse("shape=4611686018427387904 grid=1"),
                                 .to = Layout::parse("shape=4611686018427387904 mesh=4")},
                                256);
  EXPECT_EQ(found.total, std::numeric_limits<Index>::max());
  EXPECT_EQ(found.smallest, 4611686018427387904);
}

TEST(Volumes, RefuseTooManyRanks) {
  const auto complaint = [](const std::string& from, const std::string& to) {
    try {
      volumes({.from = Layout::parse(from), .to = Layout::parse(to)}, 256);
    } catch (const core::Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(complaint("shape=20000x2 grid=10000x1", "shape=20000x2 grid=10000x2"),
            "expected at most 16384 consumers to draw, found 20000; draw a smaller redistribution "
            "of the same pattern");
}

}  // namespace
}  // namespace tremula::cli
