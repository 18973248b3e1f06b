// SPDX-License-Identifier: Apache-2.0
// Tests consumers that request steps by their time. The steps that they must get follow from the
// definition and from the times of all steps. Every element carries its step and its own global number.
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <random>
#include <set>

#include "tests/client/coupling.hpp"
#include "tests/client/stream/numbered_steps.hpp"

namespace tremula::client {
namespace {

using Times = std::vector<std::int64_t>;
using numbered::Event;
using numbered::Numbers;
using numbered::Part;
using Texts = std::vector<std::string>;

/// Determines the first step that is needed at a time and is not in `taken`, among those that the
/// consumer can get.
struct Oracle {
  Times times;            ///< of all steps
  std::size_t first = 0;  ///< first step that the consumer can get
  std::set<std::size_t> taken{};

  std::vector<std::size_t> needed(Needed what, std::int64_t t) const {
    std::vector<std::size_t> before, at, after;
    for (std::size_t k = first; k < times.size(); ++k)
      (times[k] < t ? before : times[k] == t ? at : after).push_back(k);
    if (!at.empty()) return at;
    std::vector<std::size_t> out;
    if (!before.empty()) out.push_back(before.back());
    if (what == Needed::around && !after.empty()) out.push_back(after.front());
    return out;
  }
  Begun expected(Needed what, std::int64_t t, std::size_t& step) {
    for (const std::size_t k : needed(what, t))
      if (taken.insert(k).second) {
        step = k;
        return Begun::step;
      }
    return times.empty() || times.back() < t ? Begun::end_of_stream : Begun::up_to_date;
  }
};

void produce(
    Session& s, const Times& times, const OutConfig& config,
    const std::function<void(std::size_t)>& before = [](std::size_t) {},
    const std::string& stream = "s") {
  OutStream out(s, stream, config);
  Part part(s);
  out.declare(part.field());
  out.set_attribute(of_stream, "time_unit", Texts{"min"});
  for (std::size_t step = 0; step < times.size(); ++step) {
    before(step);
    out.begin_step();
    out.set_time(times[step]);
    part.fill(step);
    out.put(0, part.bytes());
    out.end_step();
  }
  out.close();
}

class Consumer {
public:
  explicit Consumer(Session& session, const InConfig& config = {}, const std::string& stream = "s")
      : in(session, stream, config), part_(session) {
    in.declare(part_.field());
  }
  Begun begin(Needed needed, std::int64_t time, std::string_view unit = "min") {
    return in.begin_step_by(needed, time, unit);
  }
  void take() {
    in.get(0, part_.bytes());
    part_.expect(in.step());
    steps.push_back(in.step());
    in.end_step();
  }
  /// Takes the steps needed at `time` that it has not taken yet, and compares them with the oracle.
  void follow(Oracle& oracle, Needed needed, std::int64_t time) {
    for (Begun begun = Begun::step; begun == Begun::step;) {
      std::size_t step = 0;
      begun = oracle.expected(needed, time, step);
      ASSERT_EQ(begin(needed, time), begun) << "time " << time;
      if (begun != Begun::step) continue;
      EXPECT_EQ(in.step(), step) << "time " << time;
      EXPECT_EQ(in.time(), oracle.times[step]);
      take();
      if (needed == Needed::at) break;
    }
  }
  InStream in;
  Numbers steps;

private:
  Part part_;
};

std::optional<Error> error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& e) {
    return e;
  }
  return std::nullopt;
}

Times every(std::int64_t dt, std::int64_t end) {
  Times times;
  for (std::int64_t t = 0; t <= end; t += dt) times.push_back(t);
  return times;
}

TEST(ByTime, GivesTheNewestStepAtOrBeforeATime) {
  World world;
  world.start("producer", 2, [&](Session& s) { produce(s, every(20, 100), {}); });
  world.start("consumer", 3, [&](Session& s) {
    Consumer c(s);
    const Times asked{0, 0, 30, 39, 60, 90, 120};
    const Numbers gives{0, 0, 1, 1, 3, 4, 5};
    std::optional<std::uint64_t> last;
    for (std::size_t i = 0; i < asked.size(); ++i) {
      const Begun begun = c.begin(Needed::at, asked[i]);
      ASSERT_EQ(begun, last == gives[i] ? Begun::up_to_date : Begun::step) << asked[i];
      if (begun == Begun::step) c.take();
      last = gives[i];
    }
    EXPECT_EQ(c.begin(Needed::at, 150), Begun::end_of_stream);
    EXPECT_EQ(c.begin(Needed::at, 150), Begun::end_of_stream);
    EXPECT_FALSE(c.in.begin_step());
    EXPECT_EQ(c.steps, (Numbers{0, 1, 3, 4, 5}));
    EXPECT_EQ(c.in.statistics().steps, 5u);
    EXPECT_EQ(c.in.statistics().passed, 1u);
    EXPECT_EQ(c.in.statistics().dropped, 0u);
    c.in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(ByTime, GivesTheStepsAroundATime) {
  World world;
  world.start("producer", 3, [&](Session& s) { produce(s, every(20, 100), {.queue_depth = 3}); });
  world.start("consumer", 2, [&](Session& s) {
    Consumer c(s);
    const auto steps_around = [&](std::int64_t time, Begun last) {
      c.steps.clear();
      Begun begun = Begun::step;
      while ((begun = c.begin(Needed::around, time)) == Begun::step) c.take();
      EXPECT_EQ(begun, last) << time;
      return c.steps;
    };
    EXPECT_EQ(steps_around(0, Begun::up_to_date), (Numbers{0}));
    EXPECT_EQ(steps_around(5, Begun::up_to_date), (Numbers{1})) << "step 0 has been taken";
    EXPECT_EQ(steps_around(10, Begun::up_to_date), (Numbers{}));
    EXPECT_EQ(steps_around(20, Begun::up_to_date), (Numbers{}));
    EXPECT_EQ(steps_around(70, Begun::up_to_date), (Numbers{3, 4}));
    EXPECT_EQ(steps_around(100, Begun::up_to_date), (Numbers{5})) << "step 5 is enough";
    EXPECT_EQ(steps_around(101, Begun::end_of_stream), (Numbers{}));
    EXPECT_EQ(c.in.statistics().passed, 1u);
    c.in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

// Random step lengths on both sides, in all modes, at several queue depths.
TEST(ByTime, AgreesWithTheDefinitionForRandomTimes) {
  const char* const given = std::getenv("TREMULA_TEST_SEED");
  const unsigned seed = given != nullptr ? static_cast<unsigned>(std::stoul(given))
                                         : std::random_device{}() % 1000000;
  std::cout << "seed " << seed << std::endl;
  SCOPED_TRACE(fmt::format("replay with TREMULA_TEST_SEED={}", seed));
  std::mt19937 random(seed);
  const auto below = [&](unsigned end) { return static_cast<std::int64_t>(random() % end); };
  for (int round = 0; round < 12; ++round) {
    const unsigned pace = 1 + static_cast<unsigned>(below(40)),
                   own_pace = 1 + static_cast<unsigned>(below(40));
    Times times, asked;
    std::int64_t time = below(200) - 100;
    for (std::int64_t count = below(30); count >= 0; --count)
      times.push_back(time += 1 + below(pace));
    for (time = times.front(); time < times.back() + 40; time += below(own_pace)) {
      asked.push_back(time);
      if (own_pace == 1) ++time;
    }
    const int depth = 2 + static_cast<int>(below(3));
    const auto mode = below(3);
    SCOPED_TRACE(fmt::format("round {}, mode {}, depth {}, times {}, asked {}", round, mode, depth,
                             fmt::join(times, " "), fmt::join(asked, " ")));
    World world(round % 2 == 0 ? 8192 : 0);
    world.start("producer", 1 + static_cast<RankCount>(below(3)),
                [&](Session& s) { produce(s, times, {.queue_depth = depth}); });
    world.start("consumer", 1 + static_cast<RankCount>(below(3)), [&](Session& s) {
      Consumer c(s);
      Oracle oracle{times};
      for (std::size_t i = 0; i < asked.size(); ++i)
        c.follow(oracle, mode == 0 || (mode == 2 && i % 2 == 0) ? Needed::at : Needed::around,
                 asked[i]);
      c.in.close();
    });
    ASSERT_EQ(text_of(world.join()), "");
  }
}

// The producer may have ended before its last steps are taken: a sink that looks ahead learns of
// the end.
TEST(ByTime, TheEndIsKnownBeforeTheLastStepsAreTaken) {
  for (const std::size_t eager : {std::size_t{8192}, std::size_t{0}}) {
    transport::Network network(eager);
    Coupling k(network, field("shape=4x4 grid=2x1"), field("shape=4x4 grid=1x2"), 2);
    const std::vector<std::int64_t> data(8, 7);
    for (std::uint64_t step = 0; step < 2; ++step)
      for (auto& out : k.outs) {
        ASSERT_TRUE(out->poll_room());
        out->put(step, 0, std::as_bytes(std::span(data)), false);
        out->send(step, {.time = 10 * static_cast<std::int64_t>(step), .attributes = {}});
      }
    for (auto& out : k.outs) {
      ASSERT_FALSE(out->poll_slot());
      ASSERT_TRUE(out->poll_end(2));
      out->send_end(2);
      EXPECT_EQ(out->most_steps(), 2u);
    }
    for (auto& in : k.ins) {
      soon([&] { return in->poll_complete(); });
      Sink::Next next;
      soon(k, [&] { return (next = in->look_ahead()).state != Sink::State::nothing; });
      EXPECT_EQ(next.state, Sink::State::step);
      EXPECT_EQ(next.time, 10);
      EXPECT_EQ(in->step(), 0u);
      EXPECT_EQ(in->time(), 0);
      in->finish_step();
      soon(k, [&] { return in->poll_complete(); });
      soon(k, [&] { return (next = in->look_ahead()).state != Sink::State::nothing; });
      EXPECT_EQ(next.state, Sink::State::end);
      EXPECT_EQ(in->step(), 1u);
      std::vector<std::int64_t> got(8);
      soon(k, [&] { return in->fetch_some(0, std::as_writable_bytes(std::span(got))); });
      EXPECT_EQ(got, data);
      soon(k, [&] { return in->poll_finish(); });
      in->finish_step();
      soon(k, [&] { return in->poll() == Sink::State::end; });
      soon(k, [&] { return in->poll_told(); });
      in->leave();
      soon(k, [&] { return in->poll_told(); });
    }
    for (auto& out : k.outs) soon(k, [&] { return out->poll_credit(3); });
  }
}

// Two models with different step lengths both put first: neither waits for a step that the other
// can only put later.
TEST(ByTime, CouplesTwoModelsBothWays) {
  World world;
  const auto model = [](const std::string& own, const std::string& other, std::int64_t dt,
                        std::int64_t other_dt) {
    return [=](Session& s) {
      OutStream out(s, own, {});
      InStream in(s, other);
      Part mine(s), theirs(s);
      out.declare(mine.field());
      out.set_attribute(of_stream, "time_unit", Texts{"s"});
      in.declare(theirs.field());
      std::uint64_t step = 0, gets = 0;
      for (std::int64_t t = 0; t <= 600; t += dt) {
        out.begin_step();
        out.set_time(t);
        mine.fill(step++);
        out.put(0, mine.bytes());
        out.end_step();
        const Begun begun = in.begin_step_by(Needed::at, t, "s");
        ASSERT_NE(begun, Begun::end_of_stream);
        if (begun == Begun::step) {
          EXPECT_EQ(in.time(), t - t % other_dt);
          in.get(0, theirs.bytes());
          theirs.expect(static_cast<std::uint64_t>(t / other_dt));
          in.end_step();
          ++gets;
        }
      }
      EXPECT_GE(gets, 20u);
      in.close();
      out.close();
    };
  };
  world.start("ocean", 2, model("ocean", "air", 30, 20));
  world.start("air", 3, model("air", "ocean", 20, 30));
  EXPECT_EQ(text_of(world.join()), "");
}

// Each model would have to put another step before the other model could determine the newest step at
// that time.
TEST(ByTime, ModelsThatAskTooFarAheadGetDeadlock) {
  World world;
  world.step_timeout = 60;
  std::atomic<int> failed = 0;
  const auto model = [&failed](const std::string& own, const std::string& other) {
    return [=, &failed](Session& s) {
      OutStream out(s, own, {});
      InStream in(s, other);
      Part mine(s), theirs(s);
      out.declare(mine.field());
      out.set_attribute(of_stream, "time_unit", Texts{"s"});
      in.declare(theirs.field());
      const auto put = [&](std::int64_t time) {
        out.begin_step();
        out.set_time(time);
        mine.fill(static_cast<std::uint64_t>(time));
        out.put(0, mine.bytes());
        out.end_step();
      };
      put(0);
      const auto error = error_of([&] { in.begin_step_by(Needed::at, 10, "s"); });
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code(), Errc::deadlock) << error->what();
      EXPECT_NE(std::string(error->what()).find("begin_step_at"), std::string::npos)
          << error->what();
      ++failed;
      while (failed < 3) std::this_thread::yield();  // a step put earlier would end their waits
      put(20);
      ASSERT_EQ(in.begin_step_by(Needed::at, 10, "s"), Begun::step) << "both streams must continue";
      in.get(0, theirs.bytes());
      theirs.expect(0);
      in.end_step();
      in.close();
      out.close();
    };
  };
  world.start("ocean", 2, model("ocean", "air"));
  world.start("air", 1, model("air", "ocean"));
  EXPECT_EQ(text_of(world.join()), "");
  EXPECT_EQ(failed, 3);
}

TEST(ByTime, LateGroupContinuesFromItsFirstStep) {
  World world;
  Event is_late, is_done;
  world.start("producer", 2, [&](Session& s) {
    OutStream out(s, "s", {.wait_for_consumers = 0});
    Part part(s);
    out.declare(part.field());
    out.set_attribute(of_stream, "time_unit", Texts{"min"});
    // Rank 0 announces the last step, so that all ranks put the same number of steps.
    for (std::uint64_t step = 0, end = ~0ull; step < end; ++step) {
      if (step == 4) is_late.set();
      out.begin_step();
      out.set_time(20 * static_cast<std::int64_t>(step));
      part.fill(step);
      out.put(0, part.bytes());
      out.end_step();
      const auto done = s.run_on_root([&] { return core::Bytes(is_done.has_occurred(2) ? 1 : 0); },
                                      s.step_deadline());
      if (!done.empty()) end = step + 1;
    }
    out.close();
  });
  world.start("consumer", 2, [&](Session& s) {
    is_late.wait(2);
    Consumer c(s);
    ASSERT_TRUE(c.in.begin_step());
    const std::int64_t first = c.in.time();
    const auto step = c.in.step();
    EXPECT_GE(step, 4u);
    c.take();
    const auto early = error_of([&] { c.begin(Needed::at, first - 1); });
    ASSERT_TRUE(early);
    EXPECT_EQ(early->code(), Errc::invalid_argument);
    EXPECT_EQ(std::string(early->what()),
              fmt::format("stream 's': expected a time of at least {}, that of the first step that "
                          "group 'consumer' gets; found {}: a group that joins late calls "
                          "begin_step first, and continues from the time of that step",
                          first, first - 1));
    Oracle oracle{every(20, first + 1000), step, {step}};
    for (std::int64_t time = first; time < first + 300; time += 30)
      c.follow(oracle, Needed::at, time);
    is_done.set();
    c.in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

// A group that requests the step at a time before its first step gets an error that states the time
// of its first step, and loses nothing. A group that requests the steps around such a time gets the
// first step.
TEST(ByTime, TimeBeforeAllStepsIsAnErrorOrTheFirstStep) {
  World world;
  world.start("producer", 1, [&](Session& s) {
    produce(s, {100, 110}, {.wait_for_consumers = 2});
  });
  for (const auto needed : {Needed::at, Needed::around})
    world.start(needed == Needed::at ? "at" : "around", 2, [=](Session& s) {
      Consumer c(s);
      const auto error = error_of([&] { ASSERT_EQ(c.begin(needed, 99), Begun::step); });
      EXPECT_EQ(error.has_value(), needed == Needed::at);
      if (needed == Needed::at) {
        EXPECT_EQ(error->code(), Errc::invalid_argument);
        ASSERT_EQ(c.begin(needed, 100), Begun::step);
      }
      c.take();
      EXPECT_EQ(c.begin(needed, 100), Begun::up_to_date);
      const auto back = error_of([&] { c.begin(needed, 98); });
      ASSERT_TRUE(back);
      EXPECT_EQ(std::string(back->what()),
                "stream 's': expected a time of at least 100, that of the previous call, since "
                "earlier steps have passed; found 98");
      EXPECT_EQ(c.begin(needed, 110), Begun::step);
      c.take();
      EXPECT_EQ(c.begin(needed, 111), Begun::end_of_stream);
      EXPECT_EQ(c.steps, (Numbers{0, 1}));
      c.in.close();
    });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(ByTime, RanksThatAskForDifferentTimesAreNamed) {
  World world;
  world.start("producer", 1, [&](Session& s) { produce(s, every(20, 100), {}); });
  world.start("consumer", 3, [&](Session& s) {
    Consumer c(s);
    const auto error = error_of([&] { c.begin(Needed::at, s.rank() == Rank{2} ? 35 : 30); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Errc::mismatch);
    EXPECT_EQ(std::string(error->what()),
              "stream 's': expected all ranks of group 'consumer' to ask for the same time in "
              "begin_step_at; found 30 on rank 0 and 35 on rank 2");
    EXPECT_EQ(c.begin(Needed::at, 30), Begun::step) << "the error must pass no step";
    c.take();
    EXPECT_EQ(c.steps, (Numbers{1}));
    c.in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

// The error would also name ranks in any other call. Neither stream is lost.
TEST(ByTime, RanksInDifferentStreamsAreNamed) {
  World world;
  for (const std::string stream : {"s", "t"})
    world.start("producer_of_" + stream, 1, [&, stream](Session& s) {
      produce(
          s, every(20, 60), {}, [](std::size_t) {}, stream);
    });
  world.start("consumer", 3, [&](Session& s) {
    Consumer one(s), other(s, {}, "t");
    for (Consumer* c : {&one, &other}) {
      ASSERT_EQ(c->begin(Needed::at, 0), Begun::step);
      c->take();
    }
    const auto error = error_of([&] { (s.rank() == Rank{1} ? one : other).begin(Needed::at, 20); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Errc::mismatch) << error->what();
    EXPECT_NE(std::string(error->what())
                  .find("found rank 1 in begin_step_at of stream 's', step 0, while rank 0 is in "
                        "begin_step_at of stream 't', step 0"),
              std::string::npos)
        << error->what();
    for (Consumer* c : {&one, &other}) {
      ASSERT_EQ(c->begin(Needed::at, 60), Begun::step) << "the error must pass no step";
      c->take();
      EXPECT_EQ(c->begin(Needed::at, 80), Begun::end_of_stream);
      c->in.close();
    }
  });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(ByTime, RefusesStreamsWithoutStepsByTime) {
  struct Case {
    OutConfig out;
    InConfig in;
    std::string text;
    std::string unit = "min";
  };
  const std::string by_time =
      "stream 's', steps by their time: expected producer group 'producer' to ";
  const std::vector<Case> cases{
      {{.queue_depth = 1},
       {},
       by_time + "have room for two steps in flight (queue_depth, queue_bytes); found room for 1"},
      {{.queue_depth = 0},
       {},
       by_time + "have room for two steps in flight (queue_depth, queue_bytes); found room for 0"},
      {{.when_full = WhenFull::drop_oldest},
       {},
       by_time + "drop no step (steps: every, when_full: block); found a queue that drops steps "
                 "when it is full"},
      {{.when_full = WhenFull::drop_newest},
       {},
       by_time + "drop no step (steps: every, when_full: block); found a queue that drops steps "
                 "when it is full"},
      {{},
       {.steps = Steps::latest},
       by_time + "drop no step (steps: every, when_full: block); found a queue that drops steps "
                 "when it is full"},
      {{},
       {.steps = Steps::share},
       by_time + "send all steps to this group; found that groups share them (steps: share)"},
      {{},
       {.restart_timeout = 60},
       "stream 's', steps by their time: expected a consumer that ends with its producer; found a "
       "restart_timeout: leave that out, or take every step with begin_step"},
      {{},
       {},
       "stream 's': expected a time in the unit of the stream, \"min\"; found one in \"h\": "
       "convert "
       "it",
       "h"}};
  for (const Case& of : cases) {
    SCOPED_TRACE(of.text);
    World world;
    world.start("producer", 1, [&](Session& s) { produce(s, {0}, of.out); });
    world.start("consumer", 2, [&](Session& s) {
      Consumer c(s, of.in);
      const auto error = error_of([&] { c.begin(Needed::around, 0, of.unit); });
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code(), of.unit == "h" ? Errc::mismatch : Errc::unsupported);
      EXPECT_EQ(std::string(error->what()), of.text);
      EXPECT_TRUE(c.in.begin_step()) << "the error must not change the stream";
      c.take();
      EXPECT_FALSE(c.in.begin_step());
      c.in.close();
    });
    EXPECT_EQ(text_of(world.join()), "");
  }
}

TEST(ByTime, RefusesAStreamWithoutTimes) {
  World world;
  world.start("producer", 1, [&](Session& s) {
    numbered::Producer p(s, {});
    p.put_to(1);
    p.out.close();
  });
  world.start("consumer", 1, [&](Session& s) {
    Consumer c(s);
    ASSERT_TRUE(c.in.begin_step());
    c.take();
    const auto error = error_of([&] { c.begin(Needed::at, 0, ""); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Errc::unsupported);
    EXPECT_EQ(
        std::string(error->what()),
        "stream 's': expected steps with a time; found that its producer has set no attribute "
        "'time_unit'");
    c.in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

// The steps before the loss can be taken; the newest step at a later time is unknown.
TEST(ByTime, LostProducerEndsTheWaitForItsNextStep) {
  World world;
  Event has_asked;
  world.start("producer", 2, [&](Session& s) {
    OutStream out(s, "s", {});
    Part part(s);
    out.declare(part.field());
    out.set_attribute(of_stream, "time_unit", Texts{"min"});
    for (std::size_t step = 0; step < 2; ++step) {
      out.begin_step();
      out.set_time(20 * static_cast<std::int64_t>(step));
      part.fill(step);
      out.put(0, part.bytes());
      out.end_step();
    }
    has_asked.wait(2);
  });  // leaves without closing
  std::atomic<int> lost = 0;
  world.start("consumer", 2, [&](Session& s) {
    Consumer c(s);
    ASSERT_EQ(c.begin(Needed::at, 10), Begun::step);
    c.take();
    ASSERT_EQ(c.begin(Needed::at, 20), Begun::step);
    c.take();
    has_asked.set();
    const auto error = error_of([&] { c.begin(Needed::at, 30); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Errc::peer_lost) << error->what();
    EXPECT_EQ(c.steps, (Numbers{0, 1}));
    ++lost;
  });
  world.join();
  EXPECT_EQ(lost, 2);
}

/// How one rank learns of a loss: later than the ranks that wait for it in a call, or before them.
struct Loss {
  std::string name;
  Rank rank;           ///< the rank that differs from the others
  bool comes;          ///< true: it makes the call after all; false: it frees the stream
  bool first = false;  ///< true: it gives up the stream first, and the other ranks learn of that
};
class LostByOneRank : public testing::TestWithParam<Loss> {};

// Some ranks leave this collective call for good. None of its messages may reach a later call.
TEST_P(LostByOneRank, LeavesOtherStreamsOfTheSessionUnchanged) {
  const Loss& of = GetParam();
  constexpr RankCount ranks = 3;
  World world;
  world.step_timeout = 60;  // no rank waits that long
  Event asking, noticed, over;
  world.start("mortal", 2, [&](Session& s) {
    OutStream out(s, "s", {});
    Part part(s);
    out.declare(part.field());
    out.set_attribute(of_stream, "time_unit", Texts{"min"});
    for (std::size_t step = 0; step < 2; ++step) {
      out.begin_step();
      out.set_time(20 * static_cast<std::int64_t>(step));
      part.fill(step);
      out.put(0, part.bytes());
      out.end_step();
    }
    (of.first ? over : asking).wait(ranks - 1);
  });  // leaves without closing
  world.start("steady", 1, [](Session& s) {
    produce(
        s, every(20, 400), {}, [](std::size_t) {}, "t");
  });
  world.start("consumer", ranks, [&](Session& s) {
    auto lost = std::make_unique<Consumer>(s);
    Consumer steady(s, {}, "t");
    Oracle oracle{every(20, 400)};
    for (const std::int64_t time : {10, 20}) {
      ASSERT_EQ(lost->begin(Needed::at, time), Begun::step);
      lost->take();
      steady.follow(oracle, Needed::at, time);
    }
    if (s.rank() != of.rank) {
      asking.set();
      const auto error = error_of([&] { lost->begin(Needed::at, 40); });
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code(), Errc::peer_lost) << error->what();
      noticed.set();
    } else if (!of.first) {
      noticed.wait(ranks - 1);
    }
    if (s.rank() == of.rank && of.comes) {
      const auto error = error_of([&] { lost->begin(Needed::at, 40); });
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code(), Errc::peer_lost) << error->what();
    }
    lost.reset();
    for (std::int64_t time = 30; time < 400; time += 30) {
      s.begin_call("meet", "", 0);
      s.run_collectively([] {});
      steady.follow(oracle, Needed::around, time);
    }
    EXPECT_EQ(steady.begin(Needed::around, 401), Begun::end_of_stream);
    steady.in.close();
    over.set();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

INSTANTIATE_TEST_SUITE_P(Of, LostByOneRank,
                         testing::Values(Loss{"RankZeroComes", Rank{0}, true},
                                         Loss{"RankZeroDoesNot", Rank{0}, false},
                                         Loss{"AnotherComes", Rank{1}, true},
                                         Loss{"AnotherDoesNot", Rank{2}, false},
                                         Loss{"RankZeroIsTheFirst", Rank{0}, false, true},
                                         Loss{"AnotherIsTheFirst", Rank{1}, false, true}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace tremula::client
