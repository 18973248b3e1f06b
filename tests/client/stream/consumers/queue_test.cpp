// SPDX-License-Identifier: Apache-2.0
// Tests steps for which a consumer's queue has no room. Every element carries its step and its own
// global number.
#include <random>

#include "tests/client/stream/numbered_steps.hpp"

namespace tremula::client {
namespace {

using numbered::Consumer;
using numbered::Event;
using numbered::extent;
using numbered::Numbers;
using numbered::Part;
using numbered::Producer;

TEST(Queue, DropNewestSkipsStepsWithoutRoomOnAnyRank) {
  World world;
  Event is_full;
  world.start("producer", 2, [&](Session& s) {
    Producer p(s, {.queue_depth = 2, .when_full = WhenFull::drop_newest});
    p.put_to(10);  // consumer rank 1 holds step 0, so the queue has room for step 1 only
    is_full.set();
    EXPECT_EQ(p.out.statistics().dropped, 8u);
    p.out.wait_taken(9);
    p.put_to(11);
    p.out.close();
    const auto statistics = p.out.statistics();
    EXPECT_EQ(statistics.steps, 11u);
    EXPECT_EQ(statistics.dropped, 8u);
    EXPECT_EQ(statistics.queued_steps, 2u);
    EXPECT_EQ(statistics.queued_bytes, 2u * extent * 8 / 2);
  });
  world.start("consumer", 3, [&](Session& s) {
    Consumer c(s, {});
    while (c.begin()) {
      if (s.rank() == Rank{1}) is_full.wait(2);
      EXPECT_EQ(c.in.statistics().dropped, c.in.step() == 10 ? 8u : 0u);
      c.take();
    }
    EXPECT_EQ(c.steps, (Numbers{0, 1, 10}));
    EXPECT_EQ(c.in.statistics().steps, 3u);
    EXPECT_EQ(c.in.statistics().dropped, 8u);
    c.in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(Queue, DropOldestKeepsTheNewestAndBegunSteps) {
  World world;
  Event is_begun, is_full, is_second_begun, is_full_again;
  world.start("producer", 3, [&](Session& s) {
    Producer p(s, {.queue_depth = 3, .when_full = WhenFull::drop_oldest});
    p.put_to(1);
    while (!p.out.poll_ready()) std::this_thread::yield();
    is_begun.wait(2);
    p.put_to(10);  // step 0 is being taken; steps 8 and 9 are kept
    EXPECT_EQ(p.out.statistics().dropped, 7u);
    EXPECT_TRUE(p.out.poll_ready()) << "the next step must not wait for a consumer";
    is_full.set();
    is_second_begun.wait();
    p.put_to(20);  // rank 1 still has step 0, and rank 0 has step 8, which rank 1 must get too
    EXPECT_EQ(p.out.statistics().dropped, 7u + 10u);
    is_full_again.set();
    p.out.close();
    EXPECT_EQ(p.out.statistics().dropped, 17u);
    EXPECT_EQ(p.out.statistics().queued_steps, 3u);
  });
  world.start("consumer", 2, [&](Session& s) {
    Consumer c(s, {});
    EXPECT_TRUE(c.begin());
    is_begun.set();
    if (s.rank() == Rank{0}) {
      is_full.wait(3);
      c.take();
      EXPECT_TRUE(c.begin());
      is_second_begun.set();
    }
    is_full_again.wait(3);
    c.take();
    while (c.begin()) c.take();
    EXPECT_EQ(c.steps, (Numbers{0, 8, 19}));
    EXPECT_EQ(c.in.statistics().dropped, 17u);
    c.in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(Queue, DropOldestKeepsTheNewestAtDepthOne) {
  World world;
  Event is_begun, is_full;
  world.start("producer", 1, [&](Session& s) {
    Producer p(s, {.queue_depth = 1, .when_full = WhenFull::drop_oldest});
    p.put_to(1);
    is_begun.wait();
    p.put_to(5);  // step 0 is being taken, so not even the newest step has room
    EXPECT_EQ(p.out.statistics().dropped, 4u);
    is_full.set();
    p.out.close();
  });
  world.start("consumer", 1, [&](Session& s) {
    Consumer c(s, {});
    EXPECT_TRUE(c.begin());
    is_begun.set();
    is_full.wait();
    c.take();
    EXPECT_FALSE(c.begin());
    EXPECT_EQ(c.in.statistics().dropped, 4u) << "steps dropped right before the end must count";
    c.in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

// A consumer that takes every step of a blocking producer is not delayed by one that takes only the
// latest step.
TEST(Queue, ConsumerOfTheLatestStepDelaysNoOtherJob) {
  for (const int queue_depth : {0, 2}) {
    SCOPED_TRACE(queue_depth);
    World world;
    Event is_begun, has_all;
    world.start("producer", 2, [&](Session& s) {
      Producer p(s, {.queue_depth = queue_depth, .wait_for_consumers = 2});
      p.put_to(1);
      is_begun.wait(2);
      p.put_to(50);
      has_all.wait();  // the group "every" gets all 50 steps before the stream is closed
      p.out.close();
      EXPECT_EQ(p.out.statistics().dropped, 48u);
    });
    world.start("every", 1, [&](Session& s) {
      Consumer c(s, {});
      for (std::uint64_t step = 0; c.begin(); ++step) {
        EXPECT_EQ(c.in.step(), step);
        c.take();
        if (step == 49) has_all.set();
      }
      EXPECT_EQ(c.steps.size(), 50u);
      EXPECT_EQ(c.in.statistics().dropped, 0u);
      c.in.close();
    });
    world.start("latest", 2, [&](Session& s) {
      Consumer c(s, {.steps = Steps::latest});
      EXPECT_TRUE(c.begin());
      is_begun.set();
      has_all.wait();
      c.take();
      EXPECT_TRUE(c.begin());
      c.take();
      EXPECT_FALSE(c.begin());
      EXPECT_EQ(c.steps, (Numbers{0, 49}));
      EXPECT_EQ(c.in.statistics().dropped, 48u);
      c.in.close();
    });
    EXPECT_EQ(text_of(world.join()), "");
  }
}

// Ranks that run at different paces may be at different steps. A rank that lags first gets the step
// that the other ranks have taken; then all ranks get the newest step.
TEST(Queue, LatestStepReachesRanksAtDifferentSteps) {
  for (const bool asks_for_a_third : {false, true}) {
    SCOPED_TRACE(asks_for_a_third);
    World world;
    Event is_begun, is_ended, is_apart, is_full;
    world.start("producer", 3, [&](Session& s) {
      Producer p(s, {});
      p.put_to(1);
      is_begun.wait(2);
      p.put_to(10);  // step 0 is being taken
      is_ended.set();
      is_apart.wait();
      p.put_to(11);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      p.put_to(50);  // rank 1 still has step 0; rank 0 has step 9 or requests the next step
      is_full.set();
      p.out.close();
      EXPECT_EQ(p.out.statistics().dropped, 47u);
    });
    world.start("consumer", 2, [&](Session& s) {
      Consumer c(s, {.steps = Steps::latest});
      EXPECT_TRUE(c.begin());
      is_begun.set();
      if (s.rank() == Rank{0}) {
        is_ended.wait(3);
        c.take();
        EXPECT_TRUE(c.begin());
        if (asks_for_a_third) c.take();
        is_apart.set();
      }
      if (s.rank() == Rank{1} || !asks_for_a_third) {
        is_full.wait(3);
        c.take();
      }
      while (c.begin()) c.take();
      EXPECT_EQ(c.steps, (Numbers{0, 9, 49}));
      EXPECT_EQ(c.in.statistics().dropped, 47u);
      c.in.close();
    });
    EXPECT_EQ(text_of(world.join()), "");
  }
}

// The next step is requested when it is begun, not when the previous step ends, so it is not stale
// even if the consumer computes in between.
TEST(Queue, LatestStepIsTheLatestWhenItBegins) {
  World world;
  Event has_ended, is_full;
  world.start("producer", 1, [&](Session& s) {
    Producer p(s, {});
    p.put_to(1);
    has_ended.wait();
    p.out.wait_taken(0);
    p.put_to(20);
    is_full.set();
    p.out.close();
  });
  world.start("consumer", 1, [&](Session& s) {
    Consumer c(s, {.steps = Steps::latest});
    EXPECT_TRUE(c.begin());
    c.take();
    has_ended.set();
    is_full.wait();
    EXPECT_TRUE(c.begin());
    EXPECT_EQ(c.in.step(), 19u);
    c.take();
    EXPECT_FALSE(c.begin());
    c.in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

// Every call of the session that waits announces kept steps, not only a call that begins the next
// step of their stream: otherwise two jobs whose queues drop steps would wait for each other.
TEST(Queue, KeptStepArrivesDuringAnotherWait) {
  World world;
  for (const bool is_a : {true, false})
    world.start(is_a ? "a" : "b", 2, [=](Session& s) {
      Part part(s);
      OutStream out(
          s, is_a ? "forth" : "back",
          {.queue_depth = 3, .when_full = WhenFull::drop_oldest, .progress = Progress::calls});
      InStream in(s, is_a ? "back" : "forth");
      out.declare(part.field());
      in.declare(part.field());
      const auto put = [&](std::uint64_t step) {
        out.begin_step();
        part.fill(step);
        out.put(0, part.bytes());
        out.end_step();
      };
      for (std::uint64_t step = 0; step < 50; ++step) {
        put(step);  // both jobs put first
        ASSERT_TRUE(in.begin_step());
        in.get(0, part.bytes());
        part.expect(step);
        in.end_step();
      }
      EXPECT_EQ(out.statistics().dropped, 0u);
      out.close();
      EXPECT_FALSE(in.begin_step());
      in.close();
    });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(Queue, BytesBoundItsSteps) {
  World world;
  Event is_full;
  world.start("producer", 2, [&](Session& s) {
    Producer p(s, {.queue_depth = 100,
                   .queue_bytes = 4 * extent * 8 - 1,
                   .when_full = WhenFull::drop_newest});
    p.put_to(10);
    is_full.set();
    p.out.close();
    EXPECT_EQ(p.out.statistics().queued_steps, 3u);
    EXPECT_EQ(p.out.statistics().queued_bytes, 3u * extent * 8 / 2);
    EXPECT_EQ(p.out.statistics().dropped, 7u);
  });
  world.start("consumer", 1, [&](Session& s) {
    Consumer c(s, {});
    EXPECT_TRUE(c.begin());
    is_full.wait(2);
    c.take();
    while (c.begin()) c.take();
    EXPECT_EQ(c.steps, (Numbers{0, 1, 2}));
    c.in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

// Rank 0 has announced that each step waits until it is taken; rank 1 would change its array immediately.
TEST(Queue, OfNoStepIsRefusedByARankThatCopies) {
  World world;
  world.start("producer", 2, [&](Session& s) {
    Producer p(s, {.queue_depth = 2 * s.rank().value});
    p.put_to(1);
  });
  world.start("consumer", 1, [&](Session& s) {
    Consumer c(s, {});
    while (c.begin()) c.take();
  });
  const std::string errors = text_of(world.join());
  EXPECT_NE(errors.find("producer.0: "), std::string::npos) << errors;
  EXPECT_NE(errors.find("expected queue_depth 0, as rank 0 of group 'producer' announced; found 2"),
            std::string::npos)
      << errors;
}

// Producer ranks learn of a failure at different moments. They must agree on the group that gets a
// step, because no group would get all of a step that only some ranks sent over the failed link.
TEST(Queue, StepsSkipAGroupThatFailedOnOneRank) {
  World world;
  Event are_put, failing_has_taken, is_next_begun;
  std::atomic<int> messages = 0;
  world.network().inject_faults([&](const transport::Network::MessageView& message) {
    // The first four steps take two messages each, and none of these fails.
    return transport::Network::Fault{.fail = message.tag == tags::step && ++messages == 9};
  });
  world.start("producer", 2, [&](Session& s) {
    Producer p(s, {.queue_depth = 2, .wait_for_consumers = 1});
    const auto has_both = [&] {
      return !s.run_on_root(
                   [&] { return core::Bytes(p.out.peer_statistics().size() == 2 ? 1 : 0); },
                   core::Deadline::after(30))
                  .empty();
    };
    while (!has_both()) p.out.serve(core::Deadline::after(0.05));
    p.put_to(4);  // two steps for each group: neither group has taken any yet
    are_put.set();
    failing_has_taken.wait();
    p.put_to(5);  // fails on one rank
    is_next_begun.set();
    p.put_to(10);
    p.out.close();
  });
  world.start("failing", 1, [&](Session& s) {
    Consumer c(s, {.steps = Steps::share});
    for (int step = 0; step < 2; ++step) {
      ASSERT_TRUE(c.begin());
      are_put.wait(2);
      c.take();
    }
    failing_has_taken.set();
    try {
      c.begin();
      ADD_FAILURE() << "an incomplete step was delivered: " << c.in.step();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Errc::peer_lost) << e.what();
    }
    EXPECT_EQ(c.steps.size(), 2u);
  });
  world.start("healthy", 1, [&](Session& s) {
    Consumer c(s, {.steps = Steps::share});
    ASSERT_TRUE(c.begin());
    is_next_begun.wait(2);
    // Gives the producer time to find the queue of this group full.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    do c.take();
    while (c.begin());
    ASSERT_EQ(c.steps.size(), 7u);
    EXPECT_EQ(Numbers(c.steps.begin() + 2, c.steps.end()), (Numbers{5, 6, 7, 8, 9}));
    c.in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

/// The steps that each rank of each group saw, and the number of steps that it did not get.
class Seen {
public:
  void add(const std::string& group, const Numbers& steps, std::uint64_t dropped) {
    const std::scoped_lock lock(mutex_);
    all_[group].emplace_back(steps, dropped);
  }
  /// Checks that all ranks of the group saw the same steps.
  /// @param steps  number of steps that the producer put
  /// @return number of steps that the group did not get
  std::uint64_t check(const std::string& group, std::uint64_t steps) {
    const auto& ranks = all_[group];
    if (ranks.empty()) return 0;
    for (const auto& [seen, dropped] : ranks) {
      EXPECT_EQ(seen, ranks[0].first) << group << ": its ranks saw different steps";
      EXPECT_EQ(seen.size() + dropped, steps) << group;
      EXPECT_TRUE(std::ranges::is_sorted(seen, std::less_equal{})) << group;
    }
    return ranks[0].second;
  }

private:
  std::mutex mutex_;
  std::map<std::string, std::vector<std::pair<Numbers, std::uint64_t>>> all_;
};

// All ranks of a consumer see the same complete steps, whatever the pace of each rank.
TEST(Queue, RanksOfAConsumerSeeTheSameStepsAtAnyPace) {
  const char* given = std::getenv("TREMULA_TEST_SEED");
  const auto seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  SCOPED_TRACE(fmt::format("TREMULA_TEST_SEED={}", seed));
  constexpr std::uint64_t steps = 300;
  for (const auto way : {World::Way::loopback, World::Way::local})
    for (const auto when_full : {WhenFull::drop_oldest, WhenFull::drop_newest}) {
      SCOPED_TRACE(static_cast<int>(when_full));
      World world(8192, way);
      world.step_timeout = 60;
      Seen seen;
      Event is_half_put;
      std::atomic<std::uint64_t> dropped = 0;
      const auto nap = [](std::mt19937_64& random, int most) {
        if (random() % 4 == 0)
          std::this_thread::sleep_for(
              std::chrono::microseconds(random() % static_cast<unsigned>(most)));
      };
      world.start("producer", 2, [&](Session& s) {
        std::mt19937_64 random(seed + static_cast<unsigned>(s.rank().value));
        Producer p(s, {.queue_depth = 3, .when_full = when_full, .wait_for_consumers = 3});
        for (std::uint64_t step = 1; step <= steps; ++step) {
          p.put_to(step);
          if (step == steps / 2) is_half_put.set();
          nap(random, 500);
        }
        p.out.close();
        if (s.rank() == Rank{0})
          dropped = p.out.statistics().dropped;
        else
          EXPECT_GE(p.out.statistics().steps, steps);
      });
      for (const auto& [group, size] :
           {std::pair{"quick", 1}, std::pair{"slow", 3}, std::pair{"latest", 2}})
        world.start(group, size, [&, group = std::string(group)](Session& s) {
          std::mt19937_64 random(seed + 100 * group.size() + static_cast<unsigned>(s.rank().value));
          Consumer c(s, {.steps = group == "latest" ? Steps::latest : Steps::every});
          while (c.begin()) {
            // Waits until half of the steps are put: they overflow the queue even if the producer
            // is slow.
            if (group != "quick" && s.rank() == Rank{1} && c.steps.size() == 1) is_half_put.wait(2);
            c.take();
            if (group != "quick") nap(random, s.rank() == Rank{1} ? 10000 : 5000);
          }
          seen.add(group, c.steps, c.in.statistics().dropped);
          c.in.close();
        });
      EXPECT_EQ(text_of(world.join()), "");
      const auto quick = seen.check("quick", steps), slow = seen.check("slow", steps),
                 latest = seen.check("latest", steps);
      EXPECT_EQ(dropped.load(), quick + slow + latest) << "both sides must count the same drops";
      EXPECT_GT(slow, 0u);
      EXPECT_GT(latest, 0u);
    }
}

}  // namespace
}  // namespace tremula::client
