// SPDX-License-Identifier: Apache-2.0
// Streams of arrays whose extent changes with every step. Every element carries its step and its own
// global index; who owns what is told here from the definition.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

#include "tests/client/world.hpp"
#include "tests/index_calc/random.hpp"

namespace tremula::client {
namespace {

using index_calc::Index, index_calc::Layout;
using index_calc::testing::Random;

using Indices = std::vector<Index>;

/// One dimension of one side: blocks dealt in turn, or the one that changes.
struct Axis {
  Index extent = 0;  ///< -1: changes
  Index grid = 1, block = 0;  ///< 0: one block for each coordinate
};

/// One side: a grid of its axes numbered in row order, each rank of it `copies` times.
struct Side {
  std::vector<Axis> axes;
  Index copies = 1;
  bool is_column = false;  ///< storage

  Rank ranks() const {
    Index n = copies;
    for (const Axis& axis : axes) n *= axis.grid;
    return static_cast<Rank>(n);
  }
  Indices coords(Rank rank) const {
    Indices result(axes.size());
    Index rest = rank / copies;
    for (std::size_t d = axes.size(); d-- > 0; rest /= axes[d].grid) result[d] = rest % axes[d].grid;
    return result;
  }
  std::string text() const {
    std::string shape, grid, more, mesh;
    for (std::size_t d = 0; d < axes.size(); ++d) {
      const std::string x = d == 0 ? "" : "x";
      shape += x + (axes[d].extent < 0 ? "*" : std::to_string(axes[d].extent));
      grid += x + std::to_string(axes[d].grid);
      if (axes[d].block > 0) more += fmt::format(" block{}={}", d, axes[d].block);
      mesh += fmt::format(" axes{}={}", d, d);
    }
    if (copies > 1) more += mesh, grid += fmt::format("x{}", copies);
    if (is_column) more += " store=column";
    return fmt::format("shape={} {}={}{}", shape, copies > 1 ? "mesh" : "grid", grid, more);
  }
  /// Global indices of a rank's elements in the order in which it stores them.
  /// @param begin, end  of what it has along the dimension that changes, or, of a sink, all: 0, n
  std::vector<Indices> owned(Rank rank, bool is_source, Index begin, Index end) const {
    const Indices c = coords(rank);
    std::vector<Indices> along(axes.size());
    for (std::size_t d = 0; d < axes.size(); ++d) {
      const Axis& axis = axes[d];
      const bool changes = axis.extent < 0;
      const Index last = changes ? end : axis.extent;
      const Index block = axis.block > 0 ? axis.block
                                         : std::max<Index>(1, (last + axis.grid - 1) / axis.grid);
      for (Index i = changes ? begin : 0; i < last; ++i)
        if ((changes && is_source) || i / block % axis.grid == c[d]) along[d].push_back(i);
    }
    std::vector<Indices> result{{}};
    const auto extend = [&](std::size_t d, bool at_end) {
      std::vector<Indices> longer;
      for (const Indices& index : result)
        for (const Index i : along[d]) {
          longer.push_back(index);
          if (at_end)
            longer.back().push_back(i);
          else
            longer.back().insert(longer.back().begin(), i);
        }
      result = std::move(longer);
    };
    if (is_column)
      for (std::size_t d = axes.size(); d-- > 0;) extend(d, false);
    else
      for (std::size_t d = 0; d < axes.size(); ++d) extend(d, true);
    return result;
  }
};

/// Of two sides, with the counts of each step.
struct Case {
  std::size_t changing = 0;
  Side source, sink;
  std::vector<Indices> counts;  ///< shape: [step][coordinate]
  double alpha = 1;
  Index total(std::size_t step) const {
    return std::accumulate(counts[step].begin(), counts[step].end(), Index{0});
  }
};

std::int64_t value(const Indices& index, std::size_t step) {
  std::int64_t number = static_cast<std::int64_t>(step);
  for (const Index i : index) number = number * 1000 + i;
  return number;
}

Case draw(Random& random) {
  Case drawn;
  const auto dimensions = static_cast<std::size_t>(random.in(1, 3));
  drawn.changing = static_cast<std::size_t>(random.in(0, static_cast<Index>(dimensions) - 1));
  for (Side* const side : {&drawn.source, &drawn.sink}) {
    side->is_column = random.one_in(2);
    for (std::size_t d = 0; d < dimensions; ++d) {
      Axis axis{.extent = d == drawn.changing ? -1 : 1 + static_cast<Index>(d) * 2};
      axis.grid = random.in(1, d == drawn.changing ? 3 : 2);
      if (random.one_in(2) && (d != drawn.changing || side == &drawn.sink))
        axis.block = random.in(1, 4);
      side->axes.push_back(axis);
    }
    if (random.one_in(4)) side->copies = 2;
  }
  const Index most = random.one_in(4) ? 400 : 7;  // in messages that are sent at once, and longer
  for (int step = 0; step < 6; ++step) {
    Indices& counts = drawn.counts.emplace_back();
    for (Index c = 0; c < drawn.source.axes[drawn.changing].grid; ++c)
      counts.push_back(random.one_in(3) || step == 3 ? 0 : random.in(0, most));
    if (step == 5) counts = drawn.counts[4];  // the same again
  }
  if (random.one_in(2)) drawn.alpha = 2;
  return drawn;
}

void produce(Session& s, const Case& c, const OutConfig& config, bool is_async) {
  OutStream out(s, "s", config);
  const auto layout = Layout::parse(c.source.text());
  out.declare({.name = "f", .type = core::ElementType::i64, .layout = layout, .origin = {}});
  std::vector<std::vector<std::int64_t>> buffers(c.counts.size());
  for (std::size_t step = 0; step < c.counts.size(); ++step) {
    const auto place = c.source.coords(s.rank())[c.changing];
    Index begin = 0;
    for (Index i = 0; i < place; ++i) begin += c.counts[step][static_cast<std::size_t>(i)];
    const Index end = begin + c.counts[step][static_cast<std::size_t>(place)];
    auto& buffer = buffers[step];
    for (const Indices& index : c.source.owned(s.rank(), true, begin, end))
      buffer.push_back(value(index, step));
    out.begin_step();
    if (is_async) {
      out.put_async(0, std::as_bytes(std::span(buffer)));
    } else {
      out.put(0, std::as_bytes(std::span(buffer)));
      if (config.queue_depth > 0) std::ranges::fill(buffer, -1);  // it is ours again
    }
    out.end_step();
  }
  out.close();
}

void consume(Session& s, const Case& c) {
  InStream in(s, "s");
  const auto layout = Layout::parse(c.sink.text());
  in.declare({.name = "f", .type = core::ElementType::f64, .layout = layout, .origin = {}},
             {.alpha = c.alpha});
  std::size_t step = 0;
  for (; in.begin_step(); ++step) {
    const auto expected = c.sink.owned(s.rank(), false, 0, c.total(step));
    const Layout& now = in.layout(0);
    ASSERT_EQ(index_calc::shape(now)[c.changing], c.total(step));
    ASSERT_EQ(index_calc::local_part(now, s.rank()).allocated,
              static_cast<Index>(expected.size()));
    std::vector<double> buffer(expected.size(), -7);
    in.get(0, std::as_writable_bytes(std::span(buffer)));
    if (step == 1) {  // a second time, into other memory
      std::ranges::fill(buffer, -7);
      in.get(0, std::as_writable_bytes(std::span(buffer)));
    }
    in.end_step();
    for (std::size_t i = 0; i < buffer.size(); ++i)
      ASSERT_EQ(buffer[i], c.alpha * static_cast<double>(value(expected[i], step)))
          << "rank " << s.rank() << ", place " << i << ", step " << step;
  }
  EXPECT_EQ(step, c.counts.size());
  in.close();
}

class Changing : public testing::TestWithParam<World::Way> {};

TEST_P(Changing, ArraysArriveWholeInAnyLayout) {
  Random random;
  for (int i = 0; i < 24; ++i) {
    const Case c = draw(random);
    const OutConfig config{.queue_depth = static_cast<int>(random.in(0, 3)),
                           .when_full = WhenFull::block,
                           .keep_steps = 0};
    const bool is_async = random.one_in(3);
    SCOPED_TRACE(fmt::format("{} to {}, queue_depth {}", c.source.text(), c.sink.text(),
                             config.queue_depth));
    World world(8192, GetParam());
    world.start("producer", c.source.ranks(),
                [&](Session& s) { produce(s, c, config, is_async); });
    world.start("consumer", c.sink.ranks(), [&](Session& s) { consume(s, c); });
    ASSERT_EQ(text_of(world.join()), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Over, Changing, testing::Values(World::Way::loopback, World::Way::local),
                         [](const auto& way) {
                           return way.param == World::Way::local ? "local" : "loopback";
                         });

}  // namespace
}  // namespace tremula::client
