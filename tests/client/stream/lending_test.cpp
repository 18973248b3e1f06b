// SPDX-License-Identifier: Apache-2.0
// Tests arrays that a stream borrows instead of copying: queue_depth 0 and put_async, between ranks that
// can map each other's memory.
#include <algorithm>
#include <atomic>
#include <span>

#include "tests/client/world.hpp"
#include "transport/local/shared_memory.hpp"

namespace tremula::client {
namespace {

constexpr core::Index extent = 50000;

/// An array of 8-byte numbers, in memory that peers can map.
class SharedArray {
public:
  explicit SharedArray(std::size_t count)
      : values_(reinterpret_cast<std::int64_t*>(transport::local::allocate(count * 8)), count) {}
  ~SharedArray() { transport::local::deallocate(reinterpret_cast<std::byte*>(values_.data())); }
  SharedArray(const SharedArray&) = delete;
  std::span<std::int64_t> values() { return values_; }
  std::span<std::byte> bytes() { return std::as_writable_bytes(values_); }
  bool is_all(std::int64_t value) const {
    return std::ranges::all_of(values_, [=](auto v) { return v == value; });
  }

private:
  std::span<std::int64_t> values_;
};

proto::Field field(const std::string& name, RankCount size) {
  return {.name = name,
          .type = core::ElementType::i64,
          .layout = index_calc::Layout::parse(fmt::format("shape={} grid={}", extent, size))};
}

bool is_all(std::span<const std::int64_t> values, std::int64_t value) {
  return std::ranges::all_of(values, [=](auto v) { return v == value; });
}

TEST(Lending, StepIsHandedOverBeforeEndStepReturns) {
  World world(0, World::Way::local);
  static constexpr int steps = 10;
  world.start("producer", 2, [](Session& s) {
    OutStream out(s, "s", {.queue_depth = 0, .wait_for_consumers = 2});
    out.declare(field("a", 2));
    out.declare(field("b", 2));
    SharedArray a(extent / 2);
    std::vector<std::int64_t> b(extent / 2);  // ordinary: sent through a ring
    for (int step = 0; step < steps; ++step) {
      std::ranges::fill(a.values(), step);
      std::ranges::fill(b, -step);
      out.begin_step();
      out.put(0, a.bytes());
      out.put(1, std::as_bytes(std::span(b)));
      out.end_step();
      // a goes to both consumers, b only to the one that takes it
      EXPECT_EQ(out.step_statistics().traffic.bytes, 3u * (extent / 2) * 8);
      std::ranges::fill(a.values(), 99);  // the array belongs to this rank again
      std::ranges::fill(b, 99);
    }
    out.close();
  });
  for (const auto& [name, wants_b] : {std::pair{"all", true}, std::pair{"one", false}})
    world.start(name, 1, [wants_b = wants_b](Session& s) {
      InStream in(s, "s");
      if (wants_b) in.declare(field("b", 1));
      in.declare(field("a", 1));
      std::vector<std::int64_t> a(extent), b(extent);
      int step = 0;
      for (; in.begin_step(); ++step) {
        // Not in the order of the puts, and b only in some steps.
        in.get(wants_b ? 1 : 0, std::as_writable_bytes(std::span(a)));
        EXPECT_TRUE(is_all(a, step));
        if (wants_b && step % 3 == 0) {
          in.get(0, std::as_writable_bytes(std::span(b)));
          EXPECT_TRUE(is_all(b, -step));
        }
        in.end_step();
        const auto peers = in.peer_statistics();
        EXPECT_EQ(peers.size(), 2u);
        EXPECT_EQ(peers[0].path, wants_b && step % 3 == 0 ? "ring" : "lent");
        const auto copied = in.step_statistics().traffic.copied_bytes;
        EXPECT_EQ(copied, (wants_b && step % 3 == 0 ? 2u : 1u) * extent * 8);
      }
      EXPECT_EQ(step, steps);
      in.close();
    });
  // The second consumer takes field a only, so b costs it nothing.
  const auto errors = text_of(world.join());
  EXPECT_EQ(errors, "");
}

TEST(Lending, AsynchronousPutIsCopiedOnceAndCompletes) {
  World world(0, World::Way::local);
  std::atomic<bool> may_take = false;
  world.start("producer", 1, [&](Session& s) {
    OutStream out(s, "s", {.queue_depth = 2});
    out.declare(field("a", 1));
    SharedArray first(extent), second(extent);
    const auto put = [&](SharedArray& array, std::int64_t value) {
      std::ranges::fill(array.values(), value);
      out.begin_step();
      const auto request = out.put_async(0, array.bytes());
      EXPECT_THROW(out.poll_taken(request), Error) << "the step has not ended";
      out.end_step();
      return request;
    };
    const auto one = put(first, 1), two = put(second, 2);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(out.poll_taken(one));
    may_take = true;
    out.wait_taken(one);
    EXPECT_TRUE(out.poll_taken(one));
    const auto three = put(first, 3);  // while the consumer copies the second
    out.wait_taken(two);
    out.wait_taken(three);
    EXPECT_EQ(out.statistics().traffic.copied_bytes, 0u);
    EXPECT_EQ(out.statistics().traffic.bytes, 3u * extent * 8);
    out.close();
  });
  world.start("consumer", 1, [&](Session& s) {
    InStream in(s, "s");
    in.declare(field("a", 1));
    std::vector<std::int64_t> a(extent);
    for (int step = 1; in.begin_step(); ++step) {
      while (!may_take) std::this_thread::yield();
      in.get(0, std::as_writable_bytes(std::span(a)));
      EXPECT_TRUE(is_all(a, step));
      in.end_step();
    }
    EXPECT_EQ(in.statistics().traffic.copied_bytes, 3u * extent * 8);
    in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(Lending, UntakenStepReturnsToTheProducer) {
  // The consumer sleeps with the step open. When it wakes up, the producer has long given up and
  // written other numbers: the consumer gets the old ones, or an error.
  World world(0, World::Way::local);
  world.step_timeout = 0.5;
  std::atomic<bool> has_given_up = false;
  world.start("producer", 1, [&](Session& s) {
    OutStream out(s, "s", {.queue_depth = 0});
    out.declare(field("a", 1));
    SharedArray a(extent);
    std::ranges::fill(a.values(), 1);
    out.begin_step();
    out.put(0, a.bytes());
    try {
      out.end_step();
      ADD_FAILURE() << "expected an error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::timed_out) << error.what();
    }
    std::ranges::fill(a.values(), 2);
    has_given_up = true;
    EXPECT_TRUE(a.is_all(2));
    try {  // thrown once; the stream may continue without that consumer
      out.begin_step();
      ADD_FAILURE() << "expected an error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::peer_lost) << error.what();
    }
    out.begin_step();
    out.put(0, a.bytes());
    out.end_step();
    try {
      out.close();
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  });
  world.start("consumer", 1, [&](Session& s) {
    InStream in(s, "s");
    in.declare(field("a", 1));
    EXPECT_TRUE(in.begin_step());
    while (!has_given_up) std::this_thread::yield();
    std::vector<std::int64_t> a(extent);
    try {
      in.get(0, std::as_writable_bytes(std::span(a)));
      EXPECT_TRUE(is_all(a, 1));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::peer_lost) << error.what();
    }
  });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(Lending, RankThatReclaimsItsPartEndsTheLinkAtOnce) {
  World world(0, World::Way::local);
  world.step_timeout = 60;  // no other rank may wait that long
  world.step_timeout_of["producer.1"] = 0.3;
  std::atomic<bool> has_given_up = false, has_consumer_ended = false;
  world.start("producer", 2, [&](Session& s) {
    OutStream out(s, "s", {.queue_depth = 0});
    out.declare(field("a", 2));
    std::vector<std::int64_t> a(extent / 2, 1);
    out.begin_step();
    out.put(0, std::as_bytes(std::span(a)));
    try {
      out.end_step();
      EXPECT_EQ(s.rank(), Rank{0});  // the producer continues without that consumer
    } catch (const Error& error) {
      EXPECT_EQ(s.rank(), Rank{1});
      EXPECT_EQ(error.code(), Errc::timed_out) << error.what();
      has_given_up = true;
    }
    while (!has_consumer_ended) std::this_thread::yield();
  });
  world.start("consumer", 1, [&](Session& s) {
    InStream in(s, "s");
    in.declare(field("a", 1));
    EXPECT_TRUE(in.begin_step());
    while (!has_given_up) std::this_thread::yield();
    std::vector<std::int64_t> a(extent);
    try {
      in.get(0, std::as_writable_bytes(std::span(a)));
      ADD_FAILURE() << "expected an error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::peer_lost) << error.what();
      EXPECT_NE(std::string(error.what()).find("rank 1 of group 'producer' withdrew a step"),
                std::string::npos)
          << error.what();
    }
    has_consumer_ended = true;
  });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(Lending, PollingNeverWaitsAfterTheLinkHasFailed) {
  World world;
  world.start("producer", 1, [&](Session& s) {
    OutStream out(s, "s", {});
    out.declare(field("a", 1));
    std::vector<std::int64_t> a(extent, 1);
    const auto put = [&] {
      out.begin_step();
      const auto request = out.put_async(0, std::as_bytes(std::span(a)));
      out.end_step();
      return request;
    };
    out.wait_taken(put());
    // The server knows nothing of this failure, but for a while it might still report that the
    // consumer has died. Only steps fail: a sign of life that failed before the step is put would
    // exclude the link from the step.
    world.network().inject_faults([](const auto& message) {
      return transport::Network::Fault{.fail = message.tag == tags::step};
    });
    const auto request = put();
    int answers = 0;
    try {
      while (!out.poll_taken(request)) ++answers;
      ADD_FAILURE() << "expected an error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::transport) << error.what();
    }
    EXPECT_GT(answers, 1) << "it must answer `not yet` until the failure is certain";
  });
  world.start("consumer", 1, [](Session& s) {
    InStream in(s, "s");
    in.declare(field("a", 1));
    EXPECT_TRUE(in.begin_step());
    in.end_step();
    EXPECT_THROW(in.begin_step(), Error);
  });
  EXPECT_EQ(text_of(world.join()), "");
}

/// A world in which lent arrays are checked, in every kind of build.
struct Checked : World {
  Checked() : World(0, World::Way::local) { check_lent = true; }
};

TEST(Lending, ChangeOfALentArrayIsNoticed) {
  Checked world;
  std::atomic<bool> is_changed = false;
  world.start("producer", 1, [&](Session& s) {
    OutStream out(s, "s", {});
    out.declare(field("a", 1));
    SharedArray array(extent);
    const auto put = [&](int value) {
      std::ranges::fill(array.values(), value);
      out.begin_step();
      const auto request = out.put_async(0, array.bytes());
      out.end_step();
      return request;
    };
    const auto first = put(1);
    array.values()[extent / 2] = 9;
    is_changed = true;
    try {
      out.wait_taken(first);
      ADD_FAILURE() << "expected an error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::mismatch);
      EXPECT_NE(std::string(error.what()).find("stream 's', step 0, field 'a'"), std::string::npos)
          << error.what();
    }
    out.wait_taken(put(2));  // the stream continues
    out.close();
  });
  world.start("consumer", 1, [&](Session& s) {
    InStream in(s, "s");
    in.declare(field("a", 1));
    for (std::vector<std::int64_t> a(extent); in.begin_step(); in.end_step()) {
      while (!is_changed) std::this_thread::yield();
      in.get(0, std::as_writable_bytes(std::span(a)));
    }
    in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(Lending, ChangeBeforeEndStepIsNoticedWithoutAQueue) {
  Checked world;
  world.start("producer", 1, [](Session& s) {
    OutStream out(s, "s", {.queue_depth = 0});
    out.declare(field("a", 1));
    std::vector<std::int64_t> a(extent, 1);
    out.begin_step();
    out.put(0, std::as_bytes(std::span(a)));
    a[7] = 2;
    try {
      out.end_step();
      ADD_FAILURE() << "expected an error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("until end_step has returned"), std::string::npos)
          << error.what();
    }
    out.close();
  });
  world.start("consumer", 1, [](Session& s) {
    InStream in(s, "s");
    in.declare(field("a", 1));
    for (std::vector<std::int64_t> a(extent); in.begin_step(); in.end_step())
      in.get(0, std::as_writable_bytes(std::span(a)));
    in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

}  // namespace
}  // namespace tremula::client
