// SPDX-License-Identifier: Apache-2.0
// If a single rank runs out of memory, or throws an exception that is not Tremula's own, every rank
// that depends on it gets an error that names it. Ranks are threads; each thread can make its own
// allocations fail.
#include <atomic>
#include <cstdlib>
#include <new>
#include <optional>

#include "tests/client/world.hpp"

// Clang's thread sanitizer has an operator new of its own, which no program can replace.
#if !defined(__clang__) || !defined(__SANITIZE_THREAD__)

namespace {
thread_local std::size_t fails_from_bytes = ~std::size_t{0};

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (bytes >= fails_from_bytes) throw std::bad_alloc();
  void* const memory = std::aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"  // the pairs of this file do match
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace tremula::client {
namespace {

constexpr core::Index extent = 1 << 17;  // one rank's part is far larger than the rest of a step

/// Makes allocations of `from_bytes` or more fail in this thread.
class NoMemory {
public:
  NoMemory(const NoMemory&) = delete;
  explicit NoMemory(std::size_t from_bytes) { fails_from_bytes = from_bytes; }
  ~NoMemory() { fails_from_bytes = ~std::size_t{0}; }
};

proto::Field field(RankCount size) {
  return {.name = "f",
          .type = core::ElementType::i64,
          .layout = index_calc::Layout::parse(fmt::format("shape={} grid={}", extent, size))};
}

Error error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    return e;
  }
  ADD_FAILURE() << "expected an error";
  return {Errc::internal, ""};
}
#define EXPECT_HAS(text, part) \
  EXPECT_NE(std::string(text).find(part), std::string::npos) << std::string(text)

TEST(OutOfMemory, IsReportedToAllRanksOfACollectiveCall) {
  World world;
  world.start("group", 3, [](Session& s) {
    const auto memory = error_of([&] {
      s.run_collectively([&] {
        if (s.rank() == Rank{1}) throw std::bad_alloc();
      });
    });
    EXPECT_EQ(memory.code(), Errc::internal);
    EXPECT_HAS(memory.what(), "rank 1 of group 'group': out of memory");
    const auto other = error_of([&] {
      s.run_collectively([&] {
        if (s.rank() == Rank{2}) throw 7;
      });
    });
    EXPECT_HAS(other.what(), "rank 2 of group 'group': an exception of unknown type");
    const auto root = error_of(
        [&] { s.run_on_root([]() -> core::Bytes { throw std::bad_alloc(); }, s.deadline()); });
    EXPECT_HAS(root.what(), "out of memory");
  });
  EXPECT_EQ(text_of(world.join()), "");
}

// The rank continues and keeps its stream: only its report can end the steps of the other ranks.
TEST(OutOfMemory, IsReportedToBothSidesByAConsumerRank) {
  constexpr std::size_t large = 50'000;
  World world;
  world.step_timeout = 60;  // no rank waits that long
  const auto begun = core::Deadline::Clock::now();
  std::atomic<int> judged = 0;
  const auto judge = [&](const Error& error, bool is_culprit) {
    EXPECT_HAS(error.what(), is_culprit
                                 ? "out of memory"
                                 : "rank 1 of group 'consumer' lost the stream: out of memory");
    EXPECT_EQ(error.code(), is_culprit ? Errc::internal : Errc::peer_lost);
    ++judged;
    wait_for([&] { return judged == 4; }, core::Deadline::after(50), [] {});
  };
  world.start("producer", 2, [&](Session& s) {
    OutStream out(s, "s", {});
    out.declare(field(2));
    const std::vector<std::int64_t> part(extent / 2);
    judge(error_of([&] {
            for (;;) {
              out.begin_step();
              out.set_attribute(of_step, "note", std::vector<std::string>{std::string(large, 'x')});
              out.put(0, std::as_bytes(std::span(part)));
              out.end_step();
            }
          }),
          false);
  });
  world.start("consumer", 2, [&](Session& s) {
    InStream in(s, "s");
    in.declare(field(2));
    std::vector<std::int64_t> part(extent / 2);
    std::optional<NoMemory> none;
    judge(error_of([&] {
            for (; in.begin_step(); in.end_step()) {
              in.get(0, std::as_writable_bytes(std::span(part)));
              if (s.rank() == Rank{1} && !none)
                none.emplace(large);  // too little for the attributes of the next step
            }
          }),
          s.rank() == Rank{1});
  });
  EXPECT_EQ(text_of(world.join()), "");
  EXPECT_LT(core::Deadline::Clock::now() - begun, std::chrono::seconds(45));
}

TEST(OutOfMemory, IsReportedToBothSidesByAProducerRank) {
  World world;
  world.step_timeout = 60;  // no rank waits that long
  const auto begun = core::Deadline::Clock::now();
  world.start("producer", 2, [](Session& s) {
    OutStream out(s, "s", {.queue_depth = 1});
    out.declare(field(2));
    std::vector<std::int64_t> part(extent / 2);
    const auto put = [&] {
      out.begin_step();
      {
        std::optional<NoMemory> none;
        if (s.rank() == Rank{1}) none.emplace(65536);
        out.put(0, std::as_bytes(std::span(part)));
      }
      out.end_step();
    };
    const auto error = error_of([&] {
      for (;;) put();
    });
    EXPECT_HAS(error.what(), "out of memory");
    if (s.rank() == Rank{0}) {
      EXPECT_HAS(error.what(), "rank 1 of group 'producer' failed");
    }
  });
  world.start("consumer", 2, [](Session& s) {
    InStream in(s, "s");
    in.declare(field(2));
    const auto error = error_of([&] {
      while (in.begin_step()) in.end_step();
    });
    EXPECT_HAS(error.what(), "rank 1 of group 'producer' failed: out of memory");
  });
  EXPECT_EQ(text_of(world.join()), "");
  EXPECT_LT(core::Deadline::Clock::now() - begun, std::chrono::seconds(45));
}

// Polling is local to one rank. If it fails, the failure belongs to the link, and the next step
// reports it to all ranks.
TEST(OutOfMemory, IsReportedByTheStepAfterPolling) {
  for (const Steps steps : {Steps::every, Steps::share}) {
    SCOPED_TRACE(static_cast<int>(steps));
    World world;
    std::atomic<int> looking = 0;
    world.start("producer", 2, [&](Session& s) {
      OutStream out(s, "s", {.queue_depth = 1});
      out.declare(field(2));
      const std::vector<std::int64_t> data(extent / 2);
      const auto put = [&] {
        out.begin_step();
        out.put(0, std::as_bytes(std::span(data)));
        out.end_step();
      };
      put();
      EXPECT_FALSE(out.poll_ready());
      ++looking;
      // The rank finds that the consumer is gone, and has no memory to store the reason.
      for (bool has_room = false; !has_room;) {
        std::optional<NoMemory> none;
        if (s.rank() == Rank{1}) none.emplace(1);
        has_room = out.poll_ready();
      }
      const auto lost =
          error_of([&] {  // if only one rank learns of it in this step, the next reports it to all
            put();
            put();
          });
      EXPECT_EQ(lost.code(), Errc::peer_lost) << lost.what();
      EXPECT_HAS(lost.what(), "group 'consumer'");
    });
    world.start("consumer", 1, [&](Session& s) {
      InStream in(s, "s", {.steps = steps});
      in.declare(field(1));
      EXPECT_TRUE(in.begin_step());
      while (looking < 2) std::this_thread::yield();
    });  // gives up the stream inside the step
    EXPECT_EQ(text_of(world.join()), "");
  }
}

}  // namespace
}  // namespace tremula::client

#endif
