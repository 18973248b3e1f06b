// SPDX-License-Identifier: Apache-2.0
// Tests readers of a state that serve it to other readers. Every element carries its version and its own
// global number.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "tests/client/stream/numbered_steps.hpp"
#include "tests/coupled/jobs.hpp"

namespace tremula::client {
namespace {

using numbered::Event;
using numbered::Numbers;
using numbered::Part;

constexpr OutConfig served{
    .wait_for_consumers = 0, .is_state = true, .keep_steps = 1, .readers_serve = true};
constexpr InConfig reads{.restart_timeout = 60},
    reads_and_serves{.restart_timeout = 60, .serves = true};

/// Returns rank 0's answer on all ranks of a group.
bool ask_root(Session& session, const std::function<bool()>& question) {
  return !session
              .run_on_root([&] { return core::Bytes(question() ? 1 : 0); },
                           core::Deadline::after(30))
              .empty();
}

class Writer {
public:
  explicit Writer(Session& session, OutConfig config = served)
      : out(session, "s", config),
        session_(session),
        part_(session),
        version_(static_cast<std::uint64_t>(config.first_step)) {
    out.declare(part_.field());
    out.set_attribute(of_stream, proto::time_unit, std::vector<std::string>{"s"});
    out.set_attribute(0, "units", std::vector<std::string>{"K"});
  }
  void put() {
    out.begin_step();
    part_.fill(version_);
    out.put(0, part_.bytes());
    out.set_time(static_cast<std::int64_t>(10 * version_));
    out.set_attribute(of_step, "loss", std::vector<std::int64_t>{std::int64_t(version_) + 1});
    out.end_step();
    part_.fill(++version_ + 999);
  }
  void put_to(std::uint64_t end) {
    while (version_ < end) put();
  }
  void serve_until(const Event& event, int count) {
    while (!ask_root(session_, [&] { return event.has_occurred(count); }))
      out.serve(core::Deadline::after(0.05));
  }
  void put_until(const Event& event, int count) {
    while (!ask_root(session_, [&] { return event.has_occurred(count); })) put();
  }
  std::uint64_t version() const { return version_; }
  OutStream out;

private:
  Session& session_;
  Part part_;
  std::uint64_t version_;
};

/// Marker among the version numbers that a rank has taken: another writer follows.
constexpr std::uint64_t epoch = ~std::uint64_t{0};

class Reader {
public:
  Reader(Session& session, const InConfig& config) : in(session, "s", config), part_(session) {
    in.declare(part_.field());
  }
  /// Takes the next version. Returns false at the end.
  bool take_next() { return take(std::nullopt) != Begun::end_of_stream; }
  void take_all() {
    while (take_next()) {
    }
  }
  /// Takes versions until rank 0 sees that the event has occurred.
  void take_until(Session& session, const Event& event, int count) {
    while (!ask_root(session, [&] { return event.has_occurred(count); }))
      take(core::Deadline::after(0.02));
  }
  /// Takes one complete version and checks every element.
  Begun take(std::optional<core::Deadline> until) {
    const Begun begun = in.begin(until);
    if (begun == Begun::epoch) seen.push_back(epoch);
    if (begun != Begun::step) return begun;
    if (on_step) on_step();
    const std::uint64_t version = in.step();
    EXPECT_EQ(in.time(), static_cast<std::int64_t>(10 * version));
    const auto attributes = in.attributes(of_step);
    if (attributes.find("loss") == nullptr) throw Error(Errc::internal, "no attribute");
    EXPECT_EQ(std::get<0>(attributes.find("loss")->values).at(0), std::int64_t(version) + 1);
    const std::string group = in.peer_statistics().at(0).group;
    try {
      in.get(0, part_.bytes());
      in.end_step();
    } catch (const Error& e) {
      if (e.code() != Errc::peer_lost) throw;
      EXPECT_NE(std::string(e.what()).find("the step counts on no rank"), std::string::npos)
          << e.what();
      return begun;
    }
    part_.expect(version);
    if (!seen.empty() && seen.back() != epoch) {
      EXPECT_GT(version, seen.back());
    }
    seen.push_back(version);
    from.push_back(group);
    return begun;
  }
  InStream in;
  Numbers seen;
  std::vector<std::string> from;  // group that served each version
  std::function<void()> on_step;

private:
  Part part_;
};

/// Waits until the event has occurred and all ranks of the group are in this call.
void wait_for(Session& session, const Event& event, int count) {
  if (session.rank() == Rank{0}) event.wait(count);
  session.run_collectively([] {}, core::Deadline::after(60));
}

class Serving : public testing::TestWithParam<World::Way> {
protected:
  World world{8192, GetParam()};
};

TEST_P(Serving, ReaderIsServedWhileTheWriterComputes) {
  world.proof = true;
  Event has_put, first_has_one, second_has_one;
  world.start("writer", 2, [&](Session& s) {
    Writer w(s);
    w.put_to(4);
    has_put.set();
    w.serve_until(first_has_one, 2);
    EXPECT_EQ(w.out.peer_statistics().at(0).group, "first");
    wait_for(s, second_has_one, 3);  // and makes no call meanwhile
    w.put_to(9);
    EXPECT_EQ(w.out.peer_statistics().back().group, "first");
    w.out.close();
  });
  world.start("first", 2, [&](Session& s) {
    wait_for(s, has_put, 2);
    Reader r(s, reads_and_serves);
    ASSERT_TRUE(r.take_next());
    EXPECT_EQ(r.seen, Numbers{3});
    first_has_one.set();
    r.take_all();
    EXPECT_EQ(r.seen.back(), 8u);
    r.in.close();
  });
  world.start("second", 3, [&](Session& s) {
    wait_for(s, first_has_one, 2);
    Reader r(s, reads);
    ASSERT_TRUE(r.take_next());
    EXPECT_EQ(r.seen, Numbers{3});
    EXPECT_EQ(r.from, std::vector<std::string>{"first"});
    const auto of_field = r.in.attributes(0);
    ASSERT_NE(of_field.find("units"), nullptr);
    EXPECT_EQ(std::get<2>(of_field.find("units")->values).at(0), "K");
    second_has_one.set();
    r.take_all();
    EXPECT_EQ(r.seen.back(), 8u);
    EXPECT_EQ(r.from.back(), "first");
    const auto counted = r.in.statistics();
    EXPECT_EQ(counted.steps, r.seen.size());
    EXPECT_EQ(counted.traffic.proved_bytes, counted.traffic.bytes);
    EXPECT_GT(counted.traffic.proved_bytes, 0u);
    r.in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST_P(Serving, ReaderSwitchesWhenItsSourceLeaves) {
  Event first_has_one, second_has_one, is_linked_anew;
  world.start("writer", 2, [&](Session& s) {
    Writer w(s);
    w.put();
    w.serve_until(first_has_one, 2);
    wait_for(s, second_has_one, 3);
    w.serve_until(is_linked_anew, 3);  // with the version that they have taken
    w.put_to(w.version() + 3);
    w.out.close();
  });
  world.start("first", 2, [&](Session& s) {
    Reader r(s, reads_and_serves);
    ASSERT_TRUE(r.take_next());
    first_has_one.set();
    r.take_until(s, second_has_one, 3);
    r.in.close();
  });
  std::mutex mutex;
  std::vector<Numbers> seen;
  world.start("second", 3, [&](Session& s) {
    wait_for(s, first_has_one, 2);
    Reader r(s, reads);
    ASSERT_TRUE(r.take_next());
    EXPECT_EQ(r.from, std::vector<std::string>{"first"});
    second_has_one.set();
    const auto source = [&] {
      const auto peers = r.in.peer_statistics();
      return peers.empty() ? std::string() : std::string(peers[0].group);
    };
    while (source() != "writer") r.take(core::Deadline::after(0.02));
    is_linked_anew.set();
    r.take_all();
    EXPECT_EQ(r.from.back(), "writer");
    EXPECT_EQ(std::ranges::count(r.seen, epoch), 0);
    r.in.close();
    const std::scoped_lock lock(mutex);
    seen.push_back(r.seen);
  });
  EXPECT_EQ(text_of(world.join()), "");
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0], seen[1]);
  EXPECT_EQ(seen[0], seen[2]);
}

// Rank 0 decides for all ranks that the time has passed.
TEST_P(Serving, RankWithoutALimitRefusesThatOfRankZero) {
  Event has_taken, has_ended;
  world.start("writer", 1, [&](Session& s) {
    Writer w(s);
    w.put();
    w.serve_until(has_taken, 2);
    wait_for(s, has_ended, 2);
  });
  world.start("first", 2, [&](Session& s) {
    Reader r(s, reads_and_serves);
    ASSERT_TRUE(r.take_next());
    has_taken.set();
    try {
      if (s.rank() == Rank{0})
        EXPECT_EQ(r.in.begin_step_until(core::Deadline::after(0.1)), std::nullopt);
      else
        ADD_FAILURE() << r.in.begin_step();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Errc::mismatch) << e.what();
      EXPECT_EQ(s.rank(), Rank{1});
    }
    has_ended.set();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

// Both readers lose the writer, one of them through the other, and continue with the next writer.
TEST_P(Serving, AllReadersContinueWithTheNextWriter) {
  Event has_put, first_has_one, second_has_one, lost, both_have_it;
  world.start("one", 2, [&](Session& s) {
    {
      Writer w(s);
      w.put_to(3);
      has_put.set();
      w.serve_until(first_has_one, 2);
      wait_for(s, second_has_one, 3);
    }
    lost.set();
  });
  world.start("two", 1, [&](Session& s) {
    wait_for(s, lost, 2);
    OutConfig config = served;
    config.first_step = 1;
    Writer w(s, config);
    w.put_until(both_have_it, 5);
    w.out.close();
  });
  const auto read_next_writer = [&](Reader& r) {
    while (std::ranges::count(r.seen, epoch) == 0 || r.seen.back() == epoch)
      if (!r.take_next()) return ADD_FAILURE() << "the stream has ended";
    both_have_it.set();
    r.take_all();
    EXPECT_EQ(r.seen[1], epoch);
    EXPECT_EQ(std::ranges::count(r.seen, epoch), 1);
    r.in.close();
  };
  world.start("first", 2, [&](Session& s) {
    wait_for(s, has_put, 2);
    Reader r(s, reads_and_serves);
    ASSERT_TRUE(r.take_next());
    first_has_one.set();
    read_next_writer(r);
  });
  world.start("second", 3, [&](Session& s) {
    wait_for(s, first_has_one, 2);
    Reader r(s, reads);
    ASSERT_TRUE(r.take_next());
    EXPECT_EQ(r.from.back(), "first");
    second_has_one.set();
    read_next_writer(r);
  });
  EXPECT_EQ(text_of(world.join()), "");
}

// The first reader took only one of two fields, so it has no complete version.
TEST_P(Serving, OnlyWholeVersionsAreServed) {
  Event first_has_one, second_has_one;
  const auto declare_other = [](Session& s, auto& stream) {
    auto field = Part(s).field();
    field.name = "g";
    return stream.declare(std::move(field));
  };
  world.start("writer", 1, [&](Session& s) {
    OutStream out(s, "s", served);
    Part part(s);
    out.declare(part.field());
    declare_other(s, out);
    for (std::uint64_t version = 0; version < 2; ++version) {
      out.begin_step();
      part.fill(version);
      for (const int field : {0, 1}) out.put(field, part.bytes());
      out.end_step();
      while (!(version == 0 ? first_has_one : second_has_one).has_occurred())
        out.serve(core::Deadline::after(0.02));
    }
    out.close();
  });
  const auto read = [&](Session& s, const InConfig& config, bool gets_all, const Event& done,
                        Event& has_one) {
    InStream in(s, "s", config);
    Part part(s);
    in.declare(part.field());
    declare_other(s, in);
    std::vector<std::string> from;
    for (Begun begun; (begun = in.begin(core::Deadline::after(0.02))) != Begun::end_of_stream;) {
      if (begun != Begun::step) continue;
      in.get(0, part.bytes());
      if (gets_all) in.get(1, part.bytes());
      in.end_step();
      from.push_back(in.peer_statistics().at(0).group);
      has_one.set();
    }
    EXPECT_TRUE(done.has_occurred());
    in.close();
    return from;
  };
  world.start("first", 1,
              [&](Session& s) { read(s, reads_and_serves, false, second_has_one, first_has_one); });
  world.start("second", 1, [&](Session& s) {
    first_has_one.wait();
    const auto from = read(s, reads, true, second_has_one, second_has_one);
    EXPECT_EQ(from.front(), "writer");
  });
  EXPECT_EQ(text_of(world.join()), "");
}

INSTANTIATE_TEST_SUITE_P(In, Serving, testing::Values(World::Way::local, World::Way::loopback),
                         [](const auto& way) {
                           return std::string(way.param == World::Way::local ? "local"
                                                                             : "loopback");
                         });

TEST(ServingReader, MayServeOnlyIfItsProducerAllowsIt) {
  World world;
  Event is_over;
  const auto expect_refusal = [&](const std::string& group, core::ElementType type,
                                  const std::string& stream, const std::string& text) {
    world.start(group, 2, [=, &is_over](Session& s) {
      InStream in(s, stream, reads_and_serves);
      auto field = Part(s).field();
      field.type = type;
      in.declare(std::move(field));
      try {
        in.begin(std::nullopt);
        ADD_FAILURE() << "the step has begun";
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), Errc::unsupported);
        EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
      }
      in.close();
      is_over.set();
    });
  };
  expect_refusal("one", core::ElementType::i64, "steps",
                 "expected 'kind: state' and 'readers_serve");
  expect_refusal("two", core::ElementType::f64, "s",
                 "expected all of field 'f' as i64; found f64; leave serve out");
  world.start("writer", 1, [&](Session& s) {
    OutStream steps(s, "steps", {.wait_for_consumers = 0});
    steps.declare(Part(s).field());
    Writer w(s);
    while (!is_over.has_occurred(4)) {
      w.out.serve(core::Deadline::after(0.02));
      steps.serve(core::Deadline::after(0.02));
    }
    steps.close();
    w.out.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

// Ranks 1 and 2 of the writer set different times. Rank 1 of the reader receives both while rank 0 has
// received nothing yet.
TEST(ServingReader, RankThatHasFailedNeedNotWaitForOthers) {
  World world;
  world.step_timeout = 60;
  const auto field = [](const std::string& layout) {
    return proto::Field{.name = "f",
                        .type = core::ElementType::i64,
                        .layout = index_calc::Layout::parse(layout),
                        .origin = {}};
  };
  const auto start = core::Deadline::Clock::now();
  Event one_has_failed, both_have_failed;
  world.start("writer", 3, [&](Session& s) {
    OutConfig config = served;
    config.wait_for_consumers = 1;
    OutStream out(s, "s", config);
    out.declare(field("shape=12 grid=3 block=4"));
    out.set_attribute(of_stream, proto::time_unit, std::vector<std::string>{"s"});
    const std::vector<std::int64_t> mine(4, 1);
    out.begin_step();
    if (s.rank() == Rank{0}) one_has_failed.wait();
    out.set_time(s.rank().value);
    out.put(0, std::as_bytes(std::span(mine)));
    out.end_step();
    both_have_failed.wait(2);
  });
  world.start("reader", 2, [&](Session& s) {
    InStream in(s, "s", reads_and_serves);
    in.declare(field("shape=12 grid=2 splits0=0/4/12"));
    std::vector<std::int64_t> mine(s.rank() == Rank{0} ? 4 : 8);
    try {
      EXPECT_EQ(in.begin(std::nullopt), Begun::step);
      in.get(0, std::as_writable_bytes(std::span(mine)));
      in.end_step();
      ADD_FAILURE() << "rank " << s.rank().value;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Errc::mismatch) << e.what();
    }
    if (s.rank() == Rank{1}) one_has_failed.set();
    both_have_failed.set();
    in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
  const core::Deadline::Seconds took = core::Deadline::Clock::now() - start;
  EXPECT_LT(took.count(), 50) << "expected less than step_timeout";
}

/// Runs in a separate process: a reader that serves until it is killed.
TEST(ReaderProcess, DISABLED_Serves) {
  SessionConfig config;
  config.server = std::getenv("TREMULA_TEST_SERVER");
  Session::Transports transports;
  transports.push_back(std::make_unique<transport::Local>());
  ThreadRanks ranks(1);
  const auto session = Session::open("victim", std::make_unique<ThreadGroup>(ranks, Rank{0}),
                                     std::move(transports), config);
  Reader r(*session, reads_and_serves);
  ASSERT_TRUE(r.take_next());
  std::ofstream(std::getenv("TREMULA_TEST_FILE")) << "here";
  r.take_all();
}

// The source is killed in the middle of a step, or between two steps. Each version counts on all ranks or
// on none, and no rank gets an older version.
TEST(ServingReader, ReaderOfAKilledSourceUsesTheWriter) {
  for (const bool is_in_step : {true, false}) {
    SCOPED_TRACE(is_in_step);
    World world(8192, World::Way::local);
    world.step_timeout = 60;
    const auto file = std::filesystem::temp_directory_path() /
                      fmt::format("tremula_serves_{}_{}", getpid(), is_in_step);
    std::optional<coupled::Process> victim;
    Event may_begin, victim_has_one, has_one, is_linked_anew;
    world.start("writer", 2, [&](Session& s) {
      Writer w(s);
      w.put();
      may_begin.set();
      w.serve_until(victim_has_one, 1);
      wait_for(s, has_one, 3);
      w.put_until(is_linked_anew, 3);
      w.out.close();
    });
    std::mutex mutex;
    std::vector<Numbers> seen;
    world.start("reader", 3, [&](Session& s) {
      wait_for(s, victim_has_one, 1);
      Reader r(s, reads);
      ASSERT_TRUE(r.take_next());
      EXPECT_EQ(r.from.back(), "victim");
      has_one.set();
      if (is_in_step)
        r.on_step = [&] {
          if (s.rank() == Rank{1}) victim->signal(SIGKILL);
        };
      else if (s.rank() == Rank{1})
        victim->signal(SIGKILL);
      while (r.from.back() != "writer" && r.take_next()) r.on_step = nullptr;
      is_linked_anew.set();
      r.take_all();
      EXPECT_EQ(std::ranges::count(r.seen, epoch), 0);
      r.in.close();
      const std::scoped_lock lock(mutex);
      seen.push_back(r.seen);
    });
    may_begin.wait(2);
    victim.emplace(
        coupled::Arguments{"/proc/self/exe", "--gtest_filter=ReaderProcess.DISABLED_Serves",
                           "--gtest_also_run_disabled_tests"},
        coupled::Environment{{"TREMULA_TEST_SERVER", world.config(1).server},
                             {"TREMULA_TEST_FILE", file.string()}},
        file.string() + ".log");
    const auto limit = core::Deadline::after(60);
    while (!std::filesystem::exists(file) && !limit.expired())
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_TRUE(std::filesystem::exists(file)) << victim->output();
    victim_has_one.set();
    EXPECT_EQ(text_of(world.join()), "");
    std::filesystem::remove(file);
    std::filesystem::remove(file.string() + ".log");
    ASSERT_EQ(seen.size(), 3u);
    EXPECT_EQ(seen[0], seen[1]);
    EXPECT_EQ(seen[0], seen[2]);
  }
}

}  // namespace
}  // namespace tremula::client
