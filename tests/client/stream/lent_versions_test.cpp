// SPDX-License-Identifier: Apache-2.0
// Tests a state whose versions are lent: no copy is kept, readers have leases, and the writer takes a
// version back when it begins the next one. Every element carries its version and its own global number.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "tests/client/stream/numbered_steps.hpp"
#include "tests/coupled/jobs.hpp"
#include "transport/local/shared_memory.hpp"

namespace tremula::client {
namespace {

using numbered::Event;

constexpr core::Index extent = 60000;
constexpr double far_too_long = 1000;  // a lease that no test waits for

/// A rank's part, in memory that peers can map or in ordinary memory.
class Array {
public:
  Array(const Session& s, bool is_shared)
      : count_(static_cast<std::size_t>(extent / s.size())),
        first_(s.rank().value * (extent / s.size())),
        layout_(index_calc::Layout::parse(fmt::format("shape={} grid={}", extent, s.size()))) {
    if (is_shared)
      shared_ = reinterpret_cast<std::int64_t*>(transport::local::allocate(8 * count_));
    else
      own_.resize(count_);
  }
  ~Array() {
    if (shared_ != nullptr) transport::local::deallocate(reinterpret_cast<std::byte*>(shared_));
  }
  Array(const Array&) = delete;
  proto::Field field() const {
    return {.name = "f", .type = core::ElementType::i64, .layout = layout_};
  }
  std::span<std::int64_t> values() { return {shared_ == nullptr ? own_.data() : shared_, count_}; }
  std::span<std::byte> bytes() { return std::as_writable_bytes(values()); }
  void fill(std::uint64_t version) {
    for (std::size_t i = 0; i < count_; ++i) values()[i] = element(version, i);
  }
  bool is_all_of(std::uint64_t version) {
    for (std::size_t i = 0; i < count_; ++i)
      if (values()[i] != element(version, i)) return false;
    return true;
  }

private:
  std::int64_t element(std::uint64_t version, std::size_t i) const {
    return static_cast<std::int64_t>(version) * 1000000 + first_ + static_cast<std::int64_t>(i);
  }
  std::size_t count_;
  core::Index first_;
  index_calc::Layout layout_;
  std::int64_t* shared_ = nullptr;
  std::vector<std::int64_t> own_;
};

OutConfig lending(double lease = far_too_long) {
  return {.queue_depth = 0,
          .wait_for_consumers = 0,
          .is_state = true,
          .keep_steps = 1,
          .lends = true,
          .lease = lease};
}

struct Writer {
  Writer(Session& s, const OutConfig& config, bool is_shared)
      : array(s, is_shared), out(s, "s", config) {
    out.declare(array.field());
  }
  /// Puts a version, overwriting the lent array as soon as begin_step has returned.
  void put(std::uint64_t version) {
    out.begin_step();
    array.fill(999);
    array.fill(version);
    out.put(0, array.bytes());
    out.end_step();
  }
  Array array;
  OutStream out;
};

struct Reader {
  explicit Reader(Session& s) : array(s, false), in(s, "s") { in.declare(array.field()); }
  /// Takes the version that has begun and checks every element.
  void take() {
    in.get(0, array.bytes());
    EXPECT_TRUE(array.is_all_of(in.step())) << "version " << in.step();
    in.end_step();
  }
  Array array;
  InStream in;
};

/// Makes all ranks of a writer serve until the event has occurred `count` times.
void serve_until(Session& s, OutStream& out, const Event& event, int count) {
  for (;;) {
    const auto come = s.run_on_root([&] { return core::Bytes(event.has_occurred(count) ? 1 : 0); },
                                    core::Deadline::after(10));
    if (!come.empty()) return;
    out.serve(core::Deadline::after(0.05));
  }
}

struct Memory {
  std::string name;
  World::Way way;
  bool is_shared;
  std::string path;
};
class LentVersions : public testing::TestWithParam<Memory> {
protected:
  World world{0, GetParam().way};
};

// The readers read the writer's arrays: nothing is staged, and nothing is kept.
TEST_P(LentVersions, AreReadWholeWithoutACopyByTheWriter) {
  constexpr std::uint64_t versions = 50;
  Event are_linked;
  std::atomic<std::uint64_t> read = 0;
  world.start("writer", 2, [&](Session& s) {
    Writer w(s, lending(), GetParam().is_shared);
    w.put(0);
    serve_until(s, w.out, are_linked, 4);
    for (std::uint64_t version = 1; version < versions; ++version) w.put(version);
    w.out.close();
    const auto counters = w.out.statistics();
    EXPECT_EQ(counters.queued_steps, 1u);
    if (GetParam().is_shared) {
      EXPECT_EQ(counters.traffic.copied_bytes, 0u);
    }
    // Only bytes that are read are copied, through a ring or chunk by chunk.
    EXPECT_LE(counters.traffic.copied_bytes, counters.traffic.bytes);
  });
  for (const auto& [name, ranks] : {std::pair{"one", 1}, std::pair{"three", 3}})
    world.start(name, ranks, [&](Session& s) {
      Reader r(s);
      std::uint64_t last = 0, count = 0;
      while (r.in.begin_step()) {
        EXPECT_TRUE(count == 0 || r.in.step() > last);
        last = r.in.step();
        r.take();
        if (count == 0) {
          EXPECT_EQ(last, 0u);
          EXPECT_EQ(r.in.peer_statistics()[0].path, GetParam().path);
          are_linked.set();
        }
        ++count;
      }
      EXPECT_EQ(last, versions - 1);  // close delivers the newest one
      read += count;
      r.in.close();
    });
  EXPECT_EQ(text_of(world.join()), "");
  EXPECT_GE(read, 4u * 2);
}

TEST_P(LentVersions, WaitForAReaderWithinItsLease) {
  Event has_begun;
  std::atomic<bool> is_ending = false;
  world.start("writer", 2, [&](Session& s) {
    Writer w(s, lending(), GetParam().is_shared);
    w.put(0);
    serve_until(s, w.out, has_begun, 3);
    EXPECT_FALSE(w.out.begin_step_until(core::Deadline::after(0.1)));
    EXPECT_FALSE(w.out.poll_taken(0));
    w.put(1);
    EXPECT_TRUE(is_ending);
    EXPECT_TRUE(w.out.poll_taken(0));
    w.out.close();
  });
  world.start("reader", 3, [&](Session& s) {
    Reader r(s);
    EXPECT_TRUE(r.in.begin_step());
    has_begun.set();
    has_begun.wait(3);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    s.run_collectively([] {});
    is_ending = true;
    r.take();
    EXPECT_TRUE(r.in.begin_step());
    EXPECT_EQ(r.in.step(), 1u);
    r.take();
    EXPECT_FALSE(r.in.begin_step());
    r.in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

// When begin_step has failed, the arrays belong to the writer again: a reader that joins then gets
// the next version, and never the version whose arrays may have changed.
TEST_P(LentVersions, AreNotOfferedAfterBeginStepHasFailed) {
  Event has_left, has_failed;
  std::atomic<std::uint64_t> first_after = 0;
  world.start("writer", 2, [&](Session& s) {
    auto config = lending();
    config.wait_for_consumers = 1;
    Writer w(s, config, GetParam().is_shared);
    w.put(0);
    has_left.wait(1);
    wire::Explain question;
    question.set_agreement(1);
    s.control().explain(question);  // returns after the server's earlier messages
    std::uint64_t next = 1;
    try {
      // A begin_step that learns of the loss while it waits begins the step; the next one fails.
      for (; next < 3; ++next) w.put(next);
      ADD_FAILURE() << "two steps without a reader have begun";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Errc::peer_lost) << e.what();
    }
    first_after = next;
    w.array.fill(999);
    s.run_collectively([] {});
    has_failed.set();
    const auto has_joined = [&] {
      return !s.run_on_root([&] { return core::Bytes(w.out.peer_statistics().size()); },
                            core::Deadline::after(10))
                  .empty();
    };
    while (!has_joined()) w.out.serve(core::Deadline::after(0.05));
    w.put(next);
    w.out.close();
  });
  world.start("first", 1, [&](Session& s) {
    {
      Reader r(s);
      EXPECT_TRUE(r.in.begin_step());
      r.take();
    }
    has_left.set();
  });
  world.start("second", 1, [&](Session& s) {
    has_failed.wait(2);
    Reader r(s);
    EXPECT_TRUE(r.in.begin_step());
    EXPECT_EQ(r.in.step(), first_after);
    r.take();
    EXPECT_FALSE(r.in.begin_step());
    r.in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

// A reader does not read before its lease ends. The version is taken back from all its ranks, which
// get an error that says so and see no element of a newer version. Another reader continues, and a
// new reader begins.
TEST_P(LentVersions, AreTakenBackAfterTheLease) {
  Event has_begun, has_taken, is_overwritten, has_new_one;
  world.start("writer", 2, [&](Session& s) {
    Writer w(s, lending(0.3), GetParam().is_shared);
    w.put(0);
    serve_until(s, w.out, has_begun, 2);
    serve_until(s, w.out, has_taken, 1);
    w.put(1);
    is_overwritten.set();
    serve_until(s, w.out, has_new_one, 1);
    w.out.close();
  });
  world.start("slow", 2, [&](Session& s) {
    auto r = std::make_unique<Reader>(s);
    EXPECT_TRUE(r->in.begin_step());
    EXPECT_EQ(r->in.step(), 0u);
    has_begun.set();
    is_overwritten.wait(2);
    wire::Explain question;
    question.set_agreement(1);
    s.control().explain(question);  // returns after the server's earlier messages
    try {
      r->in.get(0, r->array.bytes());
      EXPECT_TRUE(r->array.is_all_of(0));  // a mapped array keeps its contents
      r->in.end_step();
      ADD_FAILURE() << "the step has ended without an error";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Errc::peer_lost);
      EXPECT_NE(std::string(e.what()).find("took back version 0, which group 'slow' had held for "
                                           "longer than its lease of 0.3 s"),
                std::string::npos)
          << e.what();
    }
    s.run_collectively([] {});
    r.reset();
    Reader again(s);
    EXPECT_TRUE(again.in.begin_step());
    EXPECT_EQ(again.in.step(), 1u);
    again.take();
    s.run_collectively([] {});
    if (s.rank() == Rank{0}) has_new_one.set();
    EXPECT_FALSE(again.in.begin_step());
    again.in.close();
  });
  world.start("quick", 1, [&](Session& s) {
    Reader r(s);
    EXPECT_TRUE(r.in.begin_step());
    r.take();
    has_taken.set();
    EXPECT_TRUE(r.in.begin_step());
    EXPECT_EQ(r.in.step(), 1u);
    r.take();
    EXPECT_FALSE(r.in.begin_step());
    r.in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

INSTANTIATE_TEST_SUITE_P(
    In, LentVersions,
    testing::Values(Memory{"shared_memory", World::Way::local, true, "lent"},
                    Memory{"ordinary_memory", World::Way::local, false, "ring"},
                    Memory{"memory_of_another_host", World::Way::loopback, false, "rma"}),
    [](const auto& memory) { return memory.param.name; });

/// Runs in a separate process: a reader that holds a version until it is killed.
TEST(ReaderProcess, DISABLED_HoldsAVersion) {
  const std::string server = std::getenv("TREMULA_TEST_SERVER");
  SessionConfig config;
  config.server = server;
  Session::Transports transports;
  transports.push_back(std::make_unique<transport::Local>());
  ThreadRanks ranks(1);
  const auto session = Session::open("victim", std::make_unique<ThreadGroup>(ranks, Rank{0}),
                                     std::move(transports), config);
  Reader r(*session);
  ASSERT_TRUE(r.in.begin_step());
  std::ofstream(std::getenv("TREMULA_TEST_FILE")) << "here";
  for (;;) pause();
}

TEST(LentVersion, ReturnsToTheWriterIfItsReaderIsKilled) {
  for (const bool is_shared : {true, false}) {
    World world(0, World::Way::local);
    const auto file = std::filesystem::temp_directory_path() /
                      fmt::format("tremula_holds_{}_{}", getpid(), is_shared);
    std::optional<coupled::Process> victim;
    Event may_begin, is_held;
    world.start("writer", 2, [&](Session& s) {
      Writer w(s, lending(), is_shared);
      w.put(0);
      may_begin.set();
      serve_until(s, w.out, is_held, 1);
      if (s.rank() == Rank{0}) victim->signal(SIGKILL);
      w.put(1);  // long before the lease ends
      w.put(2);
      w.out.close();
    });
    may_begin.wait(2);
    victim.emplace(
        coupled::Arguments{"/proc/self/exe", "--gtest_filter=ReaderProcess.DISABLED_HoldsAVersion",
                           "--gtest_also_run_disabled_tests"},
        coupled::Environment{{"TREMULA_TEST_SERVER", world.config(1).server},
                             {"TREMULA_TEST_FILE", file.string()}},
        file.string() + ".log");
    const auto limit = core::Deadline::after(60);
    while (!std::filesystem::exists(file) && !limit.expired())
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_TRUE(std::filesystem::exists(file)) << victim->output();
    is_held.set();
    EXPECT_EQ(text_of(world.join()), "");
    std::filesystem::remove(file);
    std::filesystem::remove(file.string() + ".log");
  }
}

}  // namespace
}  // namespace tremula::client
