// SPDX-License-Identifier: Apache-2.0
// Tests how the sides of a stream meet: what each side learns, and when. progress_test and tests/coupled show that jobs
// meet in any order.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>

#include "proto/convert.hpp"
#include "tests/client/world.hpp"

namespace tremula::client {
namespace {

using index_calc::Layout;

proto::Field field(RankCount size, int extent = 12) {
  return {.name = "f",
          .type = core::ElementType::i64,
          .layout = Layout::parse(fmt::format("shape={} grid={}", extent, size))};
}
constexpr OutConfig without_consumers{.queue_depth = 2, .wait_for_consumers = 0};

void put(Session& s, OutStream& out) {
  const std::vector<std::int64_t> part(12 / static_cast<std::size_t>(s.size()));
  out.begin_step();
  out.put(0, std::as_bytes(std::span(part)));
  out.end_step();
}
void expect_has(const Error& error, const std::string& part) {
  EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
      << "expected \"" << part << "\" in: " << error.what();
}
template <class Call>
Error error_of(Call&& call) {
  try {
    call();
  } catch (const Error& e) {
    return e;
  }
  ADD_FAILURE() << "expected an error";
  return {Errc::internal, ""};
}

/// Holds ranks that wait in vain until all of them have failed. If one left earlier, the errors of the
/// other ranks would name it.
class Together {
public:
  explicit Together(int ranks) : missing_(ranks) {}
  void wait() {
    --missing_;
    while (missing_ > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

private:
  std::atomic<int> missing_;
};

/// A timeout that no wait reaches, because the errors arrive long before it.
constexpr double long_time = 60;

TEST(SetUp, ReportsAMismatchToBothSidesAtOnce) {
  World world;
  world.start(
      "producer", 2,
      [](Session& s) {
        OutStream out(s, "s", {});
        out.declare(field(2));
        put(s, out);
      },
      long_time);
  world.start(
      "consumer", 3,
      [](Session& s) {
        InStream in(s, "s");
        in.declare(field(3, 15));
        in.begin_step();
      },
      long_time);
  const auto errors = world.join();
  EXPECT_EQ(errors.size(), 5u) << "every rank of both groups";
  for (const auto& [who, e] : errors) {
    EXPECT_EQ(e.code(), Errc::mismatch) << who;
    expect_has(e, "consumer 'consumer' wants shape 15, producer 'producer' offers shape 12; make");
  }
}

TEST(SetUp, KeepsTheErrorOfAStreamForItsOwnNextCall) {
  World world;
  world.start("producer", 1, [](Session& s) {
    OutStream good(s, "good", {}), bad(s, "bad", without_consumers);
    good.declare(field(1)), bad.declare(field(1));
    put(s, good);
    put(s, bad);  // needs no consumer: a refused one does no harm
    good.close(), bad.close();
  });
  world.start("consumer", 2, [](Session& s) {
    InStream bad(s, "bad"), good(s, "good");
    bad.declare(field(2, 15)), good.declare(field(2));
    EXPECT_TRUE(good.begin_step());
    good.end_step();
    EXPECT_EQ(error_of([&] { bad.begin_step(); }).code(), Errc::mismatch);
    EXPECT_FALSE(good.begin_step());
    good.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(SetUp, WantsAllFieldsBeforeTheFirstStepOfAnyStream) {
  World world;
  world.start("producer", 1, [](Session& s) {
    OutStream first(s, "first", without_consumers), second(s, "second", without_consumers);
    InStream in(s, "in");
    first.declare(field(1)), second.declare(field(1)), in.declare(field(1));
    put(s, first);
    for (const Error& e :
         {error_of([&] { second.declare(field(1)); }), error_of([&] { in.declare(field(1)); })}) {
      EXPECT_EQ(e.code(), Errc::invalid_argument);
      expect_has(e, "found 'f' after it: declare the fields of all streams first");
    }
    expect_has(error_of([&] { in.relabel(); }), "expected relabel before the first begin_step");
    OutStream third(s, "third", without_consumers);
    third.declare(field(1));  // no peer knows of it yet
    put(s, third);
    first.close(), second.close(), third.close(), in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(SetUp, LeavesOutStreamsNotDeclaredOnAllRanks) {
  World world;
  world.start("producer", 2, [](Session& s) {
    OutStream first(s, "first", without_consumers), second(s, "second", without_consumers);
    first.declare(field(2));
    if (s.rank() == Rank{0}) second.declare(field(2));
    put(s, first);
    if (s.rank() == Rank{1}) second.declare(field(2));
    put(s, second);
    first.close(), second.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(SetUp, AllowsStreamsThatAreNeverUsed) {
  World world;
  for (const bool is_closed : {true, false})
    world.start(is_closed ? "closes" : "frees", 2, [=](Session& s) {
      OutStream used(s, is_closed ? "used1" : "used2", without_consumers),
          out(s, is_closed ? "out1" : "out2", without_consumers);
      InStream in(s, "never offered");
      used.declare(field(2)), out.declare(field(2)), in.declare(field(2));
      put(s, used);
      used.close();
      if (!is_closed) return;
      in.close();
      out.close();
    });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(SetUp, LogsOnceWhichStreamsTheServerKnows) {
  World world;
  world.log = core::LogLevel::warn;
  testing::internal::CaptureStderr();
  Together together(3);
  world.start(
      "producer", 2,
      [&](Session& s) {
        OutStream out(s, "s", {});
        out.declare(field(2));
        expect_has(error_of([&] { put(s, out); }),
                   "0 joined; found consumers of other streams only: 't'; start the consumer");
        together.wait();
      },
      2);
  world.start(
      "consumer", 1,
      [&](Session& s) {
        InStream in(s, "t");
        in.declare(field(1));
        expect_has(error_of([&] { in.begin_step(); }),
                   "within 2 s; found only 's'; start the producer");
        together.wait();
      },
      2);
  EXPECT_EQ(text_of(world.join()), "");
  const std::string said = testing::internal::GetCapturedStderr();
  const auto count = [&](const std::string& line) {
    std::size_t times = 0;
    for (auto at = said.find(line); at != said.npos; at = said.find(line, at + 1)) ++times;
    return times;
  };
  EXPECT_EQ(count("waiting stream=t for=producer found=\"only 's'\""), 1u) << said;
  EXPECT_EQ(count("waiting stream=s for=consumer found=\"consumers of other streams only: 't'\""),
            1u)
      << said;
}

TEST(SetUp, CountsTheRanksOfAGroupThatAreMissing) {
  World world;
  const core::Log log("half", core::LogLevel::off);
  wire::Hello hello;
  hello.set_protocol(proto::protocol_version);
  hello.set_group("half");
  hello.set_size(2);
  hello.set_job("j");
  hello.set_host("h");
  hello.set_version("1");
  Control rank_0({world.config(1).server, "test"}, hello, core::Deadline::after(5), log);
  Together together(2);
  world.start(
      "producer", 1,
      [&](Session& s) {
        OutStream out(s, "s", {});
        out.declare(field(1));
        expect_has(error_of([&] { put(s, out); }), "1 of 2 ranks of group 'half' have joined");
        together.wait();
      },
      5);
  world.start(
      "consumer", 1,
      [&](Session& s) {
        InStream in(s, "t");
        in.declare(field(1));
        expect_has(error_of([&] { in.begin_step(); }), "1 of 2 ranks of group 'half' have joined");
        together.wait();
      },
      5);
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(SetUp, SaysThatTheOtherSideWaitsToo) {
  World world;
  world.step_timeout = 60;
  world.step_timeout_of["consumer.0"] = 2;  // the producer has joined: only data is missing
  std::atomic<bool> is_linked = false, has_failed = false;
  world.start("first", 1, [&](Session& s) {
    OutStream out(s, "x", {});
    out.declare(field(1));
    put(s, out);
    while (!has_failed) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    put(s, out);
    out.close();
  });
  world.start("middle", 1, [&](Session& s) {
    InStream in(s, "x");
    OutStream out(s, "s", without_consumers);
    in.declare(field(1)), out.declare(field(1));
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(in.begin_step());
      is_linked = true;  // the next calls wait for data
      in.end_step();
    }
    put(s, out);
    in.close(), out.close();
  });
  world.start(
      "consumer", 1,
      [&](Session& s) {
        while (!is_linked) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        InStream in(s, "s");
        in.declare(field(1));
        const Error e = error_of([&] { in.begin_step(); });
        has_failed = true;
        expect_has(
            e, "within 2 s; found group 'middle' offers it, but is not in a call that opens links");
        expect_has(e, "of group 'middle' 1 of 1 rank waits for first in stream 'x'");
      },
      2);
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(SetUp, GivesALateProducerItsFullTime) {
  World world;
  world.step_timeout_of["consumer.0"] = 1;
  std::atomic<bool> has_failed = false;
  core::Deadline::Clock::time_point came;
  core::Deadline::Seconds given{};
  world.start(
      "consumer", 1,
      [&](Session& s) {
        InStream in(s, "s");
        in.declare(field(1));
        const Error e = error_of([&] { in.begin_step(); });
        given = core::Deadline::Clock::now() - came;
        has_failed = true;
        expect_has(e, "within 1 s; found group 'producer' offers it, but is not in a call");
      },
      long_time);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // longer than a step may take
  came = core::Deadline::Clock::now();
  world.start("producer", 1, [&](Session& s) {
    OutStream out(s, "s", without_consumers);
    OutStream other(s, "t", without_consumers);
    out.declare(field(1)), other.declare(field(1));
    s.set_up().introduce_producers();
    while (!has_failed) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  EXPECT_EQ(text_of(world.join()), "");
  EXPECT_GE(given.count(), 1);
}

TEST(SetUp, ReportsADeadlockOfTwoJobs) {
  World world;
  world.step_timeout = 300;  // far longer than it takes to detect the deadlock
  std::atomic<int> failed = 0;
  for (const bool is_a : {true, false})
    world.start(is_a ? "a" : "b", 1, [&, is_a](Session& s) {
      OutStream out(s, is_a ? "ab" : "ba", {});
      InStream in(s, is_a ? "ba" : "ab");
      out.declare(field(1)), in.declare(field(1));
      const Error e = error_of([&] { in.begin_step(); });
      EXPECT_EQ(e.code(), Errc::deadlock);
      for (const char* part :
           {"rank 0 of group 'a' waits in begin_step of stream 'ba', step 0, for rank 0 of group "
            "'b' to send the next step",
            "rank 0 of group 'b' waits in begin_step of stream 'ab', step 0, for rank 0 of group "
            "'a' to send the next step"})
        expect_has(e, part);
      // A put before the other job has failed would end the wait of that job instead.
      for (++failed; failed < 2;) std::this_thread::yield();
      put(s, out);  // nothing is wrong with the streams
      EXPECT_TRUE(in.begin_step());
      in.end_step();
      out.close(), in.close();
    });
  EXPECT_EQ(text_of(world.join()), "");
}

/// Ranks without MPI. They agree through the server first, and then over a transport. In a broadcast,
/// rank 0 waits for no other rank.
class SetUpWithoutMpi : public ::testing::Test {
protected:
  SetUpWithoutMpi() {
    config.server = server.address();
    config.timeout = 2;
    config.transport = "local";
    config.log = core::LogLevel::off;
  }
  std::future<void> rank(const std::string& group, Rank r, RankCount size,
                         const std::function<void(Session&)>& body) const {
    return std::async(std::launch::async, [this, group, r, size, body] {
      const auto session = Session::open(group, r.value, size, config);
      body(*session);
    });
  }
  const Server server;
  SessionConfig config;
};

TEST_F(SetUpWithoutMpi, NamesRanksMissingFromAnAgreement) {
  {
    Together together(3);
    std::vector<std::future<void>> ranks;
    for (const Rank r : core::all_ranks(3))
      ranks.push_back(rank("g", r, 3, [&together](Session& s) {
        if (s.rank() == Rank{2}) return together.wait();
        OutStream out(s, "s", without_consumers);
        out.declare(field(3));
        const Error e = error_of([&] { put(s, out); });
        EXPECT_EQ(e.code(), Errc::timed_out) << e.what();
        expect_has(e, "; ranks of group 'g' that did not join");
        expect_has(e, ": rank 2 on host ");
        together.wait();
      }));
    for (auto& r : ranks) EXPECT_NO_THROW(r.get());
  }
  std::vector<std::future<void>> ranks;
  for (const Rank r : {Rank{0}, Rank{2}}) ranks.push_back(rank("h", r, 3, [](Session&) {}));
  std::string texts;  // the first rank that fails leaves, and the other learns that it has left
  for (auto& r : ranks) texts += error_of([&] { r.get(); }).what();
  EXPECT_NE(
      texts.find("ranks of group 'h' that did not join: rank 1, which has not joined the server"),
      texts.npos)
      << texts;
}

// A producer's ranks may reach a call up to step_timeout apart, which may exceed the timeout of a
// set-up.
TEST_F(SetUpWithoutMpi, LateConsumerWaitsForAllProducerRanks) {
  const double lag = config.timeout + 11;  // a rank waits 10 s longer for the rest of its group
  Together first_step(3);
  std::vector<std::future<void>> ranks;
  for (const Rank r : core::all_ranks(2))
    ranks.push_back(rank("producer", r, 2, [&](Session& s) {
      OutStream out(s, "s", without_consumers);
      out.declare(field(2));
      put(s, out);
      first_step.wait();
      const auto until = core::Deadline::after(lag);
      while (!until.expired() && (s.rank() == Rank{1} || !s.control().is_awaited()))
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      put(s, out);
      out.close();
    }));
  first_step.wait();
  config.timeout = long_time;
  int steps = 0;
  ranks.push_back(rank("consumer", Rank{0}, 1, [&](Session& s) {
    InStream in(s, "s");
    in.declare(field(1));
    std::vector<std::int64_t> part(12);
    for (; in.begin_step(); in.end_step(), ++steps)
      in.get(0, std::as_writable_bytes(std::span(part)));
    in.close();
  }));
  for (auto& r : ranks) EXPECT_NO_THROW(r.get());
  EXPECT_EQ(steps, 1);
}

}  // namespace
}  // namespace tremula::client
