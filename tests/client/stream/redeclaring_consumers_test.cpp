// SPDX-License-Identifier: Apache-2.0
// Streams whose consumers, and in some cases their producer, redeclare their layouts between steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <iostream>
#include <random>
#include <thread>

#include "tests/client/stream/redeclaring.hpp"

namespace tremula::client {
namespace {

/// A producer that puts steps until is_over() is true, changing to the next of its layouts every third step.
struct Producing {
  std::vector<Side> sides;
  OutConfig config{};
  bool polls = false;
  const Side& at(std::uint64_t step) const { return sides[step / 3 % sides.size()]; }

  void run(Session& s, const std::function<bool()>& is_over) const {
    OutStream out(s, "s", config);
    out.declare(field_of(sides[0], s.rank()));
    const auto continues = [&] {
      return s.run_on_root([&] { return core::Bytes(is_over() ? 1 : 0); }, s.deadline()).empty();
    };
    for (std::uint64_t step = 0; continues(); ++step) {
      const Side& side = at(step);
      if (step > 0 && sides.size() > 1 && step % 3 == 0) redeclare(out, side, s.rank());
      if (step > 0)
        while (polls && !out.begin_step_until(core::Deadline::after(0.001))) {
        }
      put_step(out, side, s.rank(), step, !polls || step == 0);
    }
    out.close();
  }
};

/// Runs a consumer that requests its next layout after every `pause` steps and takes all steps.
/// @param holds  called once on rank 0, when the last layout has taken effect
void consume(Session& s, const std::vector<Side>& sides, std::uint64_t pause,
             const Producing& producer, const InConfig& config, Index volume,
             const std::function<void()>& holds) {
  InStream in(s, "s", config);
  in.declare(field_of(sides[0], s.rank()));
  std::size_t asked = 0;
  bool is_held = false;
  for (std::uint64_t steps = 0;; ++steps) {
    for (; steps > 0 && asked + 1 < sides.size() && (asked + 1) * pause <= steps;)
      redeclare(in, sides[++asked], s.rank());
    const auto begun = in.begin(std::nullopt);
    if (begun == Begun::end_of_stream) break;
    ASSERT_EQ(begun, Begun::step);
    const Side& side = sides.at(in.redeclarations());
    EXPECT_EQ(to_string(in.layout(0)), to_string(side.layout[at(s.rank())]));
    take_step(in, side, s.rank(), [&] { return offered_by(producer.at(in.step()), volume); });
    if (in.redeclarations() + 1 == sides.size() && s.rank() == Rank{0} &&
        !std::exchange(is_held, true))
      holds();
  }
  EXPECT_TRUE(is_held || s.rank() != Rank{0});
  in.close();
}

class RedeclaringConsumers : public testing::TestWithParam<World::Way> {};

TEST_P(RedeclaringConsumers, AnyLayoutsOfBothSidesArriveWhole) {
  Random random;
  for (int i = 0; i < 8; ++i) {
    const auto shape = index_calc::testing::random_shape(random);
    const Index volume = index_calc::testing::volume(shape);
    const auto some_sides = [&] {
      const auto ranks = static_cast<RankCount>(random.in(1, 3));
      std::vector<Side> sides;
      for (Index left = random.in(1, 3); left > 0; --left)
        sides.push_back(random_side_of(random, shape, ranks));
      return sides;
    };
    std::vector<std::vector<Side>> consumers;
    for (Index left = random.in(1, 2); left > 0; --left) consumers.push_back(some_sides());
    const Producing producer{.sides = some_sides(),
                             .config = {.queue_depth = static_cast<int>(random.in(0, 3)),
                                        .wait_for_consumers = static_cast<int>(consumers.size())},
                             .polls = random.one_in(3)};
    World world(8192, GetParam());
    world.proof = random.one_in(2);
    std::atomic<std::size_t> there = 0;
    world.start("producer", producer.sides[0].ranks(),
                [&](Session& s) { producer.run(s, [&] { return there == consumers.size(); }); });
    for (std::size_t c = 0; c < consumers.size(); ++c)
      world.start("consumer" + std::to_string(c), consumers[c][0].ranks(),
                  [&, c, pause = static_cast<std::uint64_t>(random.in(1, 3))](Session& s) {
                    consume(s, consumers[c], pause, producer,
                            {.restart_timeout = c == 1 ? 5.0 : 0.0}, volume, [&] { ++there; });
                  });
    ASSERT_EQ(text_of(world.join()), "");
    EXPECT_EQ(there, consumers.size());
  }
}

TEST_P(RedeclaringConsumers, DroppedAndSharedStepsKeepTheirLayouts) {
  Random random;
  const std::vector<Index> shape{5, 4};
  for (const auto& [when_full, steps] :
       {std::pair(WhenFull::drop_newest, Steps::every),
        std::pair(WhenFull::drop_oldest, Steps::every), std::pair(WhenFull::block, Steps::latest),
        std::pair(WhenFull::block, Steps::share)}) {
    const Producing producer{
        .sides = {random_side_of(random, shape, 2)},
        .config = {.when_full = when_full, .wait_for_consumers = 2, .keep_steps = 2}};
    std::vector<Side> sides;
    for (int i = 0; i < 3; ++i) sides.push_back(random_side_of(random, shape, 2));
    World world(8192, GetParam());
    std::atomic<int> there = 0;
    world.start("producer", 2, [&](Session& s) { producer.run(s, [&] { return there == 2; }); });
    for (const std::string name : {"a", "b"})
      world.start(name, 2, [&](Session& s) {
        consume(s, sides, 2, producer, {.steps = steps}, 20, [&] { ++there; });
      });
    ASSERT_EQ(text_of(world.join()), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Over, RedeclaringConsumers,
                         testing::Values(World::Way::loopback, World::Way::local),
                         [](const auto& way) {
                           return way.param == World::Way::local ? "local" : "loopback";
                         });

const Side rows = of_text("shape=4x4 grid=2x1"), columns = of_text("shape=4x4 grid=1x2");

/// Both groups put first, and both redeclare their layouts after every second step.
TEST(RedeclaringConsumersAlone, TwoGroupsMayRedeclareAtOnce) {
  World world(8192, World::Way::local);
  const auto run = [&](Session& s, const std::string& mine, const std::string& theirs) {
    OutStream out(s, mine, {.progress = Progress::thread});
    out.declare(field_of(rows, s.rank()));
    InStream in(s, theirs);
    in.declare(field_of(rows, s.rank()));
    const std::vector<bool> all(16, true);
    for (std::uint64_t step = 0; step < 60; ++step) {
      put_step(out, rows, s.rank(), step);
      ASSERT_TRUE(in.begin_step());
      take_step(in, in.redeclarations() % 2 == 0 ? rows : columns, s.rank(), [&] { return all; });
      if (step % 2 == 0) redeclare(in, step % 4 == 0 ? columns : rows, s.rank());
    }
    out.close();
    while (in.begin_step()) in.end_step();
    in.close();
    EXPECT_GT(in.redeclarations(), 5u);
  };
  world.start("one", 2, [&](Session& s) { run(s, "a", "b"); });
  world.start("other", 2, [&](Session& s) { run(s, "b", "a"); });
  EXPECT_EQ(text_of(world.join()), "");
}

/// A redeclaration for a stream that has ended delays no other stream.
TEST(RedeclaringConsumersAlone, EndedStreamDelaysNoOther) {
  for (const auto& [first, second] : {std::pair("one", "two"), std::pair("two", "one")}) {
    World world(8192, World::Way::local);
    std::atomic<bool> holds = false;
    const std::vector<bool> all(16, true);
    world.start(first, 2, [&](Session& s) {
      OutStream out(s, "goes on", {.progress = Progress::thread});
      out.declare(field_of(rows, s.rank()));
      InStream in(s, "ends");
      in.declare(field_of(rows, s.rank()));
      put_step(out, rows, s.rank(), 0);
      ASSERT_TRUE(in.begin_step());
      take_step(in, rows, s.rank(), [&] { return all; });
      redeclare(in, columns, s.rank());
      EXPECT_FALSE(in.begin_step());
      const auto is_over = [&] { return core::Bytes(holds ? 1 : 0); };
      for (std::uint64_t step = 1; s.run_on_root(is_over, s.deadline()).empty(); ++step)
        put_step(out, rows, s.rank(), step);
      out.close();
      in.close();
    });
    world.start(second, 2, [&](Session& s) {
      OutStream out(s, "ends", {.progress = Progress::thread});
      out.declare(field_of(rows, s.rank()));
      InStream in(s, "goes on");
      in.declare(field_of(rows, s.rank()));
      put_step(out, rows, s.rank(), 0);
      ASSERT_TRUE(in.begin_step());
      take_step(in, rows, s.rank(), [&] { return all; });
      out.close();
      redeclare(in, columns, s.rank());
      while (in.begin_step()) {
        if (in.redeclarations() == 1) holds = true;
        take_step(in, in.redeclarations() == 1 ? columns : rows, s.rank(), [&] { return all; });
      }
      in.close();
    });
    EXPECT_EQ(text_of(world.join()), "");
    EXPECT_TRUE(holds);
  }
}

// The loss reaches each rank at a different point of the call, which consists of several agreements.
TEST(RedeclaringConsumersAlone, NextStepReportsALostProducer) {
  Random random;
  for (int round = 0; round < 30; ++round) {
    World world(8192, World::Way::local);
    std::atomic<int> taken = 0;
    world.start("producer", 2, [&](Session& s) {
      OutStream out(s, "s", {.queue_depth = 1});
      out.declare(field_of(rows, s.rank()));
      put_step(out, rows, s.rank(), 0);
      while (taken < 2) std::this_thread::yield();
    });
    const Rank knowing{round % 2};
    const Index turns = random.in(0, 400);
    world.start("consumer", 2, [&](Session& s) {
      InStream in(s, "s");
      const Side whole = of_text("shape=4x4 grid=2x1");
      in.declare(field_of(whole, s.rank()));
      const std::vector<bool> all(16, true);
      EXPECT_TRUE(in.begin_step());
      take_step(in, whole, s.rank(), [&] { return all; });
      ++taken;
      if (s.rank() == knowing)
        while (!s.control().link_end(1) && !s.deadline().expired()) std::this_thread::yield();
      else
        for (Index n = 0; n < turns; ++n) std::this_thread::yield();
      redeclare(in, whole, s.rank());
      std::string text;
      try {
        in.begin_step();
      } catch (const Error& e) {
        text = e.what();
      }
      EXPECT_NE(text.find("producer"), std::string::npos) << text;
    });
    EXPECT_EQ(text_of(world.join()), "");
  }
}

TEST(RedeclaringConsumersAlone, ConsumerMayLeaveInstead) {
  World world(8192, World::Way::local);
  std::atomic<bool> has_left = false;
  const Producing producer{.sides = {rows}};
  world.start("producer", 2, [&](Session& s) { producer.run(s, [&] { return has_left.load(); }); });
  world.start("stays", 1, [&](Session& s) {
    consume(s, {of_text("shape=4x4 grid=1x1")}, 1, producer, {}, 16, [] {});
  });
  world.start("leaves", 2, [&](Session& s) {
    InStream in(s, "s");
    in.declare(field_of(rows, s.rank()));
    EXPECT_TRUE(in.begin_step());
    in.end_step();
    redeclare(in, columns, s.rank());
    in.close();
    s.run_collectively([] {});
    has_left = true;
  });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(RedeclaringConsumersAlone, RefusalLeavesTheStreamUnchanged) {
  World world;
  std::atomic<bool> is_over = false;
  const Producing producer{.sides = {rows}};
  world.start("producer", 2, [&](Session& s) { producer.run(s, [&] { return is_over.load(); }); });
  world.start("consumer", 2, [&](Session& s) {
    InStream in(s, "s");
    in.declare(field_of(rows, s.rank()));
    const auto expect = [&](const std::string& layout, const std::string& part) {
      const std::pair<int, Layout> again{0, Layout::parse(layout)};
      std::string text;
      try {
        in.redeclare(std::span(&again, 1));
      } catch (const Error& e) {
        text = e.what();
      }
      EXPECT_NE(text.find(part), std::string::npos) << text;
    };
    const std::vector<bool> all(16, true);
    expect("shape=4x4 grid=1x2", "before the first step: declare the field with that layout");
    EXPECT_TRUE(in.begin_step());
    expect("shape=4x4 grid=1x2", "expected redeclare between two steps");
    take_step(in, rows, s.rank(), [&] { return all; });
    expect("shape=4x5 grid=1x2", "expected a layout of the same shape");
    expect("shape=4x4 grid=3x1", "3");
    const std::string twice = complaint_of_repeated_field(in);
    EXPECT_NE(twice.find("expected each field once; found 'f' twice"), std::string::npos) << twice;
    expect(s.rank() == Rank{0} ? "shape=4x4 grid=1x2" : "shape=4x4 grid=2x1",
           "expected every rank of group 'consumer' to declare the same fields");
    EXPECT_TRUE(in.begin_step());
    EXPECT_EQ(in.redeclarations(), 0u);
    take_step(in, rows, s.rank(), [&] { return all; });
    is_over = true;
    while (in.begin_step()) take_step(in, rows, s.rank(), [&] { return all; });
    expect("shape=4x4 grid=1x2", "after the end of the stream");
    in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(RedeclaringConsumersAlone, IsRefusedIfStepsAreRequestedByTime) {
  World world;
  world.start("producer", 1, [&](Session& s) {
    OutStream out(s, "s", {.queue_depth = 3});
    out.declare(field_of(of_text("shape=4x4 grid=1x1"), Rank{0}));
    out.set_attribute(of_stream, proto::time_unit, std::vector<std::string>{"s"});
    const std::vector<std::int64_t> buffer(16);
    for (std::int64_t step = 0; step < 3; ++step) {
      out.begin_step();
      out.set_time(step);
      out.put(0, std::as_bytes(std::span(buffer)));
      out.end_step();
    }
    out.close();
  });
  world.start("consumer", 1, [&](Session& s) {
    const Side side = of_text("shape=4x4 grid=1x1");
    InStream in(s, "s");
    in.declare(field_of(side, Rank{0}));
    EXPECT_EQ(in.begin_step_by(Needed::at, 0, ""), Begun::step);
    in.end_step();
    try {
      redeclare(in, side, Rank{0});
      ADD_FAILURE();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Errc::unsupported) << e.what();
    }
    while (in.begin_step()) in.end_step();
    in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

/// The producer has not yet applied the redeclaration when the server dies.
TEST(RedeclaringConsumersAlone, HoldsAfterAServerRestart) {
  World world(8192, World::Way::local);
  world.stop_server();
  world.start_server();  // with a new number: state of the first server is not carried over
  std::atomic<bool> has_asked = false, is_again = false, holds = false;
  const Producing producer{.sides = {rows}};
  const auto is_soon = [](const std::atomic<bool>& what) {
    const auto until = core::Deadline::after(20);
    while (!what && !until.expired()) std::this_thread::yield();
    EXPECT_TRUE(what);
  };
  world.start("producer", 2, [&](Session& s) {
    std::uint64_t looks = 0;
    producer.run(s, [&] {
      if (++looks == 2) is_soon(is_again);
      return holds.load();
    });
  });
  world.start("consumer", 2, [&](Session& s) {
    InStream in(s, "s");
    in.declare(field_of(rows, s.rank()));
    const std::vector<bool> all(16, true);
    for (std::uint64_t step = 0; in.begin_step(); ++step) {
      take_step(in, in.redeclarations() == 0 ? rows : columns, s.rank(), [&] { return all; });
      if (step == 0) {
        redeclare(in, columns, s.rank());
        if (s.rank() == Rank{0}) has_asked = true;
      }
      if (in.redeclarations() == 1) holds = true;
    }
    in.close();
  });
  is_soon(has_asked);
  world.stop_server();
  world.start_server();
  is_again = true;
  EXPECT_EQ(text_of(world.join()), "");
  EXPECT_TRUE(holds);
}

/// Servers die in the middle of redeclarations by both sides; no step, redeclaration or link is
/// lost.
TEST(RedeclaringConsumersAlone, ContinuesWhileServersDie) {
  World world(8192, World::Way::local);
  world.step_timeout = 60;
  world.stop_server();
  world.start_server();
  constexpr RankCount ranks = 2;
  constexpr int servers = 25;
  std::atomic<bool> is_over = false;
  constexpr double patience = 120;  // with a server that is gone for most of the time
  std::atomic<int> linked = 0, ended = 0;
  std::atomic<std::uint64_t> taken = 0;  // steps
  std::atomic<std::uint64_t> redeclared = 0;
  const auto seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  // Redeclares, or returns false if it is refused because the other side has not returned yet.
  const auto is_accepted = [](auto& stream, const Side& side, Rank rank) {
    try {
      redeclare(stream, side, rank);
      return true;
    } catch (const Error& e) {
      if (e.code() != Errc::refused) throw;
      EXPECT_NE(std::string(e.what()).find("try again in a moment"), std::string::npos) << e.what();
      return false;
    }
  };
  world.start(
      "producer", ranks,
      [&](Session& s) {
        OutStream out(s, "s", {.queue_depth = 2});
        out.declare(field_of(rows, s.rank()));
        const Side* side = &rows;
        for (std::uint64_t step = 0;; ++step) {
          if (!s.run_on_root([&] { return core::Bytes(is_over ? 1 : 0); }, s.deadline()).empty())
            break;
          put_step(out, *side, s.rank(), step);
          const Side* const next = side == &rows ? &columns : &rows;
          if (step % 3 == 2 && is_accepted(out, *next, s.rank())) side = next;
        }
        out.close();
        ++ended;
      },
      patience);
  world.start(
      "consumer", ranks,
      [&](Session& s) {
        InStream in(s, "s");
        in.declare(field_of(rows, s.rank()));
        const std::vector<bool> all(16, true);
        std::uint64_t asked = 0, steps = 0;
        const auto side_of = [](std::uint64_t number) -> const Side& {
          return number % 2 == 0 ? rows : columns;
        };
        for (; in.begin_step(); ++steps) {
          if (steps == 0) ++linked;
          EXPECT_EQ(in.step(), steps);
          take_step(in, side_of(in.redeclarations()), s.rank(), [&] { return all; });
          if (s.rank() == Rank{0}) ++taken, redeclared = in.redeclarations();
          if (steps % 2 == 1 && in.redeclarations() == asked &&
              is_accepted(in, side_of(asked + 1), s.rank()))
            ++asked;
        }
        in.close();
        ++ended;
      },
      patience);
  std::mt19937 random(seed);
  const auto until = core::Deadline::after(patience);
  const auto is_soon = [&](const auto& is_so) {
    while (!is_so() && !until.expired()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return is_so();
  };
  EXPECT_TRUE(is_soon([&] { return linked == ranks; }))
      << "the first set-up of a link needs its server";
  for (int server = 0; server < servers && ended == 0; ++server) {
    const std::uint64_t before = taken;
    std::this_thread::sleep_for(std::chrono::microseconds(100'000 + random() % 100'000));
    EXPECT_TRUE(is_soon([&] { return taken > before || ended > 0; }));  // also on a busy machine
    world.stop_server();
    world.start_server();
  }
  EXPECT_EQ(ended, 0);
  EXPECT_TRUE(is_soon([&] { return redeclared > 1; }));
  is_over = true;
  EXPECT_EQ(text_of(world.join()), "");
  EXPECT_EQ(ended, 2 * ranks);
}

/// The producer is lost before it has applied the redeclaration, which takes effect with the next producer.
TEST(RedeclaringConsumersAlone, HoldsInTheNextEpoch) {
  World world(8192, World::Way::local);
  std::atomic<bool> has_asked = false;
  world.start("first", 2, [&](Session& s) {
    OutStream out(s, "s", {.queue_depth = 2});
    out.declare(field_of(rows, s.rank()));
    put_step(out, rows, s.rank(), 0);
    while (!has_asked) std::this_thread::yield();
  });
  world.start("consumer", 2, [&](Session& s) {
    InStream in(s, "s", {.restart_timeout = 10});
    in.declare(field_of(rows, s.rank()));
    const std::vector<bool> all(16, true);
    EXPECT_EQ(in.begin(std::nullopt), Begun::step);
    take_step(in, rows, s.rank(), [&] { return all; });
    redeclare(in, columns, s.rank());
    s.run_collectively([] {});
    has_asked = true;
    EXPECT_EQ(in.begin(std::nullopt), Begun::epoch);
    EXPECT_EQ(in.begin(std::nullopt), Begun::step);
    EXPECT_EQ(in.redeclarations(), 1u);
    take_step(in, columns, s.rank(), [&] { return all; });
    EXPECT_EQ(in.begin(std::nullopt), Begun::end_of_stream);
    in.close();
  });
  while (!has_asked) std::this_thread::yield();
  world.start("second", 2, [&](Session& s) {
    OutStream out(s, "s", {});
    out.declare(field_of(rows, s.rank()));
    put_step(out, rows, s.rank(), 0);
    out.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

/// Parameter: the ranks that know of the producer's loss before they call redeclare.
class RedeclaringAfterALoss : public testing::TestWithParam<std::vector<Rank>> {};

TEST_P(RedeclaringAfterALoss, HoldsInTheNextEpoch) {
  const auto& knowing = GetParam();
  World world(8192, World::Way::local);
  std::atomic<int> taken = 0, asked = 0;
  const auto await = [](const auto& condition) {
    const auto until = core::Deadline::after(60);
    while (!condition() && !until.expired()) std::this_thread::yield();
    EXPECT_TRUE(condition());
  };
  world.start("first", 2, [&](Session& s) {
    OutStream out(s, "s", {.queue_depth = 1});
    out.declare(field_of(rows, s.rank()));
    put_step(out, rows, s.rank(), 0);
    await([&] { return taken == 2; });
  });
  world.start("consumer", 2, [&](Session& s) {
    InStream in(s, "s", {.restart_timeout = 60});
    in.declare(field_of(rows, s.rank()));
    const std::vector<bool> all(16, true);
    EXPECT_EQ(in.begin(std::nullopt), Begun::step);
    take_step(in, rows, s.rank(), [&] { return all; });
    ++taken;
    if (std::ranges::find(knowing, s.rank()) != knowing.end())
      await([&] { return s.control().link_end(1).has_value(); });
    redeclare(in, columns, s.rank());
    ++asked;
    EXPECT_EQ(in.begin(std::nullopt), Begun::epoch);
    EXPECT_EQ(in.begin(std::nullopt), Begun::step);
    EXPECT_EQ(in.redeclarations(), 1u);
    EXPECT_EQ(to_string(in.layout(0)), to_string(columns.layout[at(s.rank())]));
    take_step(in, columns, s.rank(), [&] { return all; });
    EXPECT_EQ(in.begin(std::nullopt), Begun::end_of_stream);
    in.close();
  });
  await([&] { return asked == 2; });
  world.start("second", 2, [&](Session& s) {
    OutStream out(s, "s", {});
    out.declare(field_of(rows, s.rank()));
    put_step(out, rows, s.rank(), 0);
    out.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST_P(RedeclaringAfterALoss, RefusesAnotherShape) {
  const auto& knowing = GetParam();
  World world(8192, World::Way::local);
  std::atomic<int> taken = 0;
  world.start("producer", 2, [&](Session& s) {
    OutStream out(s, "s", {.queue_depth = 1});
    out.declare(field_of(rows, s.rank()));
    put_step(out, rows, s.rank(), 0);
    while (taken < 2 && !s.deadline().expired()) std::this_thread::yield();
  });
  world.start("consumer", 2, [&](Session& s) {
    InStream in(s, "s");
    in.declare(field_of(rows, s.rank()));
    const std::vector<bool> all(16, true);
    EXPECT_TRUE(in.begin_step());
    take_step(in, rows, s.rank(), [&] { return all; });
    ++taken;
    if (std::ranges::find(knowing, s.rank()) != knowing.end())
      while (!s.control().link_end(1) && !s.deadline().expired()) std::this_thread::yield();
    const std::pair<int, Layout> larger{0, Layout::parse("shape=4x5 grid=1x2")};
    try {
      in.redeclare(std::span(&larger, 1));
      ADD_FAILURE() << "expected an error";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Errc::invalid_argument) << e.what();
    }
  });
  EXPECT_EQ(text_of(world.join()), "");
}

INSTANTIATE_TEST_SUITE_P(KnownOn, RedeclaringAfterALoss,
                         testing::Values(std::vector<Rank>{{0}, {1}}, std::vector{Rank{0}},
                                         std::vector{Rank{1}}),
                         [](const auto& knowing) {
                           return knowing.param.size() == 2          ? "all"
                                  : knowing.param.front() == Rank{0} ? "first"
                                                                     : "last";
                         });

/// Every pair of ranks that shares elements has one message per step; the bytes are those of the array.
TEST(RedeclaringConsumersAlone, CountersContinue) {
  World world;
  std::atomic<bool> holds = false;
  std::atomic<std::uint64_t> of_rows = 0, of_columns = 0;
  std::atomic<std::uint64_t> put = 0;
  world.start("producer", 2, [&](Session& s) {
    OutStream out(s, "s", {});
    out.declare(field_of(rows, s.rank()));
    const auto continues = [&] {
      return s.run_on_root([&] { return core::Bytes(holds ? 1 : 0); }, s.deadline()).empty();
    };
    for (std::uint64_t step = 0; continues(); ++step) put_step(out, rows, s.rank(), step);
    out.close();
    EXPECT_EQ(out.statistics().traffic.bytes, 64 * out.statistics().steps);
    put += out.statistics().traffic.packages;
  });
  world.start("consumer", 2, [&](Session& s) {
    InStream in(s, "s");
    in.declare(field_of(rows, s.rank()));
    const std::vector<bool> all(16, true);
    for (std::uint64_t step = 0; in.begin_step(); ++step) {
      const bool is_in_rows = in.redeclarations() == 0;
      if (s.rank() == Rank{0}) ++(is_in_rows ? of_rows : of_columns);
      take_step(in, is_in_rows ? rows : columns, s.rank(), [&] { return all; });
      if (step == 1) redeclare(in, columns, s.rank());
      if (!is_in_rows) holds = true;
    }
    in.close();
    EXPECT_EQ(in.statistics().traffic.bytes, 64 * in.statistics().steps);
  });
  EXPECT_EQ(text_of(world.join()), "");
  EXPECT_EQ(put, 2 * of_rows + 4 * of_columns);  // messages of both ranks
}

}  // namespace
}  // namespace tremula::client
