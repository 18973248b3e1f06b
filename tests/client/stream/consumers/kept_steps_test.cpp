// SPDX-License-Identifier: Apache-2.0
// Tests consumers that join late and begin with a kept step, readers of a state, and consumers that
// share the steps. Every element carries its step and its own global number.
#include <algorithm>
#include <map>
#include <mutex>

#include "tests/client/stream/numbered_steps.hpp"

namespace tremula::client {
namespace {

using numbered::Consumer;
using numbered::Event;
using numbered::Numbers;
using numbered::Part;
using numbered::Producer;

/// Makes all ranks of a producer serve until the event has occurred `count` times.
void serve_until(Session& session, OutStream& out, const Event& event, int count = 1) {
  for (;;) {
    const auto come = session.run_on_root(
        [&] { return core::Bytes(event.has_occurred(count) ? 1 : 0); }, core::Deadline::after(10));
    if (!come.empty()) return;
    out.serve(core::Deadline::after(0.05));
  }
}

struct Late {
  std::string name;
  InConfig config;
  OutConfig out;
  Numbers steps;
};

class LateConsumer : public testing::TestWithParam<Late> {};

TEST_P(LateConsumer, BeginsWithTheStepThatItAsksFor) {
  World world;
  Event has_put, has_begun;
  world.start("producer", 2, [&](Session& s) {
    Producer p(s, GetParam().out);
    p.put_to(10);
    has_put.set();
    serve_until(s, p.out, has_begun);
    p.put_to(12);
    p.out.close();
  });
  world.start("consumer", 3, [&](Session& s) {
    if (s.rank() == Rank{0}) has_put.wait(2);
    s.run_collectively([] {});
    Consumer c(s, GetParam().config);
    if (GetParam().steps.front() == 10) {  // no step arrives before the producer continues
      bool is_begun = false;
      while (c.in.statistics().transport.empty())
        is_begun = c.in.begin_step_until(core::Deadline::after(0.1)).value_or(false);
      if (s.rank() == Rank{0}) has_begun.set();
      if (is_begun) {  // rank 0, linked in the same call, already let the producer continue
        c.steps.push_back(c.in.step());
        c.take();
      }
    }
    while (c.begin()) {
      if (s.rank() == Rank{0}) has_begun.set();
      c.take();
    }
    EXPECT_EQ(c.steps, GetParam().steps);
    c.in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

INSTANTIATE_TEST_SUITE_P(
    Start, LateConsumer,
    testing::Values(
        Late{"next", {}, {.wait_for_consumers = 0, .keep_steps = 4}, {10, 11}},
        Late{"latest",
             {.start = Start::latest},
             {.wait_for_consumers = 0, .keep_steps = 4},
             {9, 10, 11}},
        Late{"oldest",
             {.start = Start::oldest},
             {.wait_for_consumers = 0, .keep_steps = 4},
             {6, 7, 8, 9, 10, 11}},
        Late{"oldest_of_all",
             {.start = Start::oldest},
             {.wait_for_consumers = 0, .keep_steps = 40},
             {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
        Late{"oldest_without_queue",
             {.start = Start::oldest},
             {.queue_depth = 0, .wait_for_consumers = 0, .keep_steps = 4},
             {6, 7, 8, 9, 10, 11}},
        Late{"none_is_kept", {.start = Start::oldest}, {.wait_for_consumers = 0}, {10, 11}}),
    [](const auto& late) { return late.param.name; });

// While a step of one stream is put, another stream's call may link a consumer, which must not get half
// of that step.
TEST(OpenStep, GoesWholeToALateConsumerOrNotAtAll) {
  for (const int keep : {0, 1, 2, 3}) {
    World world;
    Event has_put;
    world.start("producer", 2, [&](Session& s) {
      Part part(s);
      OutStream out(s, "s", {.wait_for_consumers = 0, .keep_steps = keep}), other(s, "other", {});
      out.declare(part.field());
      other.declare(part.field());
      const auto put = [&](OutStream& to, std::uint64_t step) {
        part.fill(step);
        to.put(0, part.bytes());
      };
      for (std::uint64_t step = 0; step < 3; ++step) {
        out.begin_step();
        put(out, step);
        out.end_step();
      }
      out.begin_step();
      put(out, 3);
      has_put.set();
      other.begin_step();  // both streams are linked here
      put(other, 0);
      other.end_step();
      out.wait_taken(2);  // must not wait for the step that is being put
      out.end_step();
      out.begin_step();
      put(out, 4);
      out.end_step();
      out.close();
      other.close();
    });
    world.start("consumer", 1, [&](Session& s) {
      has_put.wait(2);
      Consumer c(s, {.start = Start::oldest});
      Part part(s);
      InStream other(s, "other");
      other.declare(part.field());
      ASSERT_TRUE(other.begin_step());
      other.get(0, part.bytes());
      part.expect(0);
      other.end_step();
      while (c.begin()) c.take();
      Numbers expected;
      for (auto step = static_cast<std::uint64_t>(4 - keep); step < 5; ++step)
        expected.push_back(step);
      EXPECT_EQ(c.steps, expected) << "keep_steps " << keep;
      EXPECT_FALSE(other.begin_step());
      c.in.close();
      other.close();
    });
    EXPECT_EQ(text_of(world.join()), "");
  }
}

// A call with a time limit admits the step on all ranks, but finds no room. Later only one of the
// ranks has begun the step when a call of another stream links a consumer, which must not get half
// of the step.
TEST(AdmittedStep, GoesToNoLateConsumer) {
  World world;
  Event is_full, has_begun;
  world.start("producer", 2, [&](Session& s) {
    Part part(s);
    OutStream out(s, "s", {.queue_depth = 1}), other(s, "other", {});
    out.declare(part.field());
    other.declare(part.field());
    const auto begin = [&] {
      while (!out.begin_step_until(core::Deadline::after(0.02))) {
      }
    };
    const auto put = [&](OutStream& to, std::uint64_t step) {
      part.fill(step);
      to.put(0, part.bytes());
    };
    out.begin_step();
    put(out, 0);
    out.end_step();
    EXPECT_FALSE(out.begin_step_until(core::Deadline::after(0)));
    is_full.set();
    if (s.rank() == Rank{0}) {
      begin();
      put(out, 1);
      has_begun.set();
    }
    other.begin_step();  // both streams are linked here
    put(other, 0);
    other.end_step();
    if (s.rank() == Rank{1}) {
      begin();
      put(out, 1);
    }
    out.end_step();
    begin();
    put(out, 2);
    out.end_step();
    out.close();
    other.close();
  });
  world.start("first", 1, [&](Session& s) {
    Consumer c(s, {});
    EXPECT_TRUE(c.begin());
    is_full.wait(2);
    c.take();
    while (c.begin()) c.take();
    EXPECT_EQ(c.steps, (Numbers{0, 1, 2}));
    c.in.close();
  });
  world.start("late", 1, [&](Session& s) {
    has_begun.wait();
    Consumer c(s, {});
    Part part(s);
    InStream other(s, "other");
    other.declare(part.field());
    ASSERT_TRUE(other.begin_step());
    other.get(0, part.bytes());
    part.expect(0);
    other.end_step();
    while (c.begin()) c.take();
    EXPECT_EQ(c.steps, (Numbers{2}));
    EXPECT_FALSE(other.begin_step());
    c.in.close();
    other.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

// A reader of a state gets the newest version when it joins, and never an older one once a newer
// one is complete. The writer never waits for a version to be read.
TEST(State, GivesAReaderTheNewestVersion) {
  World world;
  Event has_five, has_read, is_written, has_read_again, is_late_reader_served;
  world.start("writer", 2, [&](Session& s) {
    Producer p(s, {.wait_for_consumers = 0, .is_state = true, .keep_steps = 1});
    p.put_to(5);
    has_five.set();
    serve_until(s, p.out, has_read);
    p.put_to(40);
    is_written.set();
    serve_until(s, p.out, has_read_again, 3);
    serve_until(s, p.out, is_late_reader_served);
    p.put_to(41);
    p.out.close();
  });
  world.start("reader", 3, [&](Session& s) {
    if (s.rank() == Rank{0}) has_five.wait(2);
    s.run_collectively([] {});
    Consumer c(s, {});
    EXPECT_TRUE(c.begin());
    EXPECT_EQ(c.in.step(), 4u);
    if (s.rank() == Rank{0}) has_read.set();
    is_written.wait(2);
    c.take();  // complete, although 35 newer versions have been put since
    EXPECT_TRUE(c.begin());
    EXPECT_EQ(c.in.step(), 39u);
    c.take();
    has_read_again.set();
    EXPECT_TRUE(c.begin());
    EXPECT_EQ(c.in.step(), 40u);
    c.take();
    EXPECT_FALSE(c.begin());
    c.in.close();
  });
  world.start("late", 1, [&](Session& s) {
    has_read_again.wait(3);
    Consumer c(s, {});
    EXPECT_TRUE(c.begin());
    EXPECT_EQ(c.in.step(), 39u);
    c.take();
    is_late_reader_served.set();
    while (c.begin()) c.take();
    EXPECT_EQ(c.steps.back(), 40u);
    c.in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

// Each step goes to exactly one of the groups that share the steps, whatever their pace. A consumer
// that does not share gets all steps.
TEST(Share, GivesEachStepToOneOfTheGroups) {
  for (const int depth : {0, 1, 3}) {
    SCOPED_TRACE(depth);
    World world;
    std::mutex mutex;
    std::map<std::string, std::vector<Numbers>> taken;  // by group, for each rank
    Event has_put;
    world.start("producer", 2, [&](Session& s) {
      Producer p(s, {.queue_depth = depth, .wait_for_consumers = 4});
      p.put_to(60);
      has_put.set();
      p.out.close();
      EXPECT_EQ(p.out.statistics().dropped, 0u);
    });
    for (const std::string group : {"slow", "b", "c", "all"})
      world.start(group, group == "b" ? 3 : 1, [&, group](Session& s) {
        Consumer c(s, {.steps = group == "all" ? Steps::every : Steps::share});
        while (c.begin()) {
          // With queue_depth 0 a producer waits until each step is taken.
          if (group == "slow" && depth > 0) has_put.wait(2);
          c.take();
          EXPECT_EQ(c.in.statistics().dropped, 0u);
        }
        c.in.close();
        const std::scoped_lock lock(mutex);
        taken[group].push_back(c.steps);
      });
    EXPECT_EQ(text_of(world.join()), "");
    Numbers all(60);
    for (std::uint64_t step = 0; step < 60; ++step) all[step] = step;
    EXPECT_EQ(taken["all"][0], all);
    for (const Numbers& of_rank : taken["b"]) EXPECT_EQ(of_rank, taken["b"][0]);
    Numbers shared;
    for (const std::string group : {"slow", "b", "c"}) {
      const Numbers& steps = taken[group][0];
      EXPECT_FALSE(steps.empty()) << group;
      shared.insert(shared.end(), steps.begin(), steps.end());
    }
    std::ranges::sort(shared);
    EXPECT_EQ(shared, all);
    if (depth > 0) {
      EXPECT_LE(taken["slow"][0].size(), static_cast<std::size_t>(depth));
    }
  }
}

// When a group leaves, at most one step is lost with it, and the other groups get all later steps.
TEST(Share, ContinuesWithoutAGroupThatLeaves) {
  World world;
  std::mutex mutex;
  Numbers taken;
  Event has_left;
  std::atomic<std::uint64_t> put_before = 0;  // steps until all ranks knew that the group had left
  world.start("producer", 2, [&](Session& s) {
    Producer p(s, {.queue_depth = 1, .wait_for_consumers = 2});
    std::uint64_t put = 0;
    const auto end = core::Deadline::after(120);
    const auto all_know = [&] {
      const auto known = s.run_on_root(
          [&] { return core::Bytes(has_left.has_occurred() || end.expired() ? 1 : 0); },
          core::Deadline::after(30));
      return !known.empty();
    };
    // On a busy machine the other group may take nearly all of the first steps.
    do p.put_to(put += 20);
    while (!all_know());
    put_before = put;
    p.put_to(put + 20);
    p.out.close();
  });
  for (const std::string group : {"stays", "leaves"})
    world.start(group, 1, [&, group](Session& s) {
      Consumer c(s, {.steps = Steps::share});
      while (c.steps.size() < (group == "leaves" ? 3 : 1'000'000) && c.begin()) c.take();
      c.in.close();
      if (group == "leaves") has_left.set();
      const std::scoped_lock lock(mutex);
      taken.insert(taken.end(), c.steps.begin(), c.steps.end());
    });
  EXPECT_EQ(text_of(world.join()), "");
  EXPECT_TRUE(has_left.has_occurred());
  std::ranges::sort(taken);
  EXPECT_TRUE(std::ranges::adjacent_find(taken) == taken.end());  // no step twice
  EXPECT_GE(taken.size(),
            put_before + 19);  // all but one, which may have been on its way to the group that left
  for (std::uint64_t step = put_before; step < put_before + 20; ++step)
    EXPECT_TRUE(std::ranges::binary_search(taken, step)) << step;
}

// All queues are full when one group fails: the other group gets every later step.
TEST(Share, GivesNoStepToAGroupThatHasFailed) {
  World world;
  std::mutex mutex;
  Numbers taken;
  Event has_begun, has_failed;
  world.start("producer", 2, [&](Session& s) {
    Part part(s);
    OutStream out(s, "s", {.queue_depth = 1, .wait_for_consumers = 2});
    out.declare(part.field());
    int losses = 0;
    for (std::uint64_t step = 0; step < 10; ++step) {
      for (bool is_begun = false; !is_begun;) try {
          out.begin_step();
          is_begun = true;
        } catch (const Error& e) {
          EXPECT_EQ(e.code(), Errc::peer_lost) << e.what();
          ASSERT_EQ(++losses, 1);
        }
      part.fill(step);
      out.put(0, part.bytes());
      out.end_step();
    }
    try {
      out.close();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Errc::peer_lost) << e.what();
      ++losses;
    }
    EXPECT_EQ(losses, 1);
  });
  world.start("stays", 1, [&](Session& s) {
    Consumer c(s, {.steps = Steps::share});
    while (c.begin()) {
      if (c.steps.size() == 1) {
        has_begun.set();
        has_failed.wait();
      }
      c.take();
    }
    c.in.close();
    const std::scoped_lock lock(mutex);
    taken = c.steps;
  });
  world.start("fails", 1, [&](Session& s) {
    {
      Consumer c(s, {.steps = Steps::share});
      EXPECT_TRUE(c.begin());
      has_begun.wait();
      // Gives the producer time to find no room.
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }  // frees the stream inside the step
    has_failed.set();
  });
  EXPECT_EQ(text_of(world.join()), "");
  ASSERT_EQ(taken.size(), 9u);
  EXPECT_EQ(taken.back(), 9u);
}

}  // namespace
}  // namespace tremula::client
