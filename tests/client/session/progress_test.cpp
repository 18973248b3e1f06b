// SPDX-License-Identifier: Apache-2.0
// A rank that waits, in any call, advances everything in its session. Over a network that completes a
// send only when it is received, and moves nothing by itself, each of these pairs of jobs used to
// hang.
#include "client/session/progress.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "tests/client/world.hpp"
#include "transport/tcp/tcp.hpp"

namespace tremula::client {
namespace {

using core::Index;
using index_calc::Layout;

/// A stream that counts its turns.
class Counted final : public Moving {
public:
  bool advance() noexcept override {
    ++turns;
    return is_under_way;
  }
  void list_waits(std::vector<transport::local::WaitWord>&) override {}
  void list_turns(std::vector<LinkTurns>&) override {}
  int turns = 0;
  bool is_under_way = false;
};

TEST(ProgressEngine, LooksAtFewIdleStreamsInATurnAndAtAllInTurn) {
  constexpr int streams = 1000, turns = 320;
  std::vector<Counted> all(streams);
  ProgressEngine engine;
  for (Counted& each : all) engine.add(each);
  all[500].is_under_way = true;
  EXPECT_TRUE(engine.advance());  // no stream is known to be idle yet
  for (const Counted& each : all) EXPECT_EQ(each.turns, 1);
  for (int turn = 0; turn < turns; ++turn) EXPECT_TRUE(engine.advance());
  std::size_t idle_turns = 0;
  for (const Counted& each : all) {
    if (&each == &all[500]) continue;
    EXPECT_GE(each.turns - 1, turns * static_cast<int>(ProgressEngine::most_idle) / streams);
    idle_turns += static_cast<std::size_t>(each.turns - 1);
  }
  EXPECT_LE(idle_turns, turns * ProgressEngine::most_idle);
  EXPECT_EQ(all[500].turns, 1 + turns);

  all[999].is_under_way = true;  // as if a peer had made a request
  int until_found = 0;
  for (const int before = all[999].turns; all[999].turns == before; ++until_found) engine.advance();
  EXPECT_LE(until_found, streams / static_cast<int>(ProgressEngine::most_idle) + 1);
  const int found = all[999].turns;
  for (int turn = 0; turn < 10; ++turn) engine.advance();
  EXPECT_EQ(all[999].turns, found + 10);
  all[999].is_under_way = false;
  engine.advance(&all[7]);  // this stream is advancing itself, and may have begun something
  const int own = all[7].turns;
  engine.advance();
  EXPECT_EQ(all[7].turns, own + 1);
  for (Counted& each : all) engine.remove(each);
  EXPECT_TRUE(engine.is_empty());
}

/// Each stream has signs of life to send, even while the application computes.
TEST(ProgressEngine, LooksAtAllIdleStreamsAfterEachNapOfItsThread) {
  std::vector<Counted> all(1000);
  ProgressEngine engine;
  for (Counted& each : all) engine.add(each);
  engine.start_thread();
  const auto deadline = core::Deadline::after(60);
  int turns = 0;
  while (turns < 4 && !deadline.expired()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const auto lock = engine.hold();
    turns = all[0].turns;
    for (const Counted& each : all) ASSERT_EQ(each.turns, turns);
  }
  EXPECT_GE(turns, 4);
  for (Counted& each : all) engine.remove(each);
}

/// With this limit, no bytes of a send leave before the receive is posted, as on a wire without
/// buffers.
constexpr std::size_t no_eager_bytes = 0;
constexpr Index extent = 2500;  // messages longer than those sent with their heads (2 KiB)

proto::Field field_of(RankCount size) {
  return {.name = "f",
          .type = core::ElementType::i64,
          .layout = Layout::parse(fmt::format("shape={} grid={} block=7", extent, size))};
}

/// Returns a rank's part of step s of stream k, in which global element i is
/// 1000 * s + i + 10^6 * k.
std::vector<std::int64_t> part_of(Session& session, int stream, std::uint64_t step) {
  const auto layout = field_of(session.size()).layout;
  std::vector<std::int64_t> part(
      static_cast<std::size_t>(local_part(layout, session.rank()).elements));
  for (std::size_t i = 0; i < part.size(); ++i)
    part[i] = 1000 * static_cast<std::int64_t>(step) + 1000000 * stream +
              index_calc::to_global(layout.grid()->dims[0], {session.rank().value},
                                    {static_cast<Index>(i)})
                  .value;
  return part;
}

OutConfig depth(int steps) {
  OutConfig config;
  config.queue_depth = steps;
  config.progress = Progress::calls;  // the application's own calls are enough
  return config;
}

class Out {
public:
  Out(Session& session, int number, int queue_depth)
      : session_(session),
        number_(number),
        stream_(session, fmt::format("s{}", number), depth(queue_depth)) {
    stream_.declare(field_of(session.size()));
  }
  void put() {
    const auto part = part_of(session_, number_, steps_++);
    stream_.begin_step();
    stream_.put(0, std::as_bytes(std::span(part)));
    stream_.end_step();
  }
  OutStream& stream() { return stream_; }

private:
  Session& session_;
  int number_;
  std::uint64_t steps_ = 0;
  OutStream stream_;
};

class In {
public:
  In(Session& session, int number)
      : session_(session), number_(number), stream_(session, fmt::format("s{}", number)) {
    stream_.declare(field_of(session.size()));
  }
  void get() {
    std::vector<std::int64_t> part(part_of(session_, number_, 0).size());
    ASSERT_TRUE(stream_.begin_step());
    stream_.get(0, std::as_writable_bytes(std::span(part)));
    EXPECT_EQ(part, part_of(session_, number_, steps_++)) << "stream " << number_;
    stream_.end_step();
  }
  InStream& stream() { return stream_; }

private:
  Session& session_;
  int number_;
  std::uint64_t steps_ = 0;
  InStream stream_;
};

// Nothing else synchronises the two threads, so the thread sanitizer would find a race.
TEST(Progress, ThreadAdvancesObjectsAddedBeforeItsStart) {
  struct Mover : Moving {
    std::atomic<bool> has_moved{false};
    bool advance() noexcept override { return has_moved.exchange(true, std::memory_order_relaxed); }
    void list_waits(std::vector<transport::local::WaitWord>&) override {}
    void list_turns(std::vector<LinkTurns>&) override {}
  } mover;
  ProgressEngine engine;
  engine.add(mover);
  engine.start_thread();
  const auto until = core::Deadline::after(30);
  while (!mover.has_moved.load(std::memory_order_relaxed) && !until.expired())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(mover.has_moved);
}

TEST(Progress, PairThatPutsBothWaysDoesNotHang) {
  World world(no_eager_bytes);
  constexpr int rounds = 50;
  world.start("a", 2, [](Session& s) {
    Out out(s, 0, 2);
    In in(s, 1);
    for (int i = 0; i < rounds; ++i) out.put(), in.get();
    out.stream().close(), in.stream().close();
  });
  world.start("b", 3, [](Session& s) {
    In in(s, 0);
    Out out(s, 1, 2);
    for (int i = 0; i < rounds; ++i) in.get(), out.put();
    out.stream().close(), in.stream().close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(Progress, RingOfJobsThatAllPutFirstDoesNotHang) {
  for (const World::Way way : {World::Way::loopback, World::Way::local})
    for (const int jobs : {2, 3, 4}) {
      SCOPED_TRACE(fmt::format("{} jobs", jobs));
      World world(no_eager_bytes, way);
      for (int job = 0; job < jobs; ++job)
        world.start(fmt::format("job{}", job), 1 + job % 2, [=](Session& s) {
          Out out(s, job, 2);
          In in(s, (job + jobs - 1) % jobs);
          for (int i = 0; i < 5; ++i) out.put(), in.get();
          out.stream().close(), in.stream().close();
        });
      EXPECT_EQ(text_of(world.join()), "");
    }
}

TEST(Progress, StreamsCanBeTakenInAnotherOrder) {
  World world(no_eager_bytes);
  constexpr int rounds = 50;
  world.start("producer", 2, [](Session& s) {
    Out first(s, 0, 2), second(s, 1, 2);
    for (int i = 0; i < rounds; ++i) first.put(), second.put();
    first.stream().close(), second.stream().close();
  });
  world.start("consumer", 3, [](Session& s) {
    In first(s, 0), second(s, 1);
    first.get(), second.get();  // now both are linked
    for (int i = 1; i < rounds; ++i) second.get(), first.get();
    second.stream().close(), first.stream().close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(Progress, WaitForATakenStepAdvancesOtherRanks) {
  World world(no_eager_bytes);
  constexpr int rounds = 30;
  world.start("producer", 2, [](Session& s) {
    Out out(s, 0, 2);
    for (std::uint64_t i = 0; i < rounds; ++i) {
      out.put();
      if (s.rank() == Rank{1}) out.stream().wait_taken(i);  // rank 0 is in begin_step or close
    }
    out.stream().close();
  });
  world.start("consumer", 2, [](Session& s) {
    In in(s, 0);
    for (int i = 0; i < rounds; ++i) in.get();
    in.stream().close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(Progress, AgreementAdvancesStreams) {
  World world(no_eager_bytes);
  world.start("producer", 2, [](Session& s) {
    Out out(s, 0, 2);
    out.put();
    if (s.rank() == Rank{0}) {  // joins the agreement only after the step has been taken
      out.stream().wait_taken(0);
    }
    s.run_collectively([] {});
    out.stream().close();
  });
  world.start("consumer", 2, [](Session& s) {
    In in(s, 0);
    in.get();
    in.stream().close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

// Each get is short and its data has arrived, so no get waits. Together, the gets take a long time.
TEST(Progress, ManyShortGetsAdvanceTheSession) {
  struct Counter : Moving {
    std::atomic<int> looks = 0;
    bool advance() noexcept override { return ++looks < 0; }
    void list_waits(std::vector<transport::local::WaitWord>&) override {}
    void list_turns(std::vector<LinkTurns>&) override {}
  } counter;
  constexpr int fields = 256;  // of 1 KiB
  const auto declare = [](auto& stream) {
    for (int f = 0; f < fields; ++f)
      stream.declare({.name = fmt::format("f{}", f),
                      .type = core::ElementType::i64,
                      .layout = Layout::parse("shape=128 grid=1 block=128")});
  };
  World world;
  std::atomic<bool> is_sent = false;
  world.start("producer", 1, [&](Session& s) {
    OutStream out(s, "s", depth(2));
    declare(out);
    const std::vector<std::int64_t> part(128, 7);
    out.begin_step();
    for (int f = 0; f < fields; ++f) out.put(f, std::as_bytes(std::span(part)));
    out.end_step();
    is_sent = true;
    out.close();
  });
  world.start("consumer", 1, [&](Session& s) {
    InStream in(s, "s");
    declare(in);
    std::vector<std::int64_t> part(128);
    ASSERT_TRUE(in.begin_step());
    const auto deadline = core::Deadline::after(60);
    while (!is_sent && !deadline.expired()) std::this_thread::yield();
    s.progress().add(counter);
    for (int f = 0; f < fields; ++f) in.get(f, std::as_writable_bytes(std::span(part)));
    s.progress().remove(counter);
    EXPECT_GE(counter.looks, fields / 64) << "expected one look per 64 KiB";
    in.end_step();
    in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(Progress, StepArrivesWhileTheProducerComputes) {
  World world(no_eager_bytes);
  std::atomic<bool> is_taken = false;
  world.start("producer", 2, [&](Session& s) {
    OutConfig config;  // the defaults
    OutStream out(s, "s0", config);
    out.declare(field_of(s.size()));
    const auto part = part_of(s, 0, 0);
    out.begin_step();
    out.put(0, std::as_bytes(std::span(part)));
    out.end_step();
    const auto deadline = core::Deadline::after(20);
    while (!is_taken && !deadline.expired()) std::this_thread::yield();  // as if it computed
    EXPECT_TRUE(is_taken);
    out.close();
  });
  world.start("consumer", 1, [&](Session& s) {
    In in(s, 0);
    in.get();
    is_taken = true;
    in.stream().close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(Progress, ClosedStreamsLeaveNoLinksBehind) {
  World world;
  constexpr int streams = 40;
  world.start("producer", 2, [](Session& s) {
    for (int i = 0; i < streams; ++i) {
      Out out(s, i, 2);
      out.put();
      out.stream().close();
    }
    EXPECT_LE(s.control().known_links(), 1U);
  });
  world.start("consumer", 2, [](Session& s) {
    for (int i = 0; i < streams; ++i) {
      In in(s, i);
      in.get();
      in.stream().close();
    }
    EXPECT_LE(s.control().known_links(), 1U);
  });
  EXPECT_EQ(text_of(world.join()), "");
}

/// One action of a job on one of its streams.
struct Action {
  bool is_put = false;
  int stream = 0;
};

/// Returns whether both programs reach their ends if each stream holds at most `queue_depth` steps.
/// Simulates them action by action, without any of Tremula's code.
bool ends(const std::array<std::vector<Action>, 2>& program, int streams, int queue_depth) {
  std::vector<int> held(static_cast<std::size_t>(streams), 0);
  std::array<std::size_t, 2> at{};
  for (bool has_moved = true; has_moved;) {
    has_moved = false;
    for (std::size_t job = 0; job < 2; ++job)
      for (; at[job] < program[job].size(); ++at[job], has_moved = true) {
        const Action& action = program[job][at[job]];
        int& steps = held[static_cast<std::size_t>(action.stream)];
        if (action.is_put ? steps == queue_depth : steps == 0) break;
        steps += action.is_put ? 1 : -1;
      }
  }
  return at[0] == program[0].size() && at[1] == program[1].size();
}

std::uint64_t seed() {
  const char* text = std::getenv("TREMULA_TEST_SEED");
  return text ? std::strtoull(text, nullptr, 10) : std::random_device{}();
}

/// The transport of a world's ranks.
struct Over {
  const char* name;
  World::Way way = World::Way::loopback;
  std::function<std::unique_ptr<transport::Transport>()> other_way = {};
};

class Programs : public ::testing::TestWithParam<Over> {};

TEST_P(Programs, HangExactlyIfTheSimulationHangs) {
  const auto value = seed();
  SCOPED_TRACE(fmt::format("replay with TREMULA_TEST_SEED={}", value));
  std::mt19937_64 random(value);
  int hanging = 0, ending = 0;
  for (int turn = 0; turn < 400 && (hanging < 3 || ending < 12); ++turn) {
    const int streams = 2 + static_cast<int>(random() % 3),
              queue_depth = 1 + static_cast<int>(random() % 2);
    const int forth = 1 + static_cast<int>(random() % static_cast<unsigned>(streams - 1));
    std::array<std::vector<Action>, 2> program;
    for (int stream = 0; stream < streams; ++stream)
      for (std::size_t job = 0; job < 2; ++job)
        program[job].insert(program[job].end(), 6, {(job == 0) == (stream < forth), stream});
    for (auto& acts : program) std::shuffle(acts.begin(), acts.end(), random);
    const bool is_ending = ends(program, streams, queue_depth);
    if (is_ending ? ending >= 12 : hanging >= 3) continue;
    ++(is_ending ? ending : hanging);
    World world(no_eager_bytes, GetParam().way);
    world.other_way = GetParam().other_way;
    world.step_timeout = 300;  // far longer than it takes to find a circle
    for (std::size_t job = 0; job < 2; ++job)
      world.start(job == 0 ? "a" : "b", 1 + static_cast<int>(random() % 2), [&, job](Session& s) {
        std::vector<std::unique_ptr<Out>> outs(static_cast<std::size_t>(streams));
        std::vector<std::unique_ptr<In>> ins(static_cast<std::size_t>(streams));
        for (int k = 0; k < streams; ++k)
          if (const auto i = static_cast<std::size_t>(k); (job == 0) == (k < forth))
            outs[i] = std::make_unique<Out>(s, k, queue_depth);
          else
            ins[i] = std::make_unique<In>(s, k);
        for (const Action& action : program[job])
          if (const auto i = static_cast<std::size_t>(action.stream); action.is_put)
            outs[i]->put();
          else
            ins[i]->get();
        for (auto& out : outs)
          if (out) out->stream().close();
        for (auto& in : ins)
          if (in) in->stream().close();
      });
    const auto errors = world.join();
    EXPECT_EQ(errors.empty(), is_ending)
        << fmt::format("turn {}: {} streams, {} forth, depth {}: {}", turn, streams, forth,
                       queue_depth, text_of(errors));
    const bool is_reported = std::ranges::any_of(
        errors, [](const auto& error) { return error.second.code() == Errc::deadlock; });
    EXPECT_EQ(is_reported, !is_ending) << text_of(errors);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_EQ(ending, 12);
  EXPECT_EQ(hanging, 3);
}

INSTANTIATE_TEST_SUITE_P(
    Over, Programs,
    testing::Values(Over{"loopback"}, Over{"local", World::Way::local},
                    Over{.name = "tcp",
                         .other_way = [] { return std::make_unique<transport::Tcp>(); }}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace tremula::client
