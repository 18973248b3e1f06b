// SPDX-License-Identifier: Apache-2.0
// Tests streams whose producer redeclares its layouts between steps. Every element carries its number
// and its step.
#include "tests/client/stream/redeclaring.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <iostream>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "transport/loopback/loopback.hpp"

namespace tremula::client {
namespace {

/// The sequence of layouts that a producer uses for its steps.
struct Course {
  std::vector<Side> sides;
  std::vector<std::size_t> side_of;  // shape: [step]
  const Side& at(std::uint64_t step) const { return sides[side_of[step]]; }
  std::uint64_t steps() const { return side_of.size(); }
};

Course random_course(Random& random, const std::vector<Index>& shape, RankCount ranks) {
  Course course;
  for (Index left = random.in(2, 4); left > 0; --left) {
    course.side_of.insert(course.side_of.end(), static_cast<std::size_t>(random.in(1, 4)),
                          course.sides.size());
    course.sides.push_back(random_side_of(random, shape, ranks));
  }
  return course;
}

void produce(Session& s, const Course& course, const OutConfig& config) {
  OutStream out(s, "s", config);
  out.declare(field_of(course.at(0), s.rank()));
  for (std::uint64_t step = 0; step < course.steps(); ++step) {
    if (step > 0 && course.side_of[step] != course.side_of[step - 1])
      redeclare(out, course.at(step), s.rank());
    put_step(out, course.at(step), s.rank(), step);
  }
  out.close();
  EXPECT_EQ(out.statistics().steps, course.steps());
}

/// Takes all steps and checks every element. Returns the number of steps.
std::uint64_t consume(Session& s, const Side& side, const Course& course, const InConfig& config,
                      Index volume) {
  InStream in(s, "s", config);
  in.declare(field_of(side, s.rank()));
  std::uint64_t steps = 0;
  std::optional<std::uint64_t> last;
  for (;; ++steps) {
    auto begun = in.begin(std::nullopt);
    if (begun == Begun::end_of_stream) break;
    EXPECT_EQ(begun, Begun::step);
    take_step(in, side, s.rank(), [&] { return offered_by(course.at(in.step()), volume); });
    EXPECT_TRUE(!last || in.step() > *last);
    last = in.step();
  }
  in.close();
  EXPECT_EQ(in.statistics().steps, steps);
  return steps;
}

class Redeclaring : public testing::TestWithParam<World::Way> {};

TEST_P(Redeclaring, AnyLayoutsToAnyOthersArriveWhole) {
  Random random;
  for (int i = 0; i < 10; ++i) {
    const auto shape = index_calc::testing::random_shape(random);
    const Index volume = index_calc::testing::volume(shape);
    const auto producers = static_cast<RankCount>(random.in(1, 4));
    const Course course = random_course(random, shape, producers);
    std::vector<Side> sinks;
    for (Index left = random.in(1, 2); left > 0; --left)
      sinks.push_back(random_side_of(random, shape, static_cast<RankCount>(random.in(1, 4))));
    const OutConfig config{.queue_depth = static_cast<int>(random.in(0, 3)),
                           .wait_for_consumers = static_cast<int>(sinks.size())};
    World world(8192, GetParam());
    world.proof = random.one_in(2);
    std::string trace;
    for (const Side& side : course.sides) trace += to_string(side.layout[0]) + ", ";
    SCOPED_TRACE(trace + "to " + to_string(sinks[0].layout[0]));
    world.start("producer", producers, [&](Session& s) { produce(s, course, config); });
    for (std::size_t c = 0; c < sinks.size(); ++c)
      world.start("consumer" + std::to_string(c), sinks[c].ranks(), [&, c](Session& s) {
        const InConfig outlives{.restart_timeout = c == 1 ? 5.0 : 0.0};
        EXPECT_EQ(consume(s, sinks[c], course, outlives, volume), course.steps());
      });
    ASSERT_EQ(text_of(world.join()), "");
  }
}

TEST_P(Redeclaring, DroppedAndSharedStepsKeepTheirLayouts) {
  Random random;
  const std::vector<Index> shape{5, 4};
  for (const auto& [when_full, steps] :
       {std::pair(WhenFull::drop_newest, Steps::every),
        std::pair(WhenFull::drop_oldest, Steps::every), std::pair(WhenFull::block, Steps::latest),
        std::pair(WhenFull::block, Steps::share)}) {
    const Course course = random_course(random, shape, 2);
    const Side sink = random_side_of(random, shape, 2);
    World world(8192, GetParam());
    std::atomic<std::uint64_t> got = 0;
    world.start("producer", 2, [&](Session& s) {
      produce(s, course, {.when_full = when_full, .wait_for_consumers = 2, .keep_steps = 2});
    });
    for (const std::string name : {"a", "b"})
      world.start(name, 2, [&](Session& s) {
        const auto steps_of_rank = consume(s, sink, course, {.steps = steps}, 20);
        if (s.rank() == Rank{0}) got += steps_of_rank;
      });
    ASSERT_EQ(text_of(world.join()), "");
    EXPECT_TRUE(steps != Steps::share || got == course.steps());
    EXPECT_GT(got, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Over, Redeclaring,
                         testing::Values(World::Way::loopback, World::Way::local),
                         [](const auto& way) {
                           return way.param == World::Way::local ? "local" : "loopback";
                         });

/// Puts steps on two ranks until `is_over`, alternating between rows and columns.
void produce_until(Session& s, const std::function<bool()>& is_over, const OutConfig& config) {
  const Side sides[] = {of_text("shape=4x4 grid=2x1"), of_text("shape=4x4 grid=1x2")};
  OutStream out(s, "s", config);
  out.declare(field_of(sides[0], s.rank()));
  const auto continues = [&] {
    return s.run_on_root([&] { return core::Bytes(is_over() ? 1 : 0); }, s.deadline()).empty();
  };
  for (std::uint64_t step = 0; continues(); ++step) {
    if (step > 0) redeclare(out, sides[step % 2], s.rank());
    put_step(out, sides[step % 2], s.rank(), step);
  }
  out.close();
}

/// Takes `steps` steps, or all if the stream ends earlier.
void take(
    Session& s, std::uint64_t steps, const std::function<void()>& got = [] {},
    const InConfig& config = {}) {
  InStream in(s, "s", config);
  in.declare(field_of(of_text("shape=4x4 grid=1x1"), Rank{0}));
  for (; steps > 0 && in.begin_step(); --steps) {
    std::vector<std::int64_t> buffer(16);
    in.get(0, std::as_writable_bytes(std::span(buffer)));
    for (Index i = 0; i < 16; ++i)
      ASSERT_EQ(buffer[static_cast<std::size_t>(i)], value(i, in.step()));
    in.end_step();
    got();
  }
  in.close();
}

TEST(RedeclaringAlone, ConsumersMayJoinLateAndLeave) {
  World world(8192, World::Way::local);
  std::atomic<bool> is_under_way = false, is_over = false;
  std::atomic<int> late_steps = 0;
  world.start("producer", 2, [&](Session& s) {
    produce_until(s, [&] { return is_over.load(); }, {.keep_steps = 3});
  });
  world.start("first", 1, [&](Session& s) { take(s, 1000000, [&] { is_under_way = true; }); });
  world.start("leaves", 1, [&](Session& s) { take(s, 3); });
  world.start("late", 1, [&](Session& s) {
    while (!is_under_way) std::this_thread::yield();
    // The kept steps have other layouts.
    take(s, 5, [&] { ++late_steps; }, {.start = Start::oldest});
    is_over = true;
  });
  EXPECT_EQ(text_of(world.join()), "");
  EXPECT_EQ(late_steps, 5);
}

/// The consumer closes just before it would receive the other layouts.
TEST(RedeclaringAlone, OnlyConsumerMayLeaveInstead) {
  World world(8192, World::Way::local);
  std::atomic<bool> has_closed = false;
  world.start("producer", 2, [&](Session& s) {
    const Side rows = of_text("shape=4x4 grid=2x1"), columns = of_text("shape=4x4 grid=1x2");
    OutStream out(s, "s", {});
    out.declare(field_of(rows, s.rank()));
    put_step(out, rows, s.rank(), 0);
    redeclare(out, columns, s.rank());
    EXPECT_TRUE(has_closed);
    out.close();
  });
  world.start("consumer", 1, [&](Session& s) {
    InStream in(s, "s");
    in.declare(field_of(of_text("shape=4x4 grid=1x1"), Rank{0}));
    EXPECT_TRUE(in.begin_step());
    in.end_step();
    while (!in.poll_ready()) std::this_thread::yield();  // the other layouts
    has_closed = true;
    in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

/// A loopback transport that reports to the test each endpoint that this rank opens.
class Watched final : public transport::Transport {
public:
  /// @param look  called before an endpoint is opened, with its number, counted from 1; it may throw
  using Look = std::function<void(transport::Side side, int count)>;
  Watched(transport::Network& network, Look look) : loopback_(network), look_(std::move(look)) {}
  std::string_view name() const noexcept override { return loopback_.name(); }
  std::vector<std::string> offers() const override { return loopback_.offers(); }
  std::unique_ptr<transport::Endpoint> open(std::string_view offer, transport::Side side) override {
    look_(side, ++count_);
    return loopback_.open(offer, side);
  }

private:
  transport::Loopback loopback_;
  Look look_;
  int count_ = 0;
};

TEST(RedeclaringAlone, FailedLinkIsReportedWithStepAndProducer) {
  transport::Network network(8192);
  World world;
  world.step_timeout = 60;
  world.other_way = [&] {
    return std::make_unique<Watched>(network, [](transport::Side side, int count) {
      if (side == transport::Side::consumer && count == 2)
        throw Error(Errc::peer_lost, "it left before this side connected");
    });
  };
  world.start("producer", 2, [&](Session& s) {
    const Side rows = of_text("shape=4x4 grid=2x1"), columns = of_text("shape=4x4 grid=1x2");
    OutStream out(s, "s", {});
    out.declare(field_of(rows, s.rank()));
    for (std::uint64_t step = 0; step < 3; ++step) put_step(out, rows, s.rank(), step);
    try {
      redeclare(out, columns, s.rank());
      put_step(out, columns, s.rank(), 3);
      ADD_FAILURE() << "expected peer_lost: the only consumer gave up the link";
    } catch (const core::Error& e) {
      EXPECT_EQ(e.code(), core::Errc::peer_lost) << e.what();
    }
  });
  world.start("consumer", 1, [&](Session& s) {
    InStream in(s, "s");
    in.declare(field_of(of_text("shape=4x4 grid=1x1"), Rank{0}));
    for (int taken = 0; taken < 3; ++taken) {
      EXPECT_TRUE(in.begin_step());
      in.end_step();
    }
    try {
      in.begin_step();
      ADD_FAILURE() << "the link was set up anew";
    } catch (const core::Error& e) {
      EXPECT_EQ(e.code(), core::Errc::peer_lost);
      EXPECT_STREQ(e.what(),
                   "stream 's', step 3: the link to producer group 'producer' could not be set up "
                   "anew: it left before this side connected");
    }
  });
  EXPECT_EQ(text_of(world.join()), "");
}

/// When the second of two links is set up again, the server is gone for longer than a stream that has
/// other consumers waits for a consumer, and for longer than another rank then waits for rank 0.
TEST(RedeclaringAlone, SetsUpAllLinksWhileTheServerIsAway) {
  transport::Network network(8192);
  World world;
  world.step_timeout = 60;
  world.stop_server();
  // The first server has no number, so its sessions carry nothing over to the next server.
  world.start_server();
  std::once_flag has_gone;
  std::thread comes_back;
  world.other_way = [&] {
    return std::make_unique<Watched>(network, [&](transport::Side side, int count) {
      if (side == transport::Side::consumer || count < 4) return;
      std::call_once(has_gone, [&] {
        world.stop_server();
        comes_back = std::thread([&] {
          std::this_thread::sleep_for(std::chrono::seconds(21));
          world.start_server();
        });
      });
    });
  };
  const auto produce = [](Session& s) {
    const Side rows = of_text("shape=4x4 grid=2x1"), columns = of_text("shape=4x4 grid=1x2");
    OutStream out(s, "s", {.wait_for_consumers = 2});
    out.declare(field_of(rows, s.rank()));
    for (std::uint64_t step = 0; step < 4; ++step) {
      if (step == 2) redeclare(out, columns, s.rank());
      put_step(out, step < 2 ? rows : columns, s.rank(), step);
    }
    out.close();
  };
  world.start("producer", 2, produce, 60);
  std::atomic<int> steps = 0;
  for (const std::string name : {"one", "other"})
    world.start(
        name, 1, [&](Session& s) { take(s, 1000, [&] { ++steps; }); }, 60);
  EXPECT_EQ(text_of(world.join()), "");
  EXPECT_EQ(steps, 2 * 4);
  ASSERT_TRUE(comes_back.joinable()) << "no second link was set up anew";
  comes_back.join();
}

/// The extent changes with every step; the order of the ranks changes between two steps.
TEST(RedeclaringAlone, ChangingArraysMayReorderTheirRanks) {
  World world;
  const std::string forward = "shape=*x2 grid=2x1", back = "shape=*x2 grid=2x1 members=1/0";
  world.start("producer", 2, [&](Session& s) {
    OutStream out(s, "s", {});
    out.declare({.name = "f", .type = core::ElementType::i64, .layout = Layout::parse(forward)});
    for (std::int64_t step = 0; step < 6; ++step) {
      if (step == 3) {
        const std::pair<int, Layout> layout{0, Layout::parse(back)};
        out.redeclare(std::span(&layout, 1));
      }
      const auto rows = static_cast<std::size_t>(step + s.rank().value);
      const std::vector<std::int64_t> buffer(2 * rows, 10 * step + s.rank().value);
      out.begin_step();
      out.put(0, std::as_bytes(std::span(buffer)));
      out.end_step();
    }
    out.close();
  });
  world.start("consumer", 1, [&](Session& s) {
    InStream in(s, "s");
    in.declare({.name = "f",
                .type = core::ElementType::i64,
                .layout = Layout::parse("shape=*x2 grid=1x1")});
    for (std::int64_t step = 0; in.begin_step(); ++step) {
      const auto rows = static_cast<std::size_t>(2 * step + 1);
      std::vector<std::int64_t> buffer(2 * rows);
      in.get(0, std::as_writable_bytes(std::span(buffer)));
      const auto first = static_cast<std::size_t>(2 * (step < 3 ? step : step + 1));
      for (std::size_t i = 0; i < buffer.size(); ++i) {
        const bool is_of_first = i < first;
        ASSERT_EQ(buffer[i], 10 * step + (is_of_first == (step < 3) ? 0 : 1)) << i << ", " << step;
      }
      in.end_step();
    }
    in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(RedeclaringAlone, RefusalLeavesTheStreamUnchanged) {
  World world;
  const Side rows = of_text("shape=4x4 grid=2x1");
  world.start("producer", 2, [&](Session& s) {
    OutStream out(s, "s", {});
    out.declare(field_of(rows, s.rank()));
    const auto complaint = [&](const std::string& text) {
      const std::pair<int, Layout> layout{0, Layout::parse(text)};
      try {
        out.redeclare(std::span(&layout, 1));
      } catch (const Error& e) {
        return std::string(e.what());
      }
      return std::string();
    };
    const auto has = [](const std::string& text, const std::string& part) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    };
    has(complaint("shape=4x4 grid=1x2"), "expected redeclare between two steps");
    put_step(out, rows, s.rank(), 0);
    has(complaint("shape=4x5 grid=1x2"), "expected a layout of the same shape");
    has(complaint("shape=4x4 grid=3x1"), "3");
    has(complaint("shape=4x4 mesh=2 sum=0"),
        "field 'f': expected a producer whose ranks hold whole values, found partial sums (sum=) "
        "in "
        "\"shape=4x4 mesh=2 sum=0\"");
    has(complaint_of_repeated_field(out), "expected each field once; found 'f' twice");
    has(complaint(s.rank() == Rank{0} ? "shape=4x4 grid=1x2" : "shape=4x4 grid=2x1"),
        "expected every rank of group 'producer' to declare the same fields");
    put_step(out, rows, s.rank(), 1);
    redeclare(out, of_text("shape=4x4 grid=1x2"), s.rank());
    put_step(out, of_text("shape=4x4 grid=1x2"), s.rank(), 2);
    out.close();
    has(complaint("shape=4x4 grid=1x2"), "expected redeclare between two steps");
  });
  std::uint64_t steps = 0;
  world.start("consumer", 1, [&](Session& s) { take(s, 1000, [&] { ++steps; }); });
  EXPECT_EQ(text_of(world.join()), "");
  EXPECT_EQ(steps, 3u);
}

TEST(RedeclaringAlone, ContinuesAfterAServerRestart) {
  World world(8192, World::Way::local);
  world.stop_server();
  // The first server has no number, so its sessions carry nothing over to the next server.
  world.start_server();
  const Side rows = of_text("shape=4x4 grid=2x1"), columns = of_text("shape=4x4 grid=1x2");
  std::atomic<bool> is_again = false, has_step = false;
  const auto is_soon = [](const std::atomic<bool>& what) {
    const auto until = core::Deadline::after(20);
    while (!what && !until.expired()) std::this_thread::yield();
    EXPECT_TRUE(what);
  };
  world.start("producer", 2, [&](Session& s) {
    OutStream out(s, "s", {});
    out.declare(field_of(rows, s.rank()));
    put_step(out, rows, s.rank(), 0);
    is_soon(is_again);
    const std::pair<int, Layout> layout{0, columns.layout[0]};
    for (const auto until = core::Deadline::after(20);;) try {
        EXPECT_FALSE(until.expired());
        out.redeclare(std::span(&layout, 1));
        break;
      } catch (const Error& e) {  // nothing has changed: the consumer has not returned
        EXPECT_NE(std::string(e.what()).find("has not yet: try again"), std::string::npos)
            << e.what();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        if (e.code() != Errc::refused) throw;
      }
    for (std::uint64_t step = 1; step < 5; ++step) {
      put_step(out, columns, s.rank(), step);
      redeclare(out, columns, s.rank());
    }
    out.close();
  });
  std::uint64_t steps = 0;
  world.start("consumer", 1, [&](Session& s) {
    take(s, 1000, [&] {
      ++steps;
      has_step = true;
    });
  });
  is_soon(has_step);
  world.stop_server();
  world.start_server();
  is_again = true;
  EXPECT_EQ(text_of(world.join()), "");
  EXPECT_EQ(steps, 5u);
}

/// Each group waits in redeclare for the next begin_step of the other group, which would follow that
/// group's redeclare.
TEST(RedeclaringAlone, TwoGroupsThatRedeclareAtOnceGetDeadlock) {
  World world(8192, World::Way::local);
  world.step_timeout = 60;
  const auto begin = core::Deadline::Clock::now();
  const auto run = [&](Session& s, const std::string& mine, const std::string& theirs) {
    const Side rows = of_text("shape=4x4 grid=2x1"), columns = of_text("shape=4x4 grid=1x2");
    OutStream out(s, mine, {.progress = Progress::thread});
    out.declare(field_of(rows, s.rank()));
    InStream in(s, theirs);
    in.declare(field_of(rows, s.rank()));
    std::vector<std::int64_t> buffer(8);
    for (std::uint64_t step = 0;; ++step) {
      if (step == 1) redeclare(out, columns, s.rank());
      put_step(out, step == 0 ? rows : columns, s.rank(), step);
      in.begin_step();
      in.get(0, std::as_writable_bytes(std::span(buffer)));
      in.end_step();
    }
  };
  world.start("one", 2, [&](Session& s) { run(s, "a", "b"); });
  world.start("other", 2, [&](Session& s) { run(s, "b", "a"); });
  const auto errors = world.join();
  EXPECT_EQ(errors.size(), 4u);
  EXPECT_TRUE(std::ranges::any_of(errors, [](const auto& e) {
    return e.second.code() == Errc::deadlock;
  })) << text_of(errors);
  const core::Deadline::Seconds seconds = core::Deadline::Clock::now() - begin;
  std::cout << "reported within " << seconds.count() << " s\n";
}

/// Every pair of ranks that shares elements has one message per step; the bytes are those of the array.
TEST(RedeclaringAlone, CountersContinue) {
  World world;
  const Side rows = of_text("shape=4x4 grid=2x1"), columns = of_text("shape=4x4 grid=1x2");
  const auto expect = [](const Statistics& s, std::uint64_t packages, std::uint64_t bytes) {
    EXPECT_EQ(s.steps, 4u);
    EXPECT_EQ(s.traffic.packages, packages);
    EXPECT_EQ(s.traffic.bytes, bytes);
  };
  world.start("producer", 2, [&](Session& s) {
    OutStream out(s, "s", {});
    out.declare(field_of(rows, s.rank()));
    for (std::uint64_t step = 0; step < 4; ++step) {
      if (step == 2) redeclare(out, columns, s.rank());
      put_step(out, step < 2 ? rows : columns, s.rank(), step);
    }
    out.close();
    expect(out.statistics(), 2 * 1 + 2 * 2, 4 * 64);
  });
  world.start("consumer", 2, [&](Session& s) {
    InStream in(s, "s");
    in.declare(field_of(rows, s.rank()));
    std::vector<std::int64_t> buffer(8);
    while (in.begin_step()) {
      in.get(0, std::as_writable_bytes(std::span(buffer)));
      in.end_step();
    }
    in.close();
    expect(in.statistics(), 2 * 1 + 2 * 2, 4 * 64);
  });
  EXPECT_EQ(text_of(world.join()), "");
}

}  // namespace
}  // namespace tremula::client
