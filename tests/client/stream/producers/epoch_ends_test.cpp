// SPDX-License-Identifier: Apache-2.0
// Tests how the steps of a consumer that outlives its producer end if its ranks see different events, or
// cannot be linked again immediately.
#include <optional>

#include "tests/client/stream/numbered_steps.hpp"

namespace tremula::client {
namespace {

using numbered::Event;
using numbered::Numbers;
using numbered::Part;
using numbered::Producer;

const auto at_once = [] { return std::optional(core::Deadline::after(0)); };

void take(InStream& in, Part& part) {
  in.get(0, part.bytes());
  in.end_step();
  part.expect(in.step());
}

/// Puts the steps from `first` to `end` - 1. Then closes the stream if `taken` is null; otherwise
/// gives the stream up once `taken` has occurred `takers` times.
void produce(Session& s, int first, std::uint64_t end, const Event* taken, int takers) {
  OutStream out(s, "s", {.first_step = first});
  Part part(s);
  out.declare(part.field());
  for (auto step = static_cast<std::uint64_t>(first); step < end; ++step) {
    out.begin_step();
    part.fill(step);
    out.put(0, part.bytes());
    out.end_step();
  }
  if (taken != nullptr)
    taken->wait(takers);
  else
    out.close();
}

TEST(EndOfStream, IsSeenByEachRankForItself) {
  World world;
  world.step_timeout = 60;
  const auto start = core::Deadline::Clock::now();
  Event seen;
  world.start("producer", 2, [&](Session& s) { produce(s, 0, 2, nullptr, 0); });
  world.start("consumer", 3, [&](Session& s) {
    InStream in(s, "s", {.restart_timeout = 60});
    Part part(s);
    in.declare(part.field());
    for (int step = 0; step < 2; ++step) {
      ASSERT_EQ(in.begin(std::nullopt), Begun::step);
      take(in, part);
    }
    if (s.rank() != Rank{1}) seen.wait();  // outside every call of the stream
    Begun begun = Begun::not_ready;
    while ((begun = in.begin(at_once())) == Begun::not_ready) {
    }
    EXPECT_EQ(begun, Begun::end_of_stream);
    seen.set();
    EXPECT_EQ(in.begin(std::nullopt), Begun::end_of_stream);
    in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
  const core::Deadline::Seconds took = core::Deadline::Clock::now() - start;
  EXPECT_LT(took.count(), 50) << "expected less than step_timeout";
}

// The ranks make other agreements meanwhile.
TEST(Loss, IsAgreedOnWithoutWaitingInOneCall) {
  World world;
  world.step_timeout = 60;
  Event taken, lost;
  world.start("first", 2, [&](Session& s) {
    produce(s, 0, 2, &taken, 3);
    lost.set();
  });
  world.start("second", 1, [&](Session& s) {
    lost.wait(2);
    produce(s, 2, 4, nullptr, 0);
  });
  world.start("consumer", 3, [&](Session& s) {
    InStream in(s, "s", {.restart_timeout = 60});
    Part part(s);
    in.declare(part.field());
    for (int step = 0; step < 2; ++step) {
      ASSERT_EQ(in.begin(std::nullopt), Begun::step);
      take(in, part);
    }
    taken.set();
    lost.wait(2);
    for (int turn = 0; turn < 40; ++turn) {
      if (s.rank() == Rank{1}) {
        EXPECT_EQ(in.begin(at_once()), Begun::not_ready);
        std::this_thread::sleep_for(std::chrono::milliseconds(40));  // until it sees the loss
      }
      s.run_collectively([] {});
    }
    Numbers seen;
    for (;;) {
      const Begun begun = in.begin(at_once());
      if (begun == Begun::end_of_stream) break;
      if (begun == Begun::epoch) seen.push_back(99);
      if (begun != Begun::step) continue;
      take(in, part);
      seen.push_back(in.step());
    }
    EXPECT_EQ(seen, (Numbers{99, 2, 3}));
    in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

// Ranks of the producer set different times. One rank of the consumer receives both.
TEST(Failure, IsReportedToTheOtherRanks) {
  World world;
  world.step_timeout = 60;
  const auto field = [](const std::string& layout) {
    return proto::Field{.name = "f",
                        .type = core::ElementType::i64,
                        .layout = index_calc::Layout::parse(layout),
                        .origin = {}};
  };
  Event failed;
  world.start("producer", 2, [&](Session& s) {
    try {
      OutStream out(s, "s", {});
      out.declare(field("shape=12 grid=2 block=6"));
      out.set_attribute(of_stream, "time_unit", std::vector<std::string>{"s"});
      const std::vector<std::int64_t> mine(6, 1);
      out.begin_step();
      out.set_time(s.rank().value);
      out.put(0, std::as_bytes(std::span(mine)));
      out.end_step();
      failed.wait(2);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Errc::peer_lost) << e.what();
    }
  });
  const auto start = core::Deadline::Clock::now();
  world.start("consumer", 2, [&](Session& s) {
    InStream in(s, "s", {.restart_timeout = 60});
    in.declare(field("shape=12 grid=2 splits0=0/3/12"));
    try {
      EXPECT_EQ(in.begin(std::nullopt), Begun::step);
      in.end_step();
      ADD_FAILURE() << "rank " << s.rank().value;
    } catch (const Error& e) {
      const std::string text = e.what();
      EXPECT_EQ(e.code(), Errc::mismatch) << text;
      EXPECT_NE(text.find("time"), text.npos) << text;
      const bool is_other = text.find("rank 1 of group 'consumer' has failed: ") != text.npos;
      EXPECT_EQ(is_other, s.rank() == Rank{0}) << text;
    }
    failed.set();
    in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
  const core::Deadline::Seconds took = core::Deadline::Clock::now() - start;
  EXPECT_LT(took.count(), 50) << "expected less than step_timeout";
}

TEST(Failure, IsReportedIfARankFreesTheStreamInAStep) {
  World world;
  world.step_timeout = 60;
  Event gone;
  world.start("producer", 2, [&](Session& s) {
    try {
      produce(s, 0, 2, &gone, 3);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Errc::peer_lost) << e.what();
    }
  });
  const auto start = core::Deadline::Clock::now();
  world.start("consumer", 3, [&](Session& s) {
    try {
      InStream in(s, "s", {.restart_timeout = 60});
      Part part(s);
      in.declare(part.field());
      ASSERT_EQ(in.begin(std::nullopt), Begun::step);
      in.get(0, part.bytes());
      if (s.rank() == Rank{2}) throw Error(Errc::internal, "of the application");
      const auto expect_loss = [&](const std::function<void()>& call) {
        try {
          call();
          ADD_FAILURE() << "rank " << s.rank().value;
        } catch (const Error& e) {
          const std::string text = e.what();
          EXPECT_EQ(e.code(), Errc::peer_lost) << text;
          EXPECT_NE(text.find("stream 's': rank 2 of group 'consumer' has failed: it left the "
                              "stream before its end"),
                    text.npos)
              << text;
        }
      };
      expect_loss([&] { in.end_step(); });
      // Continues after peer_lost, as the manual's loop does.
      for (int more = 0; more < 2; ++more) expect_loss([&] { in.begin(std::nullopt); });
    } catch (const Error& e) {
      EXPECT_EQ(s.rank(), Rank{2}) << e.what();
    }
    gone.set();
  });
  EXPECT_EQ(text_of(world.join()), "");
  const core::Deadline::Seconds took = core::Deadline::Clock::now() - start;
  EXPECT_LT(took.count(), 50) << "expected less than step_timeout";
}

TEST(Failure, IsAnEndOfAStepThatIsNotKnown) {
  World world;
  world.step_timeout = 60;
  Event seen, gone;
  world.start("producer", 1, [&](Session& s) {
    try {
      produce(s, 0, 2, &gone, 2);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Errc::peer_lost) << e.what();
    }
  });
  world.start("consumer", 2, [&](Session& s) {
    InStream in(s, "s", {.restart_timeout = 60});
    Part part(s);
    in.declare(part.field());
    ASSERT_EQ(in.begin(std::nullopt), Begun::step);
    if (s.rank() == Rank{1}) {
      const std::uint64_t subject = s.words().said().front().first;
      s.words().say(s.group(), subject, 0, {.value = 9, .is_final = true});
      seen.wait();
    } else {
      try {
        in.end_step();
        ADD_FAILURE() << "expected an error";
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), Errc::protocol) << e.what();
        EXPECT_NE(std::string(e.what()).find("found number 9"), std::string::npos) << e.what();
      }
      EXPECT_THROW(in.begin(std::nullopt), Error) << "the stream has not ended in order";
      seen.set();
    }
    gone.set();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

// The server is away for longer than the session's timeout.
TEST(Restart, IsAwaitedWhileTheServerIsAway) {
  for (const bool comes_back : {true, false}) {
    SCOPED_TRACE(comes_back);
    World world;
    Event taken, lost, stopped;
    world.start("first", 1, [&](Session& s) {
      produce(s, 0, 2, &taken, 2);
      lost.set();
    });
    world.start(
        "consumer", 2,
        [&](Session& s) {
          InStream in(s, "s", {.restart_timeout = comes_back ? 60.0 : 2.5});
          Part part(s);
          in.declare(part.field());
          for (int step = 0; step < 2; ++step) {
            ASSERT_EQ(in.begin(std::nullopt), Begun::step);
            take(in, part);
          }
          taken.set();
          stopped.wait();
          try {
            ASSERT_EQ(in.begin(std::nullopt), Begun::epoch);
            ASSERT_TRUE(comes_back);
            for (int step = 2; step < 4; ++step) {
              ASSERT_EQ(in.begin(std::nullopt), Begun::step);
              EXPECT_EQ(in.step(), static_cast<std::uint64_t>(step));
              take(in, part);
            }
            EXPECT_EQ(in.begin(std::nullopt), Begun::end_of_stream);
          } catch (const Error& e) {
            ASSERT_FALSE(comes_back) << e.what();
            EXPECT_EQ(e.code(), Errc::no_server) << e.what();
            EXPECT_NE(std::string(e.what()).find(
                          "stream 's': expected its producer, which was lost, to be started again "
                          "within 2.5 s; found server "),
                      std::string::npos)
                << e.what();
          }
          in.close();
        },
        2);
    lost.wait();
    world.stop_server();
    stopped.set();
    if (comes_back) {
      std::this_thread::sleep_for(std::chrono::seconds(4));
      world.start_server();
      world.start(
          "second", 1, [&](Session& s) { produce(s, 2, 4, nullptr, 0); }, 30);
    }
    EXPECT_EQ(text_of(world.join()), "");
  }
}

// A link that is lost while its producer lives does not begin a new epoch, because steps are missing.
TEST(Link, LossDuringTheLifeOfItsProducerBeginsNoEpoch) {
  World world;
  world.step_timeout = 60;
  Event has_failed;
  world.start("producer", 1, [&](Session& s) {
    Producer p(s, {.wait_for_consumers = 0});
    for (std::uint64_t end = 1; !has_failed.has_occurred(2); ++end) {
      p.put_to(end);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    p.out.close();
  });
  world.start("consumer", 2, [&](Session& s) {
    InStream in(s, "s", {.restart_timeout = 60});
    Part part(s);
    in.declare(part.field());
    ASSERT_EQ(in.begin(std::nullopt), Begun::step);
    take(in, part);
    if (s.rank() == Rank{0}) {
      wire::ToServer message;
      message.mutable_close_link()->set_link(1);
      message.mutable_close_link()->set_gave_up(true);
      message.mutable_close_link()->set_why("its path is cut");
      s.control().call(message, core::Deadline::after(30));
    }
    for (;;) try {
        const Begun begun = in.begin(std::nullopt);
        EXPECT_EQ(begun, Begun::step) << "an epoch or the end would hide missing steps";
        if (begun != Begun::step) break;
        in.end_step();
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), Errc::peer_lost) << e.what();
        const std::string text = e.what();
        if (text.find("counts on no rank") != text.npos) continue;
        EXPECT_NE(text.find("stream 's': the link was lost but the producer goes on"), text.npos)
            << text;
        break;
      }
    has_failed.set();
    in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

}  // namespace
}  // namespace tremula::client
