// SPDX-License-Identifier: Apache-2.0
// Tests consumers that outlive their producer, and what a consumer that joins or leaves costs other groups.
// Every element carries its step and its own global number.
#include <mutex>

#include "tests/client/stream/numbered_steps.hpp"

namespace tremula::client {
namespace {

using numbered::Consumer;
using numbered::Event;
using numbered::Numbers;
using numbered::Part;

/// Returns rank 0's answer on all ranks of a group.
bool ask_root(Session& session, const std::function<bool()>& question) {
  return !session
              .run_on_root([&] { return core::Bytes(question() ? 1 : 0); },
                           core::Deadline::after(30))
              .empty();
}

class Producer {
public:
  Producer(Session& session, const OutConfig& config)
      : out(session, "s", config),
        part_(session),
        step_(static_cast<std::uint64_t>(config.first_step)) {
    out.declare(part_.field());
  }
  void begin_and_put() {
    out.begin_step();
    part_.fill(step_);
    out.put(0, part_.bytes());
  }
  void put_one() {
    begin_and_put();
    out.end_step();
    part_.fill(++step_ + 999);
  }
  void put_to(std::uint64_t end) {
    while (step_ < end) put_one();
  }
  std::uint64_t step() const { return step_; }
  OutStream out;

private:
  Part part_;
  std::uint64_t step_;
};

/// Marker among the step numbers that a rank has taken: another producer follows.
constexpr std::uint64_t epoch = ~std::uint64_t{0};

/// Takes steps to the end and returns their numbers. A step counts once end_step has returned.
Numbers take_all(Session& session, InStream& in, const std::function<Begun()>& begin,
                 const Event& lost) {
  Part part(session);
  Numbers seen;
  for (;;) {
    const Begun begun = begin();
    if (begun == Begun::end_of_stream) return seen;
    if (begun == Begun::epoch) {
      EXPECT_TRUE(lost.has_occurred());
      seen.push_back(epoch);
    }
    if (begun != Begun::step) continue;
    try {
      in.get(0, part.bytes());
      in.end_step();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Errc::peer_lost) << e.what();
      EXPECT_NE(std::string(e.what()).find("waits for the producer to be started again"),
                std::string::npos)
          << e.what();
      continue;
    }
    part.expect(in.step());
    seen.push_back(in.step());
  }
}

struct Restart {
  std::string name;
  int queue_depth = 2;
  bool polls = false;
};
class NextEpoch : public testing::TestWithParam<Restart> {};

TEST_P(NextEpoch, ContinuesWithTheNextProducerOnAllRanks) {
  const auto [name, queue_depth, polls] = GetParam();
  World world;
  world.step_timeout = 60;
  Event lost;
  const OutConfig options{.queue_depth = queue_depth};
  world.start("first", 2, [&](Session& s) {
    {
      Producer p(s, options);
      p.put_to(5);
      try {
        p.begin_and_put();  // half a step, which is given up
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), Errc::peer_lost) << e.what();  // the other rank was faster
      }
    }
    lost.set();
  });
  world.start("second", 4, [&](Session& s) {
    if (s.rank() == Rank{0}) lost.wait(2);
    s.run_collectively([] {});
    OutConfig from_checkpoint = options;
    from_checkpoint.first_step = 4;
    Producer p(s, from_checkpoint);
    p.put_to(9);
    p.out.close();
    EXPECT_EQ(p.out.statistics().steps, 5u);
  });
  std::mutex mutex;
  std::vector<Numbers> all;
  world.start("consumer", 3, [&](Session& s) {
    InStream in(s, "s", {.restart_timeout = 60});
    in.declare(Part(s).field());
    const auto begin = [&, is_linked = false]() mutable {
      const auto begun =
          in.begin(polls && is_linked ? std::optional(core::Deadline::after(0)) : std::nullopt);
      is_linked = true;
      return begun;
    };
    auto seen = take_all(s, in, begin, lost);
    EXPECT_EQ(in.statistics().steps, seen.size() - 1);
    in.close();
    const std::scoped_lock lock(mutex);
    all.push_back(std::move(seen));
  });
  EXPECT_EQ(text_of(world.join()), "");
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0], all[1]);
  EXPECT_EQ(all[0], all[2]);
  const Numbers whole{0, 1, 2, 3, 4, epoch, 4, 5, 6, 7, 8},
      without_4{0, 1, 2, 3, epoch, 4, 5, 6, 7, 8};
  EXPECT_TRUE(all[0] == whole || (queue_depth > 0 && all[0] == without_4))
      << testing::PrintToString(all[0]);
}

INSTANTIATE_TEST_SUITE_P(Of, NextEpoch,
                         testing::Values(Restart{"queue"}, Restart{"no_queue", 0},
                                         Restart{"polls", 2, true}),
                         [](const auto& test) { return test.param.name; });

TEST(Epochs, AreAwaitedForRestartTimeout) {
  World world;
  Event taken, lost;
  world.start("producer", 1, [&](Session& s) {
    {
      Producer p(s, {});
      p.put_to(2);
      taken.wait(2);
    }
    lost.set();
  });
  world.start("consumer", 2, [&](Session& s) {
    InStream in(s, "s", {.restart_timeout = 0.5});
    in.declare(Part(s).field());
    EXPECT_EQ(in.begin(std::nullopt), Begun::step);
    in.end_step();
    taken.set();
    try {
      take_all(
          s, in, [&] { return in.begin(std::nullopt); }, lost);
      ADD_FAILURE() << "the stream has ended";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Errc::timed_out);
      EXPECT_NE(std::string(e.what()).find(
                    "stream 's': expected its producer, which was lost, to be started again "
                    "within 0.5 s; found no stream"),
                std::string::npos)
          << e.what();
    }
    in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

// A producer that is lost while it is being linked begins no epoch, whether before or after the first step.
TEST(Epochs, BeginWithAProducerThatStays) {
  for (int turn = 0; turn < 20; ++turn) {
    World world;
    Event lost;
    world.start("first", 1, [&](Session& s) {
      {
        Producer p(s, {});
        p.put_to(2);
      }
      lost.set();
    });
    world.start("second", 1, [&](Session& s) {
      lost.wait();
      Producer p(s, {.first_step = 2});
      p.put_to(4);
      p.out.close();
    });
    world.start("consumer", 2, [&](Session& s) {
      InStream in(s, "s", {.restart_timeout = 60});
      in.declare(Part(s).field());
      const auto seen = take_all(
          s, in, [&] { return in.begin(std::nullopt); }, lost);
      ASSERT_GE(seen.size(), 2u);
      EXPECT_EQ(Numbers(seen.end() - 2, seen.end()), (Numbers{2, 3}));
      in.close();
    });
    EXPECT_EQ(text_of(world.join()), "");
  }
}

TEST(Epochs, SkipAProducerWhoseFieldsDoNotFit) {
  World world;
  Event taken, lost, refused;
  world.start("first", 1, [&](Session& s) {
    {
      Producer p(s, {});
      p.put_to(2);
      taken.wait(2);
    }
    lost.set();
  });
  world.start("other", 1, [&](Session& s) {
    lost.wait();
    OutStream out(s, "s", {});
    out.declare({.name = "f",
                 .type = core::ElementType::i64,
                 .layout = index_calc::Layout::parse("shape=7 grid=1")});
    EXPECT_THROW(out.begin_step(), Error);
    out.close();
    refused.set();
  });
  world.start("second", 1, [&](Session& s) {
    refused.wait();
    Producer p(s, {.first_step = 2});
    p.put_to(4);
    p.out.close();
  });
  world.start("consumer", 2, [&](Session& s) {
    InStream in(s, "s", {.restart_timeout = 60});
    in.declare(Part(s).field());
    EXPECT_EQ(in.begin(std::nullopt), Begun::step);
    in.end_step();
    taken.set();
    int mismatches = 0;
    const auto begin = [&] {
      try {
        return in.begin(std::nullopt);
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), Errc::mismatch) << e.what();
        EXPECT_EQ(mismatches++, 0);
        refused.wait();
        return Begun::not_ready;
      }
    };
    const auto seen = take_all(s, in, begin, lost);
    EXPECT_EQ(mismatches, 1);
    EXPECT_EQ(Numbers(seen.end() - 3, seen.end()), (Numbers{epoch, 2, 3}));
    in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(FirstStep, NumbersKeptSteps) {
  World world;
  Event has_put;
  world.start("producer", 2, [&](Session& s) {
    Producer p(s, {.wait_for_consumers = 0, .keep_steps = 4, .first_step = 100});
    p.put_to(102);  // fewer than are kept
    has_put.set();
    while (ask_root(s, [&] { return p.out.peer_statistics().empty(); }))
      p.out.serve(core::Deadline::after(0.05));
    p.put_to(104);
    p.out.close();
  });
  world.start("consumer", 3, [&](Session& s) {
    if (s.rank() == Rank{0}) has_put.wait(2);
    s.run_collectively([] {});
    Consumer c(s, {.start = Start::oldest});
    while (c.begin()) c.take();
    EXPECT_EQ(c.steps, (Numbers{100, 101, 102, 103}));
    c.in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

/// Returns how many packages one rank has exchanged with each rank of `group` since their link was
/// opened.
Numbers packages_with(const std::vector<PeerStatistics>& peers, const std::string& group) {
  Numbers packages;
  for (const PeerStatistics& peer : peers)
    if (peer.group == group) packages.push_back(peer.traffic.packages);
  return packages;
}

// A consumer is lost, and another joins: only the plan and the link of the new consumer are made.
TEST(Membership, ChangeKeepsOtherPlansAndLinks) {
  World world;
  world.step_timeout = 60;
  Event steady_is_there, mortal_is_there, mortal_is_gone, late_is_there;
  world.start("producer", 2, [&](Session& s) {
    Producer p(s, {});
    const auto put_until = [&](const Event& event, int count) {
      while (!ask_root(s, [&] { return event.has_occurred(count); })) p.put_one();
    };
    put_until(mortal_is_there, 4);
    EXPECT_EQ(s.plans().size(), 2u);
    put_until(mortal_is_gone, 4);
    put_until(late_is_there, 1);
    p.put_to(p.step() + 3);
    // A request for any other plan would be a hit, or add one more plan.
    EXPECT_EQ(s.plans().hits(), 0u);
    EXPECT_EQ(s.plans().size(), 3u);  // including the plan of the lost group, which is idle
    EXPECT_EQ(packages_with(p.out.peer_statistics(), "steady"), Numbers(3, p.step()));
    EXPECT_EQ(packages_with(p.out.peer_statistics(), "late").size(), 1u);
    p.out.close();
  });
  world.start("steady", 3, [&](Session& s) {
    Consumer c(s, {});
    ASSERT_TRUE(c.begin());
    EXPECT_EQ(c.steps, Numbers{0});
    c.take();
    steady_is_there.set();
    const double plan_seconds = c.in.statistics().plan_seconds;
    while (c.begin()) {
      EXPECT_EQ(packages_with(c.in.peer_statistics(), "producer"), Numbers(2, c.in.step()));
      c.take();
    }
    EXPECT_EQ(s.plans().size(), 1u);
    EXPECT_EQ(s.plans().hits(), 0u);
    EXPECT_EQ(c.in.statistics().plan_seconds, plan_seconds);
    for (std::uint64_t step = 0; step < c.steps.size(); ++step) EXPECT_EQ(c.steps[step], step);
    c.in.close();
  });
  world.start("mortal", 4, [&](Session& s) {
    if (s.rank() == Rank{0}) steady_is_there.wait(3);
    s.run_collectively([] {});
    {
      Consumer c(s, {});
      ASSERT_TRUE(c.begin());
      c.take();
      mortal_is_there.set();
      ASSERT_TRUE(c.begin());
      if (s.rank() == Rank{0}) mortal_is_there.wait(4);
    }  // given up in a step
    mortal_is_gone.set();
  });
  world.start("late", 1, [&](Session& s) {
    mortal_is_gone.wait(4);
    Consumer c(s, {});
    ASSERT_TRUE(c.begin());
    late_is_there.set();
    do c.take();
    while (c.begin());
    c.in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

}  // namespace
}  // namespace tremula::client
