// SPDX-License-Identifier: Apache-2.0
// Tests streams of arrays whose extent changes with every step. Every element carries its step and its own
// global index; the owners are computed here from the definition.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
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

/// One dimension of one side: blocks dealt out in turn, or the dimension that changes.
struct Axis {
  Index extent = 0;           ///< -1: changes
  Index grid = 1, block = 0;  ///< block 0: one block per coordinate
};

/// One side: a grid along its axes, with `copies` ranks in each cell, numbered in row order.
struct Side {
  std::vector<Axis> axes;
  Index copies = 1;
  bool is_column = false;  ///< storage order

  RankCount ranks() const {
    Index n = copies;
    for (const Axis& axis : axes) n *= axis.grid;
    return static_cast<RankCount>(n);
  }
  Indices coords(Rank rank) const {
    Indices result(axes.size());
    Index rest = rank.value / copies;
    for (std::size_t d = axes.size(); d-- > 0; rest /= axes[d].grid)
      result[d] = rest % axes[d].grid;
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
  /// Returns the global indices of a rank's elements in the order in which it stores them.
  /// @param begin, end  its range along the dimension that changes; for a sink, the whole range from 0 to n
  std::vector<Indices> owned(Rank rank, bool is_source, Index begin, Index end) const {
    const Indices c = coords(rank);
    std::vector<Indices> along(axes.size());
    for (std::size_t d = 0; d < axes.size(); ++d) {
      const Axis& axis = axes[d];
      const bool changes = axis.extent < 0;
      const Index last = changes ? end : axis.extent;
      const Index block =
          axis.block > 0 ? axis.block : std::max<Index>(1, (last + axis.grid - 1) / axis.grid);
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

/// Two sides, and the counts of each step.
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
  const Index most = random.one_in(4) ? 400 : 7;  // short enough to be sent immediately, or longer
  for (int step = 0; step < 6; ++step) {
    Indices& counts = drawn.counts.emplace_back();
    for (Index c = 0; c < drawn.source.axes[drawn.changing].grid; ++c)
      counts.push_back(random.one_in(3) || step == 3 ? 0 : random.in(0, most));
    if (step == 5) counts = drawn.counts[4];  // the same counts again
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
      if (config.queue_depth > 0) std::ranges::fill(buffer, -1);  // belongs to this rank again
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
    ASSERT_EQ(index_calc::local_part(now, s.rank()).allocated, static_cast<Index>(expected.size()));
    std::vector<double> buffer(expected.size(), -7);
    in.get(0, std::as_writable_bytes(std::span(buffer)));
    if (step == 1) {  // a second time
      std::ranges::fill(buffer, -7);
      in.get(0, std::as_writable_bytes(std::span(buffer)));
    }
    in.end_step();
    for (std::size_t i = 0; i < buffer.size(); ++i)
      ASSERT_EQ(buffer[i], c.alpha * static_cast<double>(value(expected[i], step)))
          << "rank " << s.rank().value << ", place " << i << ", step " << step;
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
    world.start("producer", c.source.ranks(), [&](Session& s) { produce(s, c, config, is_async); });
    world.start("consumer", c.sink.ranks(), [&](Session& s) { consume(s, c); });
    ASSERT_EQ(text_of(world.join()), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Over, Changing, testing::Values(World::Way::loopback, World::Way::local),
                         [](const auto& way) {
                           return way.param == World::Way::local ? "local" : "loopback";
                         });

/// A row: its key, and a number that identifies where it was put.
struct Row {
  std::int64_t key = 0, value = 0;
};

/// Returns the rows of one of two ranks in a step; the first rank has none in some steps.
std::vector<Row> rows_of(Rank rank, std::size_t step) {
  std::vector<Row> rows;
  const std::size_t count = rank == Rank{0} && step % 3 == 1 ? 0 : 5 + 7 * step + at(rank);
  for (std::size_t i = 0; i < count; ++i)
    rows.push_back({.key = static_cast<std::int64_t>((i * 37 + step) % 50) - 20,
                    .value = static_cast<std::int64_t>(10000 * step + 100 * i) + rank.value});
  return rows;
}

constexpr std::size_t keyed_steps = 7;

void produce_rows(
    Session& s, const OutConfig& config = {}, std::size_t steps = keyed_steps,
    const std::function<void(OutStream&, std::size_t)>& before = [](OutStream&, std::size_t) {}) {
  OutStream out(s, "s", config);
  const auto layout = Layout::parse("shape=* grid=2"),
             rows_layout = Layout::parse("shape=2x* grid=1x2 store=column");
  out.declare({.name = "key", .type = core::ElementType::i64, .layout = layout, .origin = {}});
  out.declare({.name = "v", .type = core::ElementType::i64, .layout = rows_layout, .origin = {}});
  for (std::size_t step = 0; step < steps; ++step) {
    std::vector<std::int64_t> keys, values;
    for (const Row& row : rows_of(s.rank(), step)) {
      keys.push_back(row.key);
      values.insert(values.end(), {row.value, -row.value});
    }
    before(out, step);
    out.begin_step();
    out.put(0, std::as_bytes(std::span(keys)));
    out.put(1, std::as_bytes(std::span(values)));
    out.end_step();
  }
  out.close();
}

/// @param owner  returns the owner of a key, by the definition
void consume_rows(Session& s, const std::string& how,
                  const std::function<RankCount(std::int64_t)>& owner, bool is_sorted,
                  bool has_copies = false) {
  InStream in(s, "s");
  const std::string ranks = has_copies ? "" : std::to_string(s.size());
  const auto layout = [&](const std::string& shape, const std::string& of_grid) {
    return Layout::parse(fmt::format("shape={} {} key=key{}", shape, of_grid, how));
  };
  in.declare({.name = "v",
              .type = core::ElementType::f64,
              .layout = layout("2x*", has_copies ? "mesh=2x2 axes1=0 store=column"
                                                 : fmt::format("grid=1x{} store=column", ranks)),
              .origin = {}},
             {.alpha = 0.5});
  in.declare({.name = "key",
              .type = core::ElementType::i64,
              .layout = layout("*", has_copies ? "mesh=2x2 axes0=0" : "grid=" + ranks),
              .origin = {}});
  const RankCount coordinate = has_copies ? s.rank().value / 2 : s.rank().value;
  std::size_t step = 0;
  for (; in.begin_step(); ++step) {
    std::vector<Row> expected;
    for (const Rank rank : core::all_ranks(2))
      for (const Row& row : rows_of(rank, step))
        if (owner(row.key) == coordinate) expected.push_back(row);
    if (is_sorted) std::ranges::stable_sort(expected, {}, &Row::key);
    ASSERT_EQ(index_calc::local_part(in.layout(0), s.rank()).extent[1],
              static_cast<Index>(expected.size()));
    std::vector<std::int64_t> keys(expected.size());
    std::vector<double> values(2 * expected.size());
    in.get(0, std::as_writable_bytes(std::span(values)));
    in.get(1, std::as_writable_bytes(std::span(keys)));
    in.end_step();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(keys[i], expected[i].key) << "row " << i << " of step " << step;
      ASSERT_EQ(values[2 * i], 0.5 * static_cast<double>(expected[i].value));
      ASSERT_EQ(values[2 * i + 1], -0.5 * static_cast<double>(expected[i].value));
    }
  }
  EXPECT_EQ(step, keyed_steps);
  in.close();
}

RankCount by_hash(std::int64_t key, RankCount ranks) {  // splitmix64
  auto z = static_cast<std::uint64_t>(key) + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return static_cast<RankCount>((z ^ (z >> 31)) % static_cast<std::uint64_t>(ranks));
}

TEST(ChangingRows, GoToTheRankThatTheirKeySelects) {
  World world;
  world.start("producer", 2, [](Session& s) { produce_rows(s, {.wait_for_consumers = 4}); });
  world.start("hash", 3, [](Session& s) {
    consume_rows(
        s, "", [](std::int64_t key) { return by_hash(key, 3); }, false);
  });
  world.start("sorted", 2, [](Session& s) {
    consume_rows(
        s, " sorted=yes", [](std::int64_t key) { return by_hash(key, 2); }, true);
  });
  world.start("ranges", 3, [](Session& s) {
    consume_rows(
        s, " ranges=0/11 sorted=yes",
        [](std::int64_t key) { return key < 0    ? 0
                                      : key < 11 ? 1
                                                 : 2; }, true);
  });
  world.start("copies", 4, [](Session& s) {
    consume_rows(
        s, "", [](std::int64_t key) { return by_hash(key, 2); }, false, true);
  });
  EXPECT_EQ(text_of(world.join()), "");
}

/// Runs a producer and a consumer of two ranks each, and checks that at least `ranks` of them get
/// the error `why`. A consumer that is already linked may get an error about its lost peer instead.
void expect_refused(const std::function<void(Session&)>& producer,
                    const std::function<void(Session&)>& consumer, const std::string& why,
                    int ranks) {
  World world;
  std::atomic<int> refused = 0;
  const auto run = [&](const std::function<void(Session&)>& body) {
    return [&](Session& s) {
      try {
        body(s);
      } catch (const Error& e) {
        if (std::string(e.what()).find(why) != std::string::npos) ++refused;
      }
    };
  };
  if (producer) world.start("producer", 2, run(producer));
  if (consumer) world.start("consumer", 2, run(consumer));
  EXPECT_EQ(text_of(world.join()), "");
  EXPECT_GE(refused, ranks) << "expected on at least that many ranks: " << why;
}

proto::Field field(const std::string& layout, core::ElementType type = core::ElementType::i64) {
  return {.name = "f", .type = type, .layout = Layout::parse(layout), .origin = {}};
}

void put_counts(Session& s, const std::string& layout, std::vector<std::size_t> counts) {
  OutStream out(s, "s", {});
  out.declare(field(layout));
  out.begin_step();
  const std::vector<std::int64_t> data(counts[at(s.rank())]);
  out.put(0, std::as_bytes(std::span(data)));
  out.end_step();
  out.close();
}

void get_one(Session& s, const std::vector<std::string>& layouts) {
  InStream in(s, "s");
  for (std::size_t f = 0; f < layouts.size(); ++f) {
    auto wanted = field(layouts[f]);
    wanted.name = layouts.size() > 1 && f == 0 ? "key" : layouts.size() > 1 ? "v" : "f";
    in.declare(wanted);
  }
  in.begin_step();
}

TEST(ChangingRefusals, NameTheExpectation) {
  const auto takes = [](const std::string& layout) {
    return [=](Session& s) { get_one(s, {layout}); };
  };
  expect_refused(
      [](Session& s) {
        put_counts(s, "shape=* grid=2 block=3", {1, 1});
      },
      nullptr, "expected no block and no key along dimension 0 of the producer", 2);
  expect_refused(
      [](Session& s) {
        put_counts(s, "shape=*x3 grid=2x1", {6, 4});
      },
      takes("shape=*x3 mesh=2"), "rank 1: expected a buffer of a multiple of 24 bytes", 1);
  expect_refused(
      [](Session& s) {
        put_counts(s, "shape=*x2 grid=1x2", {6, 4});
      },
      takes("shape=*x2 mesh=2"),
      "expected ranks 0 and 1, which have the same position along dimension 0, to have the same "
      "number of elements along it, found 6 and 4",
      2);
  expect_refused(
      [](Session& s) {
        put_counts(s, "shape=*x2 grid=2x1", {6, 4});
      },
      takes("shape=0x2 grid=2x1"), "wants shape 0x2, producer 'producer' offers shape *x2", 4);
  expect_refused([](Session& s) { produce_rows(s); },
                 [](Session& s) {
                   get_one(s, {"shape=* grid=2", "shape=2x* grid=1x2 store=column key=key"});
                 },
                 "expected the keys to be taken in the same way", 4);
  expect_refused(
      [](Session& s) { produce_rows(s); },
      [](Session& s) {
        get_one(s, {"shape=* grid=2 key=no", "shape=2x* grid=1x2 store=column key=no"});
      },
      "expected the consumer to declare that field as well where a consumer takes rows by "
      "key 'no'",
      4);
  expect_refused(
      [](Session& s) {
        put_counts(s, "shape=* grid=2", {1, 2});
      },
      [](Session& s) {
        InStream in(s, "s");
        in.declare(field("shape=* grid=2"));
        ASSERT_TRUE(in.begin_step());
        std::vector<std::int64_t> buffer(7);
        in.get(0, std::as_writable_bytes(std::span(buffer)));
      },
      "this rank has of \"shape=3 grid=2\" in this step); found 56 bytes", 2);
}

/// Puts keys and rows, each in its own layout.
/// @param keys, rows  numbers of keys and of rows that each producer rank has
void put_unlike(Session& s, const std::string& keys_layout, const std::string& rows_layout,
                std::array<std::size_t, 2> keys, std::array<std::size_t, 2> rows) {
  OutStream out(s, "s", {});
  auto key = field(keys_layout), row = field(rows_layout);
  key.name = "key", row.name = "v";
  out.declare(key);
  out.declare(row);
  out.begin_step();
  const auto rank = at(s.rank());
  const std::vector<std::int64_t> some_keys(keys[rank]), some_rows(rows[rank]);
  out.put(0, std::as_bytes(std::span(some_keys)));
  out.put(1, std::as_bytes(std::span(some_rows)));
  out.end_step();
  out.close();
}

TEST(ChangingRefusals, CoverRowsAndKeysThatDoNotMatch) {
  const auto take = [](const std::string& keys, const std::string& rows) {
    return [=](Session& s) { get_one(s, {keys, rows}); };
  };
  const std::string by_key = " key=key sorted=yes";
  for (const std::array<std::size_t, 2> rows : {std::array<std::size_t, 2>{3, 2}, {2, 2}, {2, 4}})
    expect_refused(
        [=](Session& s) {
          put_unlike(s, "shape=* grid=2", "shape=* grid=2", {2, 3}, rows);
        },
        take("shape=* grid=2" + by_key, "shape=* grid=2" + by_key),
        "expected as many rows of field 'v' as keys 'key', by which group 'consumer' "
        "takes them; found",
        2);
  expect_refused(
      [=](Session& s) {
        put_unlike(s, "shape=* grid=2", "shape=* grid=2 members=1/0", {2, 2}, {2, 2});
      },
      take("shape=* grid=2" + by_key, "shape=* grid=2" + by_key),
      "expected the producer's ranks to hold rows and keys in the same way", 4);
  expect_refused(
      [=](Session& s) {
        put_unlike(s, "shape=* grid=2", "shape=* grid=2", {2, 2}, {2, 2});
      },
      take("shape=* grid=2" + by_key, "shape=* grid=2 members=1/0" + by_key),
      "expected the keys to be taken in the same way", 4);
  expect_refused(
      [=](Session& s) {
        put_counts(s, "shape=*x2 grid=2x1", {6, 4});
      },
      [](Session& s) {
        InStream in(s, "s");
        FieldUpdate update;
        update.of_data = index_calc::Selection{.origin = {0, 0}, .extents = {0, 2}};
        in.declare(field("shape=4x2 grid=2x1"), update);
        in.begin_step();
      },
      "offers shape *x2", 4);
}

TEST(ChangingRows, AreFixedByTheFirstPut) {
  World world;
  world.start("producer", 1, [](Session& s) {
    OutStream out(s, "s", {});
    out.declare(field("shape=* grid=1"));
    const std::vector<std::int64_t> data{1, 2, 3};
    out.begin_step();
    out.put(0, std::as_bytes(std::span(data)));
    EXPECT_THROW(out.put(0, std::as_bytes(std::span(data).first(1))), Error);
    out.end_step();
    out.close();
  });
  world.start("consumer", 1, [](Session& s) {
    InStream in(s, "s");
    in.declare(field("shape=* grid=1"));
    EXPECT_TRUE(in.begin_step());
    std::vector<std::int64_t> data(3);
    in.get(0, std::as_writable_bytes(std::span(data)));
    EXPECT_EQ(data, (std::vector<std::int64_t>{1, 2, 3}));
    in.end_step();
    EXPECT_FALSE(in.begin_step());
    in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

// Data reaches a consumer on the same host while the producer computes.
TEST(ChangingRows, ArriveWhileTheProducerIsInNoCall) {
  World world(8192, World::Way::local);
  std::atomic<int> got = 0;
  world.start("producer", 2, [&](Session& s) {
    OutStream out(s, "s", {});
    out.declare(field("shape=* grid=2"));
    const std::vector<std::int64_t> data(300000, s.rank().value);
    for (int step = 0; step < 2; ++step) {
      out.begin_step();
      out.put(0, std::as_bytes(std::span(data)));
      out.end_step();
    }
    while (got < 2) std::this_thread::yield();
    out.close();
  });
  world.start("consumer", 1, [&](Session& s) {
    InStream in(s, "s");
    in.declare(field("shape=* grid=1"));
    std::vector<std::int64_t> data(600000);
    for (; in.begin_step(); ++got) {
      in.get(0, std::as_writable_bytes(std::span(data)));
      in.end_step();
      EXPECT_EQ(std::accumulate(data.begin(), data.end(), std::int64_t{0}), 300000);
    }
    in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

// Whatever happens to steps for which there is no room, each step that arrives is complete.
TEST(ChangingQueue, StepsAreDroppedSharedAndKeptWhole) {
  for (const auto when_full : {WhenFull::drop_oldest, WhenFull::drop_newest, WhenFull::block}) {
    World world;
    world.step_timeout = 60;
    std::atomic<int> seen = 0;
    std::atomic<bool> is_under_way = false;
    world.start("producer", 2, [&](Session& s) {
      OutConfig config;
      config.queue_depth = config.keep_steps = config.wait_for_consumers = 2;
      config.when_full = when_full;
      produce_rows(s, config, 40, [&](OutStream& out, std::size_t step) {
        if (step != 10) return;
        is_under_way = true;
        const auto have_all_come = [&] {  // three groups of two ranks
          return !s.run_on_root(
                       [&] { return core::Bytes(out.peer_statistics().size() == 6 ? 1 : 0); },
                       core::Deadline::after(30))
                      .empty();
        };
        while (!have_all_come()) out.serve(core::Deadline::after(0.05));
      });
    });
    for (const std::string group : {"share", "pool", "latest"})
      world.start(group, 2, [&, group](Session& s) {
        while (group == "latest" && !is_under_way) std::this_thread::yield();
        InStream in(s, "s",
                    {.steps = group == "latest" ? Steps::latest : Steps::share,
                     .start = group == "latest" ? Start::oldest : Start::next});
        in.declare({.name = "v",
                    .type = core::ElementType::i64,
                    .layout = Layout::parse("shape=2x* mesh=2"),
                    .origin = {}});
        while (in.begin_step()) {
          std::vector<Row> expected;
          for (const Rank rank : core::all_ranks(2))
            for (const Row& row : rows_of(rank, in.step())) expected.push_back(row);
          std::vector<std::int64_t> values(2 * expected.size());
          in.get(0, std::as_writable_bytes(std::span(values)));
          in.end_step();
          for (std::size_t i = 0; i < expected.size(); ++i) {
            ASSERT_EQ(values[i], expected[i].value);
            ASSERT_EQ(values[expected.size() + i], -expected[i].value);
          }
          ++seen;
        }
        in.close();
      });
    EXPECT_EQ(text_of(world.join()), "");
    EXPECT_GT(seen, 0);
  }
}

}  // namespace
}  // namespace tremula::client
