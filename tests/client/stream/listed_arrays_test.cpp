// SPDX-License-Identifier: Apache-2.0
// Tests streams of arrays whose ranks list what they own (points, segments or boxes), mixed with layouts
// given by formulas. Every element carries its number and its step.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "tests/client/world.hpp"
#include "tests/index_calc/lists/random_lists.hpp"

namespace tremula::client {
namespace {

using index_calc::Index, index_calc::IndexList, index_calc::Layout;
using index_calc::testing::Random, index_calc::testing::Side;

constexpr std::uint64_t steps = 3;

std::int64_t value(Index number, std::uint64_t step) {
  return 1000 * number + static_cast<std::int64_t>(step);
}

proto::Field field_of(const Side& side, Rank rank,
                      core::ElementType type = core::ElementType::i64) {
  return {.name = "f", .type = type, .layout = side.layout[at(rank)]};
}

void produce(Session& s, const Side& side) {
  OutStream out(s, "s", {});
  out.declare(field_of(side, s.rank()));
  const auto& numbers = side.numbers[at(s.rank())];
  std::vector<std::int64_t> buffer(numbers.size());
  for (std::uint64_t step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < buffer.size(); ++i) buffer[i] = value(numbers[i], step);
    out.begin_step();
    out.put(0, std::as_bytes(std::span(buffer)));
    out.end_step();
  }
  out.close();
}

/// @param offered  for each element, whether the producer has it
void consume(Session& s, const Side& side, const std::vector<bool>& offered) {
  InStream in(s, "s");
  in.declare(field_of(side, s.rank(), core::ElementType::f64),
             {.alpha = 2.0});  // converted and scaled on the way
  const auto& numbers = side.numbers[at(s.rank())];
  std::uint64_t step = 0;
  for (; in.begin_step(); ++step) {
    std::vector<double> buffer(numbers.size(), -7);
    in.get(0, std::as_writable_bytes(std::span(buffer)));
    EXPECT_EQ(in.fills(0),
              std::ranges::all_of(numbers,
                                  [&](Index number) {
                                    return number < 0 ? !side.layout[0].listed()
                                                      : offered[static_cast<std::size_t>(number)];
                                  }))
        << "rank " << s.rank().value;
    in.end_step();
    for (std::size_t i = 0; i < buffer.size(); ++i) {
      const bool is_there = numbers[i] >= 0 && offered[static_cast<std::size_t>(numbers[i])];
      ASSERT_EQ(buffer[i], is_there ? 2.0 * static_cast<double>(value(numbers[i], step)) : -7)
          << "rank " << s.rank().value << ", place " << i << ", step " << step;
    }
  }
  EXPECT_EQ(step, steps);
  in.close();
}

class ListedArrays : public testing::TestWithParam<World::Way> {};

/// Returns a random side of at most 16 ranks, because each is a thread with its own session.
Side few_ranks(Random& random, const std::vector<Index>& shape, bool may_compute,
               bool is_sink = false) {
  for (;;)
    if (Side side = index_calc::testing::random_side(random, shape, may_compute, is_sink);
        side.ranks() <= 16)
      return side;
}

TEST_P(ListedArrays, ArriveWholeFromAnyKindToAnyKind) {
  Random random;
  for (int i = 0; i < 12; ++i) {
    const auto shape = index_calc::testing::random_shape(random);
    const bool is_listed = random.one_in(2);
    const Side source = few_ranks(random, shape, !is_listed);
    const Side sink = few_ranks(random, shape, is_listed, true);
    SCOPED_TRACE(to_string(source.layout[0]) + " to " + to_string(sink.layout[0]));
    std::vector<bool> offered(static_cast<std::size_t>(index_calc::testing::volume(shape)));
    for (const auto& numbers : source.numbers)
      for (const Index number : numbers)
        if (number >= 0) offered[static_cast<std::size_t>(number)] = true;
    World world(8192, GetParam());
    world.proof = random.one_in(2);
    world.start("producer", source.ranks(), [&](Session& s) { produce(s, source); });
    world.start("consumer", sink.ranks(), [&](Session& s) { consume(s, sink, offered); });
    ASSERT_EQ(text_of(world.join()), "");
  }
}

std::vector<Index> index_of(Index number, const std::vector<Index>& shape) {
  std::vector<Index> index(shape.size());
  for (std::size_t d = shape.size(); d-- > 0; number /= shape[d]) index[d] = number % shape[d];
  return index;
}

Index number_of(const std::vector<Index>& index, const std::vector<Index>& shape) {
  Index number = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) number = number * shape[d] + index[d];
  return number;
}

/// A part of an array of shape `from` that is moved, with its dimensions permuted, to a part of an array of shape `to`.
struct TakenPart {
  std::vector<Index> from, to, extents, from_origin, to_origin;  // extents, to_origin: as in `to`
  std::vector<std::size_t> axes;

  explicit TakenPart(Random& random) : from(index_calc::testing::random_shape(random)) {
    axes.resize(from.size());
    std::iota(axes.begin(), axes.end(), std::size_t{0});
    for (std::size_t d = axes.size(); d > 1; --d)
      std::swap(axes[d - 1],
                axes[static_cast<std::size_t>(random.in(0, static_cast<Index>(d) - 1))]);
    from_origin.resize(from.size());
    for (const std::size_t axis : axes) {
      extents.push_back(random.one_in(3) ? from[axis] : random.in(1, from[axis]));
      from_origin[axis] = random.in(0, from[axis] - extents.back());
      to_origin.push_back(random.one_in(2) ? 0 : random.in(0, 2));
      to.push_back(to_origin.back() + extents.back() + (random.one_in(2) ? 0 : random.in(0, 2)));
    }
  }
  /// Returns the number, in `from`, of the element that is moved to element `number` of `to`; -1 if there is none.
  Index source_of(Index number) const {
    const auto index = index_of(number, to);
    std::vector<Index> source(from.size());
    for (std::size_t d = 0; d < to.size(); ++d) {
      const Index at = index[d] - to_origin[d];
      if (at < 0 || at >= extents[d]) return -1;
      source[axes[d]] = from_origin[axes[d]] + at;
    }
    return number_of(source, from);
  }
};

void consume_part(Session& s, const Side& side, const TakenPart& taken,
                  const std::vector<bool>& offered, double beta) {
  InStream in(s, "s");
  in.declare(field_of(side, s.rank(), core::ElementType::f64),
             {.alpha = 2.0,
              .beta = beta,
              .axes = taken.axes,
              .of_data = index_calc::Selection{taken.to_origin, taken.extents},
              .from_origin = taken.from_origin});
  const auto& numbers = side.numbers[at(s.rank())];
  std::uint64_t step = 0;
  for (; in.begin_step(); ++step) {
    std::vector<double> buffer(numbers.size(), -7);
    in.get(0, std::as_writable_bytes(std::span(buffer)));
    in.end_step();
    for (std::size_t i = 0; i < buffer.size(); ++i) {
      const Index source = numbers[i] < 0 ? -1 : taken.source_of(numbers[i]);
      const bool is_there = source >= 0 && offered[static_cast<std::size_t>(source)];
      ASSERT_EQ(buffer[i],
                is_there ? 2.0 * static_cast<double>(value(source, step)) - 7 * beta : -7)
          << "rank " << s.rank().value << ", place " << i << ", step " << step;
    }
  }
  EXPECT_EQ(step, steps);
  in.close();
}

TEST_P(ListedArrays, ArriveWholeInPartsAndTransposed) {
  Random random;
  for (int i = 0; i < 30; ++i) {
    const TakenPart taken(random);
    const bool is_listed = random.one_in(2);
    const Side source = few_ranks(random, taken.from, !is_listed);
    const Side sink = few_ranks(random, taken.to, is_listed, true);
    SCOPED_TRACE(to_string(source.layout[0]) + " to " + to_string(sink.layout[0]) + ", axes " +
                 testing::PrintToString(taken.axes) + ", from " +
                 testing::PrintToString(taken.from_origin) + ", to " +
                 testing::PrintToString(taken.to_origin) + ", extents " +
                 testing::PrintToString(taken.extents));
    std::vector<bool> offered(static_cast<std::size_t>(index_calc::testing::volume(taken.from)));
    for (const auto& numbers : source.numbers)
      for (const Index number : numbers)
        if (number >= 0) offered[static_cast<std::size_t>(number)] = true;
    const double beta = random.one_in(2) ? 0.5 : 0;
    World world(8192, GetParam());
    world.start("producer", source.ranks(), [&](Session& s) { produce(s, source); });
    world.start("consumer", sink.ranks(),
                [&](Session& s) { consume_part(s, sink, taken, offered, beta); });
    ASSERT_EQ(text_of(world.join()), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Over, ListedArrays,
                         testing::Values(World::Way::loopback, World::Way::local),
                         [](const auto& way) {
                           return way.param == World::Way::local ? "local" : "loopback";
                         });

Side of_points(const std::vector<Index>& shape, std::vector<std::vector<Index>> numbers) {
  Side side{.numbers = std::move(numbers)};
  for (const auto& points : side.numbers)
    side.layout.push_back(
        listed_layout(shape, side.ranks(), false, false, IndexList::of_points(shape, points)));
  return side;
}

TEST(ListedArraysAlone, NeedEachElementOnExactlyOneRank) {
  const std::vector<Index> shape{2, 4};
  const Side good = of_points(shape, {{0, 1, 2, 3}, {7, 6, 5, 4}});
  const Side lacks = of_points(shape, {{0, 1, 2}, {7, 6, 5, 4}});
  const Side twice = of_points(shape, {{0, 1, 2, 3}, {7, 6, 5, 4, 2}});
  const auto expect_refused = [&](const Side& source, const Side& sink, const std::string& why) {
    World world;
    std::atomic<int> refused = 0;
    const auto expect_error = [&](const std::function<void()>& call) {
      try {
        call();
        ADD_FAILURE() << "expected an error";
      } catch (const Error& e) {
        EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
        ++refused;
      }
    };
    world.start("producer", source.ranks(),
                [&](Session& s) { expect_error([&] { produce(s, source); }); });
    world.start("consumer", sink.ranks(), [&](Session& s) {
      expect_error([&] { consume(s, sink, std::vector<bool>(8, true)); });
    });
    EXPECT_EQ(text_of(world.join()), "");
    EXPECT_EQ(refused, 4);
  };
  expect_refused(lacks, good, "found element (0, 3) on none");
  expect_refused(good, twice, "found element (0, 2) on ranks 0 and 1");
}

TEST(ListedArraysAlone, AreAddedPartiallyToSumsOnlyWithBetaOne) {
  const std::vector<Index> shape{8};
  const std::vector<std::vector<Index>> points{{0, 2}, {4}};
  const auto expect = [&](double beta, const std::string& why) {
    World world;
    std::atomic<int> refused = 0, right = 0;
    const auto run = [&](const std::string& cause, const std::function<void()>& call) {
      try {
        call();
        ++right;
      } catch (const Error& e) {
        EXPECT_NE(std::string(e.what()).find(cause), std::string::npos) << e.what();
        ++refused;
      }
    };
    world.start("producer", 2, [&](Session& s) {
      const auto& mine = points[at(s.rank())];
      run("", [&] {
        OutStream out(s, "s", {});
        out.declare(
            {.name = "f",
             .type = core::ElementType::f64,
             .layout = listed_layout(shape, 2, true, false, IndexList::of_points(shape, mine))});
        const std::vector<double> values(mine.size(), 1.0);
        out.begin_step();
        out.put(0, std::as_bytes(std::span(values)));
        out.end_step();
        out.close();
      });
    });
    world.start("consumer", 2, [&](Session& s) {
      run(why, [&] {
        InStream in(s, "s");
        in.declare({.name = "f",
                    .type = core::ElementType::f64,
                    .layout = Layout::parse("shape=8 mesh=2 sum=0")},
                   {.beta = beta});
        std::vector<double> values(8, 5.0);
        EXPECT_TRUE(in.begin_step());
        in.get(0, std::as_writable_bytes(std::span(values)));
        in.end_step();
        for (Index i = 0; i < 8; ++i)  // the first layer gets the incoming elements
          EXPECT_EQ(values[static_cast<std::size_t>(i)],
                    s.rank() == Rank{0} && i % 2 == 0 && i < 6 ? 6.0 : 5.0);
        EXPECT_FALSE(in.begin_step());
        in.close();
      });
    });
    EXPECT_EQ(text_of(world.join()), "");
    EXPECT_EQ(refused, why.empty() ? 0 : 4);
    EXPECT_EQ(right, why.empty() ? 4 : 0);
  };
  expect(1.0, "");
  expect(0.0, "expected a producer that has every element, or beta 1");
}

TEST(ListedArraysAlone, SumsOfOpaqueElementsAreRefused) {
  World world;
  world.start("consumer", 2, [&](Session& s) {
    InStream in(s, "s");
    try {
      in.declare(
          {.name = "f", .type = core::opaque(16), .layout = Layout::parse("shape=8 mesh=2 sum=0")});
      ADD_FAILURE() << "expected an error";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Errc::unsupported);
      EXPECT_NE(std::string(e.what()).find("expected elements that can be added up"),
                std::string::npos)
          << e.what();
    }
  });
  EXPECT_EQ(text_of(world.join()), "");
}

/// The ranks of the producer list their points; a consumer with blocks joins while the stream runs.
TEST(ListedArraysAlone, ReachALateConsumer) {
  const std::vector<Index> shape{2, 4};
  const Side source = of_points(shape, {{0, 5, 2, 3}, {7, 6, 1, 4}});
  World world(8192, World::Way::local);
  std::atomic<bool> is_under_way = false, has_joined = false;
  world.start("producer", 2, [&](Session& s) {
    OutStream out(s, "s", {});
    out.declare(field_of(source, s.rank()));
    const auto& numbers = source.numbers[at(s.rank())];
    std::vector<std::int64_t> buffer(numbers.size());
    const auto continues = [&] {
      return s.run_on_root([&] { return core::Bytes(has_joined ? 1 : 0); }, s.deadline()).empty();
    };
    for (std::uint64_t step = 0; continues(); ++step) {
      for (std::size_t i = 0; i < buffer.size(); ++i) buffer[i] = value(numbers[i], step);
      out.begin_step();
      out.put(0, std::as_bytes(std::span(buffer)));
      out.end_step();
    }
    out.close();
  });
  const auto consume_blocks = [&](Session& s, const std::function<void()>& got) {
    InStream in(s, "s");
    in.declare({.name = "f",
                .type = core::ElementType::i64,
                .layout = Layout::parse("shape=2x4 grid=1x1")});
    std::vector<std::int64_t> buffer(8);
    while (in.begin_step()) {
      in.get(0, std::as_writable_bytes(std::span(buffer)));
      for (Index i = 0; i < 8; ++i)
        ASSERT_EQ(buffer[static_cast<std::size_t>(i)], value(i, in.step()));
      in.end_step();
      got();
    }
    in.close();
  };
  world.start("first", 1, [&](Session& s) { consume_blocks(s, [&] { is_under_way = true; }); });
  world.start("late", 1, [&](Session& s) {
    while (!is_under_way) std::this_thread::yield();
    consume_blocks(s, [&] { has_joined = true; });
  });
  EXPECT_EQ(text_of(world.join()), "");
  EXPECT_TRUE(has_joined);
}

/// Two groups produce halves of an array, of which the consumer's ranks list points.
TEST(ListedArraysAlone, ComeFromSeveralProducerGroups) {
  const std::vector<Index> shape{3, 4};
  const Side sink = of_points(shape, {{0, 11, 5, 2, 6, 9}, {7, 3, 1, 4, 10, 8}});
  World world(8192, World::Way::local);
  for (const Index first : {0, 2})
    world.start(first == 0 ? "west" : "east", 1, [&, first](Session& s) {
      OutStream out(s, "s", {});
      out.declare({.name = "f",
                   .type = core::ElementType::i64,
                   .layout = Layout::parse("shape=3x2 grid=1x1"),
                   .origin = {0, first},
                   .whole = shape});
      std::vector<std::int64_t> buffer(6);
      for (std::uint64_t step = 0; step < steps; ++step) {
        for (Index i = 0; i < 6; ++i)
          buffer[static_cast<std::size_t>(i)] = value(i / 2 * 4 + first + i % 2, step);
        out.begin_step();
        out.put(0, std::as_bytes(std::span(buffer)));
        out.end_step();
      }
      out.close();
    });
  world.start("consumer", 2, [&](Session& s) { consume(s, sink, std::vector<bool>(12, true)); });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(ListedArraysAlone, CannotBePartsOrComeFromText) {
  World world;
  world.start("group", 1, [](Session& s) {
    const std::vector<Index> shape{2, 2};
    const auto declare = [&](Layout layout, const FieldUpdate& update) {
      InStream in(s, "s");
      try {
        in.declare({.name = "f", .type = core::ElementType::i64, .layout = std::move(layout)},
                   update);
      } catch (const Error& e) {
        return std::string(e.what());
      }
      return std::string();
    };
    const auto has = [](const std::string& text, const std::string& part) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    };
    const std::vector<Index> points{3, 1, 0, 2};
    const Layout listed =
        listed_layout(shape, 1, false, false, IndexList::of_points(shape, points));
    EXPECT_EQ(declare(listed, {}), "");
    has(declare(listed, {.axes = {1, 1}}),
        "expected each of the 2 dimensions once, counted from 0");
    has(declare(listed, {.of_data = index_calc::Selection{{0, 0}, {1, 3}}}),
        "expected elements of the array's 2, found 3 elements beginning with 0");
    const proto::Field part{.name = "f",
                            .type = core::ElementType::i64,
                            .layout = listed,
                            .origin = {0, 0},
                            .whole = {4, 4}};
    OutStream out(s, "t", {});
    try {
      out.declare(part);
      ADD_FAILURE() << "expected an error";
    } catch (const Error& e) {
      has(e.what(), "whose ranks list what they own");
    }
    has(declare(Layout::parse(to_string(listed)), {}),
        "expected the list of this rank, found none");
  });
  EXPECT_EQ(text_of(world.join()), "");
}

}  // namespace
}  // namespace tremula::client
