// SPDX-License-Identifier: Apache-2.0
// Several producer groups own boxes of one array, and several consumer groups take the array or a part of
// it. Every rank is a thread with its own session; the server is real. Every element carries its global
// number and its step. tests/coupled/many_test.cpp tests separate jobs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "client/stream/describe.hpp"
#include "client/stream/in_stream.hpp"
#include "client/stream/out_stream.hpp"
#include "tests/client/world.hpp"

namespace tremula::client {
namespace {

using core::Index;
using index_calc::Layout;

constexpr Index rows = 12, columns = 20;

std::int64_t element(Index i, Index j, std::uint64_t step) {
  return 1000 * (i * columns + j) + static_cast<std::int64_t>(step);
}

/// A rank's piece of a box of the array, determined by the layout's own rule for owned elements.
struct Piece {
  Layout layout;
  Index row = 0, column = 0;  ///< where the box begins
  index_calc::LocalPart part;
  std::vector<std::int64_t> data;
  index_calc::ProcessGrid grid;
  Rank rank;

  Piece(const std::string& text, Index r, Index c, Rank me)
      : layout(Layout::parse(text)),
        row(r),
        column(c),
        part(local_part(layout, me)),
        data(static_cast<std::size_t>(part.allocated)),
        grid(layout),
        rank(me) {}
  /// Calls visit(value in data, global row, global column).
  template <class Visit>
  void for_each(Visit&& visit) {
    const auto coords = grid.coords_of(rank);
    if (!coords) return;
    for (Index i = 0; i < part.extent[0]; ++i)
      for (Index j = 0; j < part.extent[1]; ++j) {
        const Index at = part.first + i * part.stride[0] + j * part.stride[1];
        const auto global = [&](std::size_t d, Index local) {
          return index_calc::to_global(layout.grid()->dims[d], {(*coords)[d]}, {local}).value;
        };
        visit(data[static_cast<std::size_t>(at)], row + global(0, i), column + global(1, j));
      }
  }
  void fill(std::uint64_t step) {
    for_each([&](std::int64_t& value, Index i, Index j) { value = element(i, j, step); });
  }
  void check(std::uint64_t step) {
    int wrong = 0;
    for_each([&](std::int64_t value, Index i, Index j) { wrong += value != element(i, j, step); });
    EXPECT_EQ(wrong, 0) << "rank " << rank.value << ", step " << step << ", " << to_string(layout);
  }
  auto bytes() { return std::as_writable_bytes(std::span(data)); }
};

/// One producer group: a box of the array with its own layout.
struct Owner {
  std::string name;
  RankCount size;
  std::string layout;
  Index row, column;
};
const std::vector<Owner> three{
    {"west", 2, "shape=12x7 grid=2x1 block=2x7 store=column", 0, 0},
    {"north", 3, "shape=5x13 grid=1x3 block=5x2", 0, 7},
    {"south", 1, "shape=7x13 grid=1x1 ghost=1x1", 5, 7},
};

proto::Field field_of(const Owner& owner) {
  return {.name = "u",
          .type = core::ElementType::i64,
          .layout = Layout::parse(owner.layout),
          .origin = {owner.row, owner.column},
          .whole = {rows, columns}};
}

/// A function that every rank calls before it begins a step.
using BeforeStep = std::function<void(const Owner&, std::uint64_t)>;

void produce(
    Session& s, const Owner& owner, std::uint64_t steps, const OutConfig& config,
    const BeforeStep& before = [](const Owner&, std::uint64_t) {}) {
  OutStream out(s, "s", config);
  Piece piece(owner.layout, owner.row, owner.column, s.rank());
  out.declare(field_of(owner));
  for (std::uint64_t step = 0; step < steps; ++step) {
    before(owner, step);
    out.begin_step();
    piece.fill(step);
    out.put(0, piece.bytes());
    out.end_step();
  }
  out.close();
}

/// The consecutive steps that a consumer rank has taken.
struct Taken {
  std::uint64_t first = 0, count = 0;
};
Taken consume(
    Session& s, const std::string& layout, Index row = 0, Index column = 0,
    std::uint64_t at_most = ~0ull, const std::function<void(std::uint64_t)>& after = [](auto) {},
    std::optional<double> limit = {}) {
  InStream in(s, "s");
  Piece piece(layout, row, column, s.rank());
  proto::Field field{.name = "u", .type = core::ElementType::i64, .layout = piece.layout};
  if (shape(piece.layout) != std::vector<Index>{rows, columns}) field.origin = {row, column};
  in.declare(field);
  const auto begins = [&] {
    if (!limit) return in.begin_step();
    Begun begun = Begun::not_ready;
    while (begun == Begun::not_ready) begun = in.begin(core::Deadline::after(*limit));
    return begun == Begun::step;
  };
  Taken taken;
  while (taken.count < at_most && begins()) {
    if (taken.count == 0) taken.first = in.step();
    EXPECT_EQ(in.step(), taken.first + taken.count);
    std::ranges::fill(piece.data, -1);
    in.get(0, piece.bytes());
    piece.check(in.step());
    in.end_step();
    ++taken.count;
    after(taken.first + taken.count - 1);
  }
  in.close();
  return taken;
}

TEST(Parts, MakeOneArrayForConsumersOfAnyLayout) {
  for (const int queue_depth : {0, 1, 2})
    for (const bool proof : {false, true}) {
      SCOPED_TRACE(fmt::format("queue_depth {} proof {}", queue_depth, proof));
      World world(8192, World::Way::local);
      world.proof = proof;
      for (const Owner& owner : three)
        world.start(owner.name, owner.size, [&, queue_depth](Session& s) {
          produce(s, owner, 15, {.queue_depth = queue_depth, .wait_for_consumers = 3});
        });
      const auto take_all = [](const std::string& layout, Index row = 0, Index column = 0) {
        return [=](Session& s) {
          const Taken taken = consume(s, layout, row, column);
          EXPECT_EQ(taken.first, 0u);
          EXPECT_EQ(taken.count, 15u);
        };
      };
      world.start("whole", 2, take_all("shape=12x20 grid=2x1 block=3x20"));
      world.start("cyclic", 4, take_all("shape=12x20 grid=2x2 block=2x3 store=column"));
      world.start("box", 2, take_all("shape=6x9 grid=1x2", 3, 4));
      EXPECT_EQ(text_of(world.join()), "");
    }
}

TEST(Parts, AreTransformedLikeAWholeArray) {
  World world;
  for (const Owner& owner : three)
    world.start(owner.name, owner.size, [&](Session& s) { produce(s, owner, 3, {}); });
  world.start("transposed", 2, [](Session& s) {
    InStream in(s, "s");
    const auto layout = Layout::parse("shape=20x12 grid=2x1 block=3x12");
    in.declare({.name = "u", .type = core::ElementType::i64, .layout = layout},
               {.alpha = 2, .beta = 1, .axes = {1, 0}});
    Piece piece("shape=20x12 grid=2x1 block=3x12", 0, 0, s.rank());
    for (std::uint64_t step = 0; in.begin_step(); ++step) {
      std::ranges::fill(piece.data, 7);
      in.get(0, piece.bytes());
      piece.for_each([&](std::int64_t value, Index i, Index j) {
        EXPECT_EQ(value, 2 * element(j, i, step) + 7) << i << ' ' << j;
      });
      in.end_step();
    }
    in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(Parts, OverflowSpoilsNoOtherFieldOrStep) {
  World world;
  for (const Index origin : {0, 4})
    world.start(fmt::format("from{}", origin), 1, [=](Session& s) {
      OutStream out(s, "s", {});
      const auto field = [&](const std::string& name) {
        return proto::Field{.name = name,
                            .type = core::ElementType::i64,
                            .layout = Layout::parse("shape=4 grid=1"),
                            .origin = {origin},
                            .whole = {8}};
      };
      const int large = out.declare(field("large")), small = out.declare(field("small"));
      for (const std::int64_t value : {1000, 1}) {
        const std::vector<std::int64_t> values(4, value), ones(4, 1);
        out.begin_step();
        out.put(large, std::as_bytes(std::span(values)));
        out.put(small, std::as_bytes(std::span(ones)));
        out.end_step();
      }
      out.close();
    });
  world.start("viewer", 1, [](Session& s) {
    InStream in(s, "s");
    const auto declare = [&](const std::string& name) {
      return in.declare(
          {.name = name, .type = core::ElementType::i8, .layout = Layout::parse("shape=8 grid=1")});
    };
    const int large = declare("large"), small = declare("small");
    const auto get = [&](int field) {
      std::vector<std::int8_t> values(8);
      in.get(field, std::as_writable_bytes(std::span(values)));
      return values;
    };
    const std::vector<std::int8_t> ones(8, 1);
    ASSERT_TRUE(in.begin_step());
    EXPECT_THROW(get(large), Error);
    EXPECT_EQ(get(small), ones);
    EXPECT_THROW(get(large), Error);
    in.end_step();
    ASSERT_TRUE(in.begin_step());
    EXPECT_EQ(get(small), ones);
    EXPECT_EQ(get(large), ones);
    in.end_step();
    EXPECT_FALSE(in.begin_step());
    in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

// East is a step ahead of west when the late consumer joins. East waits for the first consumer, which waits
// for west, which waits for the late consumer unless that consumer lets steps pass, however short its
// calls are.
TEST(Parts, MeetAtOneStepForALateConsumer) {
  const std::vector<Owner> two{{"west", 2, "shape=12x8 grid=2x1", 0, 0},
                               {"east", 1, "shape=12x12 grid=1x1", 0, 8}};
  constexpr std::uint64_t meeting = 10, steps = 30;
  for (const auto& [queue_depth, limit] :
       std::initializer_list<std::pair<int, std::optional<double>>>{
           {1, {}}, {2, {}}, {0, {}}, {1, 0.05}, {0, 0.05}}) {
    SCOPED_TRACE(
        fmt::format("queue_depth {}, seconds of a call {}", queue_depth, limit.value_or(0)));
    World world(8192, World::Way::local);
    std::atomic<bool> is_east_ahead = false, is_late_there = false;
    const auto soon = [](const std::atomic<bool>& flag) {
      for (int i = 0; i < 5000 && !flag; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the next steps are under way
    };
    const std::uint64_t ahead = meeting + (queue_depth == 0 ? 0 : 1);
    const auto before = [&](const Owner& owner, std::uint64_t step) {
      const bool is_west = owner.name == "west";
      if (is_west && step == meeting) soon(is_late_there);
      if (!is_west && step == ahead) is_east_ahead = true;
    };
    for (const Owner& owner : two)
      world.start(owner.name, owner.size, [&, depth = queue_depth](Session& s) {
        produce(s, owner, steps, {.queue_depth = depth}, before);
      });
    world.start("first", 2,
                [&](Session& s) { EXPECT_EQ(consume(s, "shape=12x20 grid=2x1").count, steps); });
    std::atomic<std::uint64_t> first[2] = {};
    world.start("late", 2, [&, limit = limit](Session& s) {
      soon(is_east_ahead);
      is_late_there = true;
      const Taken taken = consume(
          s, "shape=12x20 grid=1x2", 0, 0, ~0ull, [](auto) {}, limit);
      EXPECT_GE(taken.first, meeting);
      EXPECT_EQ(taken.first + taken.count, steps);
      first[at(s.rank())] = taken.first;
    });
    EXPECT_EQ(text_of(world.join()), "");
    EXPECT_EQ(first[0], first[1]) << "all ranks must begin with the same step";
  }
}

// With a time limit, all ranks of a consumer get the same answer until they have the first step, no matter
// when each of them is admitted. They may make other collective calls in between.
TEST(Parts, AnswerRanksOfALateConsumerAlike) {
  const std::vector<Owner> two{{"west", 2, "shape=12x8 grid=2x1", 0, 0},
                               {"east", 1, "shape=12x12 grid=1x1", 0, 8}};
  World world(8192, World::Way::local);
  std::atomic<bool> is_under_way = false, is_late_done = false;
  for (const Owner& owner : two)
    world.start(owner.name, owner.size, [&](Session& s) {
      OutStream out(s, "s", {.queue_depth = 1});
      Piece piece(owner.layout, owner.row, owner.column, s.rank());
      out.declare(field_of(owner));
      const auto is_over = [&] {  // decided by rank 0
        const std::byte mine{is_late_done.load()};
        return s.group().allgather({mine}, s.deadline())[0][0] == std::byte{1};
      };
      for (std::uint64_t step = 0; !is_over(); ++step) {
        out.begin_step();
        piece.fill(step);
        out.put(0, piece.bytes());
        out.end_step();
        is_under_way = step > 2;
        std::this_thread::sleep_for(std::chrono::milliseconds(owner.name == "east" ? 30 : 1));
      }
    });
  world.start("first", 2, [&](Session& s) {
    try {
      consume(s, "shape=12x20 grid=2x1");
    } catch (const Error&) {  // its producers leave without an end, at different steps
    }
  });
  world.start("late", 2, [&](Session& s) {
    for (int i = 0; i < 20000 && !is_under_way; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    InStream in(s, "s");
    Piece piece("shape=12x20 grid=1x2", 0, 0, s.rank());
    in.declare({.name = "u", .type = core::ElementType::i64, .layout = piece.layout});
    std::vector<core::Bytes> have;  // for each rank, whether it has its first step
    for (bool has = false; std::ranges::find(have, core::Bytes{std::byte{1}}) == have.end() ||
                           std::ranges::find(have, core::Bytes{std::byte{0}}) != have.end();) {
      has = has || in.begin(core::Deadline::after(0.01 * (1 + s.rank().value))) == Begun::step;
      have = s.group().allgather({static_cast<std::byte>(has)}, s.deadline());
    }
    in.get(0, piece.bytes());
    piece.check(in.step());
    in.end_step();
    in.close();
    s.run_collectively([] {});  // both ranks are done before the producers leave
    is_late_done = true;
  });
  const std::string errors = text_of(world.join());
  EXPECT_EQ(errors.find("late."), std::string::npos) << errors;
}

// The consumer is linked to one of two producers when its server ends. The next server links it to the
// other producer as well.
TEST(Parts, AreAllLinkedAfterAServerRestart) {
  World world(8192, World::Way::local);
  world.step_timeout = 60;
  world.stop_server();
  world.start_server();
  std::atomic<bool> is_announced = false, is_linked = false, is_again = false;
  const auto soon = [](const std::atomic<bool>& flag) {
    for (int i = 0; i < 30000 && !flag; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(flag);
  };
  constexpr std::uint64_t steps = 4;
  constexpr double patience = 20;
  const Owner west{"west", 2, "shape=12x8 grid=2x1", 0, 0};
  const Owner east{"east", 1, "shape=12x12 grid=1x1", 0, 8};
  world.start(
      "west", 2,
      [&](Session& s) {
        produce(s, west, steps, {}, [&](const Owner&, std::uint64_t step) {
          if (step == 0) soon(is_announced);
          if (step == 1) is_linked = true;
        });
      },
      patience);
  world.start(
      "east", 1,
      [&](Session& s) {
        OutStream other(s, "other", {.wait_for_consumers = 0});
        other.declare({.name = "v",
                       .type = core::ElementType::i64,
                       .layout = Layout::parse("shape=1 grid=1")});
        produce(s, east, steps, {}, [&](const Owner&, std::uint64_t step) {
          if (step > 0) return;
          const std::int64_t value = 0;
          other.begin_step();  // announces both
          other.put(0, std::as_bytes(std::span(&value, 1)));
          other.end_step();
          is_announced = true;
          soon(is_again);
        });
        other.close();
      },
      patience);
  world.start(
      "viewer", 2, [&](Session& s) { EXPECT_EQ(consume(s, "shape=12x20 grid=2x1").count, steps); },
      patience);
  soon(is_linked);
  world.stop_server();
  world.start_server();
  is_again = true;
  EXPECT_EQ(text_of(world.join()), "");
}

// West waits for a step of the late consumer, which would put it only once it has a step of west. West
// puts no step before that.
TEST(Parts, GetDeadlockIfTheyWaitForALateConsumer) {
  World world(8192, World::Way::local);
  world.step_timeout = 300;  // far longer than this takes
  std::atomic<int> reported = 0;
  std::atomic<bool> is_under_way = false;
  const auto scalar = [] {
    return proto::Field{
        .name = "v", .type = core::ElementType::i64, .layout = Layout::parse("shape=1 grid=1")};
  };
  const std::vector<Owner> two{{"west", 1, "shape=12x8 grid=1x1", 0, 0},
                               {"east", 1, "shape=12x12 grid=1x1", 0, 8}};
  for (const Owner& owner : two)
    world.start(owner.name, owner.size, [&](Session& s) {
      produce(s, owner, 8, {.queue_depth = 4}, [&](const Owner& o, std::uint64_t step) {
        if (o.name != "west" || step != 3) return;
        InStream in(s, "t");
        in.declare(scalar());
        is_under_way = true;
        try {
          in.begin_step();
          ADD_FAILURE() << "expected an error";
        } catch (const Error& e) {
          EXPECT_EQ(e.code(), Errc::deadlock) << e.what();
          ++reported;
        }
        in.close();
      });
    });
  world.start("first", 1, [&](Session& s) { consume(s, "shape=12x20 grid=1x1"); });
  world.start("late", 1, [&](Session& s) {
    for (int i = 0; i < 20000 && !is_under_way; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    OutStream out(s, "t", {.wait_for_consumers = 0});
    out.declare(scalar());
    InStream in(s, "s");
    in.declare({.name = "u",
                .type = core::ElementType::i64,
                .layout = Layout::parse("shape=12x20 grid=1x1")});
    try {
      in.begin_step();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Errc::deadlock) << e.what();
      ++reported;
    }
    for (int i = 0; i < 5000 && reported < 2; ++i)  // else west finds the end of the stream instead
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    in.close();
    out.close();
  });
  world.join();
  EXPECT_EQ(reported, 2);
}

/// A late consumer, and the reason why one of its producers does not admit it.
struct BadFirstStep {
  RankCount late;    // ranks of the late consumer
  bool is_east_far;  // east makes no call that links the consumer
  friend std::ostream& operator<<(std::ostream& out, const BadFirstStep& c) {
    return out << c.late << " ranks, east " << (c.is_east_far ? "is not linked" : "has not begun");
  }
};
class UnequalFirstStep : public ::testing::TestWithParam<BadFirstStep> {};

// The ranks of west set different times for the step with which they admit the consumer. Only the consumer's
// last rank gets parts from several ranks of west.
TEST_P(UnequalFirstStep, EndsTheWaitForOtherGroupsOnAllRanks) {
  const auto [late_ranks, is_east_far] = GetParam();
  World world(8192, World::Way::local);
  world.step_timeout = 300;  // far longer than this takes
  std::atomic<bool> has_east_put = false, is_late_there = false;
  std::atomic<int> reported = 0;
  const auto await = [](const auto& condition) {
    for (int i = 0; i < 60000 && !condition(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  const Owner west{"west", 2, "shape=12x8 grid=2x1", 0, 12},
      east{"east", 1, "shape=12x12 grid=1x1", 0, 0};
  world.start(west.name, west.size, [&](Session& s) {
    OutStream out(s, "s", {.queue_depth = 1, .wait_for_consumers = 1});
    Piece piece(west.layout, west.row, west.column, s.rank());
    out.declare(field_of(west));
    out.set_attribute(of_stream, proto::time_unit, std::vector<std::string>{"s"});
    out.begin_step();
    out.set_time(s.rank().value);
    piece.fill(0);
    out.put(0, piece.bytes());
    out.end_step();
    await([&] { return reported == late_ranks; });
  });
  world.start(east.name, east.size, [&](Session& s) {
    OutStream out(s, "s", {.queue_depth = 1, .wait_for_consumers = 0});
    Piece piece(east.layout, east.row, east.column, s.rank());
    out.declare(field_of(east));
    out.begin_step();
    out.put(0, piece.bytes());
    out.end_step();
    has_east_put = true;
    await([&] { return is_late_there || is_east_far; });
    InStream other(s, "t");  // its calls link the consumer as well
    other.declare(
        {.name = "v", .type = core::ElementType::i64, .layout = Layout::parse("shape=1 grid=1")});
    await([&] {
      if (!is_east_far) other.begin(core::Deadline::after(0.1));
      return reported == late_ranks;
    });
  });
  world.start("late", late_ranks, [&](Session& s) {
    await([&] { return has_east_put.load(); });
    InStream in(s, "s");
    in.declare({.name = "u",
                .type = core::ElementType::i64,
                .layout = Layout::parse(fmt::format("shape=12x20 grid=1x{}", late_ranks))});
    is_late_there = true;
    try {
      in.begin_step();
      ADD_FAILURE() << "expected an error";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Errc::mismatch) << e.what();
      EXPECT_NE(std::string(e.what()).find("producer group 'west': step 0: expected every rank"),
                std::string::npos)
          << e.what();
    }
    ++reported;
  });
  world.join();
  EXPECT_EQ(reported, late_ranks);
}

INSTANTIATE_TEST_SUITE_P(Parts, UnequalFirstStep,
                         ::testing::Values(BadFirstStep{1, false}, BadFirstStep{2, false},
                                           BadFirstStep{1, true}, BadFirstStep{2, true}));

// The consumer waits for longer than a step may take before its producers join.
TEST(Parts, HaveTheFullTimeToAdmitAConsumer) {
  World world(8192, World::Way::local);
  world.step_timeout_of["consumer.0"] = 1;
  const Owner west{"west", 1, "shape=12x8 grid=1x1", 0, 0},
      east{"east", 1, "shape=12x12 grid=1x1", 0, 8};
  std::atomic<bool> has_east_put = false, has_timed_out = false;
  core::Deadline::Clock::time_point came;
  core::Deadline::Seconds given{};
  const auto await = [](const std::atomic<bool>& flag) {
    for (int i = 0; i < 60000 && !flag; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  world.start(
      "consumer", 1,
      [&](Session& s) {
        InStream in(s, "s");
        in.declare({.name = "u",
                    .type = core::ElementType::i64,
                    .layout = Layout::parse("shape=12x20 grid=1x1")});
        try {
          in.begin_step();
          ADD_FAILURE() << "expected an error";
        } catch (const Error& e) {
          EXPECT_EQ(e.code(), Errc::timed_out) << e.what();
          EXPECT_NE(std::string(e.what()).find("group 'east' is linked, but has not begun"),
                    std::string::npos)
              << e.what();
        }
        given = core::Deadline::Clock::now() - came;
        has_timed_out = true;
      },
      60);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  came = core::Deadline::Clock::now();
  world.start(east.name, east.size, [&](Session& s) {
    OutStream out(s, "s", {.queue_depth = 1, .wait_for_consumers = 0});
    Piece piece(east.layout, east.row, east.column, s.rank());
    out.declare(field_of(east));
    out.begin_step();
    out.put(0, piece.bytes());
    out.end_step();
    has_east_put = true;
    InStream other(s, "t");  // its calls link the consumer as well
    other.declare(
        {.name = "v", .type = core::ElementType::i64, .layout = Layout::parse("shape=1 grid=1")});
    while (!has_timed_out) other.begin(core::Deadline::after(0.1));
  });
  world.start(west.name, west.size, [&](Session& s) {
    await(has_east_put);
    OutStream out(s, "s", {.queue_depth = 1, .wait_for_consumers = 1});
    Piece piece(west.layout, west.row, west.column, s.rank());
    out.declare(field_of(west));
    out.begin_step();
    out.put(0, piece.bytes());
    out.end_step();
    await(has_timed_out);
  });
  EXPECT_EQ(text_of(world.join()), "");
  EXPECT_GE(given.count(), 1);
}

// Each producer begins when it has one consumer. If producers admitted no consumer after their first step,
// two consumers that reached different producers first would wait for each other forever.
TEST(Parts, AdmitAConsumerAfterTheirFirstStep) {
  for (int trial = 0; trial < 5; ++trial) {
    World world(8192, World::Way::local);
    for (const Owner& owner : three)
      world.start(owner.name, owner.size,
                  [&](Session& s) { produce(s, owner, 200, {.queue_depth = 1}); });
    for (const char* const name : {"one", "two", "three"})
      world.start(name, 2, [](Session& s) {
        const Taken taken = consume(s, "shape=12x20 grid=2x1");
        EXPECT_EQ(taken.first + taken.count, 200u);
      });
    EXPECT_EQ(text_of(world.join()), "");
  }
}

TEST(Parts, LoseNothingWhenAConsumerLeaves) {
  World world;
  for (const Owner& owner : three)
    world.start(owner.name, owner.size,
                [&](Session& s) { produce(s, owner, 40, {.wait_for_consumers = 2}); });
  world.start("stays", 2,
              [](Session& s) { EXPECT_EQ(consume(s, "shape=12x20 grid=2x1").count, 40u); });
  world.start("leaves", 3, [](Session& s) {
    EXPECT_EQ(consume(s, "shape=12x20 grid=1x3", 0, 0, 10).count, 10u);
  });
  EXPECT_EQ(text_of(world.join()).find("leaves."), std::string::npos);
}

// East promises step 0 and sends step 5.
TEST(Parts, AreNotTakenFromDifferentSteps) {
  World world;
  const std::vector<Owner> two{{"west", 2, "shape=12x8 grid=2x1", 0, 0},
                               {"east", 1, "shape=12x12 grid=1x1", 0, 8}};
  for (const Owner& owner : two)
    world.start(owner.name, owner.size, [&](Session& s) {
      OutStream out(s, "s", {});
      Piece piece(owner.layout, owner.row, owner.column, s.rank());
      out.declare(field_of(owner));
      try {
        out.begin_step();
        if (owner.name == "east") out.number_step(5);
        piece.fill(0);
        out.put(0, piece.bytes());
        out.end_step();
        out.close();
      } catch (const Error& error) {  // its only consumer has gone
        EXPECT_EQ(error.code(), Errc::peer_lost) << error.what();
      }
    });
  world.start("viewer", 1, [](Session& s) {
    try {
      consume(s, "shape=12x20 grid=1x1");
      ADD_FAILURE() << "expected an error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::mismatch) << error.what();
      EXPECT_NE(std::string(error.what()).find("found step 5 of group 'east'"), std::string::npos)
          << error.what();
    }
  });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(Parts, ReportAnEarlyEndAfterTheLastWholeStep) {
  World world;
  for (const Owner& owner : three)
    world.start(owner.name, owner.size, [&](Session& s) {
      try {
        produce(s, owner, owner.name == "north" ? 5 : 8, {});
      } catch (const Error& error) {  // its only consumer has gone
        EXPECT_NE(owner.name, "north");
        EXPECT_EQ(error.code(), Errc::peer_lost) << error.what();
      }
    });
  world.start("viewer", 2, [](Session& s) {
    std::uint64_t last = 0;
    try {
      consume(s, "shape=12x20 grid=2x1", 0, 0, ~0ull, [&](std::uint64_t step) { last = step; });
      ADD_FAILURE() << "expected an error";
    } catch (const Error& error) {
      const std::string text = error.what();
      // One rank may learn of it from the other.
      EXPECT_NE(text.find("step 5"), std::string::npos) << text;
      EXPECT_EQ(last, 4u);
    }
  });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(Parts, EndTheStreamForConsumersOfALostOne) {
  World world;
  std::atomic<int> lost = 0;
  for (const Owner& owner : three)
    world.start(owner.name, owner.size, [&](Session& s) {
      OutStream out(s, "s", {.wait_for_consumers = 1});
      Piece piece(owner.layout, owner.row, owner.column, s.rank());
      out.declare(field_of(owner));
      for (std::uint64_t step = 0; step < 20; ++step) {
        if (owner.name == "south" && step == 6) return;  // without closing it
        try {
          out.begin_step();
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), Errc::peer_lost);
          return;
        }
        piece.fill(step);
        out.put(0, piece.bytes());
        out.end_step();
      }
    });
  world.start("viewer", 2, [&](Session& s) {
    std::uint64_t last = 0;
    try {
      consume(s, "shape=12x20 grid=2x1", 0, 0, ~0ull, [&](std::uint64_t step) { last = step; });
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::peer_lost);
      EXPECT_NE(std::string(error.what()).find("'south'"), std::string::npos) << error.what();
      EXPECT_LE(last, 5u);
      ++lost;
    }
  });
  EXPECT_EQ(text_of(world.join()), "");
  EXPECT_EQ(lost, 2);
}

TEST(Parts, AreNamedIfTheyOverlapOrLeaveAGap) {
  {
    World world;
    std::atomic<int> refused = 0;
    for (const Owner& owner : {three[0], Owner{"other", 1, "shape=12x14 grid=1x1", 0, 6}})
      world.start(
          owner.name, owner.size,
          [&, owner](Session& s) {
            try {
              produce(s, owner, 1, {});
            } catch (const Error& error) {
              const std::string text = error.what();
              if (error.code() == Errc::timed_out) return;  // the other group found no consumer
              EXPECT_EQ(error.code(), Errc::mismatch);
              EXPECT_NE(text.find("[0, 12) x [0, 7)"), std::string::npos) << text;
              EXPECT_NE(text.find("[0, 12) x [6, 20)"), std::string::npos) << text;
              ++refused;
            }
          },
          3);
    EXPECT_EQ(text_of(world.join()), "");
    EXPECT_GT(refused, 0);
  }
  World world;
  const auto expect_gap = [](const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.code(), Errc::timed_out) << text;
    EXPECT_NE(text.find("missing [5, 12) x [7, 20)"), std::string::npos) << text;
  };
  world.start(
      three[1].name, three[1].size,  // stays longer than the others
      [&](Session& s) { EXPECT_THROW(produce(s, three[1], 1, {}), Error); }, 5);
  world.start(
      three[0].name, three[0].size,
      [&](Session& s) {
        try {
          produce(s, three[0], 1, {});
          ADD_FAILURE() << "expected an error";
        } catch (const Error& error) {
          expect_gap(error);
        }
      },
      2.5);
  world.start(
      "viewer", 1,
      [&](Session& s) {
        EXPECT_THROW(describe(s, "s", core::Deadline::after(0.1)), Error);
        try {
          consume(s, "shape=12x20 grid=1x1");
          ADD_FAILURE() << "expected an error";
        } catch (const Error& error) {
          expect_gap(error);
        }
      },
      1.5);
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(Parts, AreDescribedTogether) {
  World world;
  for (const Owner& owner : three)
    world.start(owner.name, owner.size, [&](Session& s) { produce(s, owner, 2, {}); });
  world.start("viewer", 1, [](Session& s) {
    const auto found = describe(s, "s", core::Deadline::after(5));
    EXPECT_EQ(found.ranks, 6);
    for (const Owner& owner : three)
      EXPECT_NE(found.producer.find(owner.name), std::string::npos) << found.producer;
    EXPECT_EQ(shape(found.fields.at(0).layout), (std::vector<Index>{rows, columns}));
    ASSERT_EQ(found.parts.size(), three.size());
    for (const Owner& owner : three) {
      const auto part = std::ranges::find(found.parts, owner.name, &Description::Part::group);
      ASSERT_NE(part, found.parts.end()) << owner.name;
      ASSERT_EQ(part->fields.size(), 1u);
      EXPECT_EQ(part->fields[0].origin, (std::vector<Index>{owner.row, owner.column}));
      EXPECT_EQ(shape(part->fields[0].layout), shape(Layout::parse(owner.layout)));
    }
    EXPECT_EQ(consume(s, "shape=12x20 grid=1x1").count, 2u);
  });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(Parts, AreNotRelabeled) {
  World world;
  for (const Owner& owner : three)
    world.start(
        owner.name, owner.size, [&](Session& s) { produce(s, owner, 1, {}); }, 2);
  world.start("viewer", 2, [](Session& s) {
    InStream in(s, "s");
    in.declare({.name = "u",
                .type = core::ElementType::i64,
                .layout = Layout::parse("shape=12x20 grid=2x1")});
    try {
      in.relabel();
      ADD_FAILURE() << "expected an error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("one producer group"), std::string::npos)
          << error.what();
    }
  });
  world.join();
}

}  // namespace
}  // namespace tremula::client
