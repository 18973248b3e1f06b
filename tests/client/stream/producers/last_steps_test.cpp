// SPDX-License-Identifier: Apache-2.0
// If a producer has sent complete steps before it gives up its stream or leaves, a consumer that lags gets
// each of these steps on every rank, over TCP and in shared memory.
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "tests/client/world.hpp"
#include "transport/tcp/tcp.hpp"

namespace tremula::client {
namespace {

using index_calc::Layout;

struct Case {
  std::string name;
  RankCount producers = 1, consumers = 1;
  bool is_moved =
      false;  ///< data moves between the consumer's calls, as if by a thread or another stream
  bool is_local = false;
  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }
};

// Too long to travel with message heads, but so short that end_step has written all of it.
constexpr core::Index extent = 6 * 384;
constexpr int depth = 4;  // steps in flight when the producer leaves

proto::Field field(RankCount size) {
  return {.name = "f",
          .type = core::ElementType::i64,
          .layout = Layout::parse(fmt::format("shape={} grid={}", extent, size))};
}
/// Returns a rank's part of step s, in which element i is 10^6 * s + i.
std::vector<std::int64_t> part(Session& s, std::uint64_t step) {
  std::vector<std::int64_t> data(static_cast<std::size_t>(extent / s.size()));
  std::iota(data.begin(), data.end(),
            1000000 * static_cast<std::int64_t>(step) + s.rank().value * (extent / s.size()));
  return data;
}
void take(Session& s, InStream& in, std::uint64_t step) {
  std::vector<std::int64_t> data(static_cast<std::size_t>(extent / s.size()));
  EXPECT_EQ(in.step(), step);
  in.get(0, std::as_writable_bytes(std::span(data)));
  EXPECT_EQ(data, part(s, step));
  in.end_step();
}
void wait_until(const std::atomic<int>& count, int expected) {
  ASSERT_TRUE(wait_for([&] { return count == expected; }, core::Deadline::after(60), [] {}).second);
}

class LastSteps : public ::testing::TestWithParam<Case> {};

TEST_P(LastSteps, ReachALaggingConsumerAfterALoss) {
  const Case& c = GetParam();
  World world(8192, c.is_local ? World::Way::local : World::Way::loopback);
  if (!c.is_local) world.other_way = [] { return std::make_unique<transport::Tcp>(); };
  std::atomic<int> in_step = 0, sent = 0, gone = 0, over = 0;
  world.start("producer", c.producers, [&](Session& s) {
    {
      OutStream out(s, "s", {.queue_depth = depth});
      out.declare(field(s.size()));
      for (std::uint64_t step = 0; step < depth; ++step) {
        out.begin_step();
        const auto data = part(s, step);
        out.put(0, std::as_bytes(std::span(data)));
        out.end_step();
      }
      ++sent;
      wait_until(in_step, c.consumers);
      wait_until(sent, c.producers);
    }
    ++gone;
    wait_until(over, c.consumers);
  });
  world.start("consumer", c.consumers, [&](Session& s) {
    InStream in(s, "s");
    in.declare(field(s.size()));
    ASSERT_TRUE(in.begin_step());
    ++in_step;
    wait_until(gone, c.producers);
    std::uint64_t step = 0;
    try {
      do {
        take(s, in, step++);
        const auto until = core::Deadline::after(c.is_moved ? 0.2 : 0);
        while (!until.expired()) s.progress().advance();
      } while (in.begin_step());
      ADD_FAILURE() << "the producer has not ended the stream";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Errc::peer_lost) << e.what();
      EXPECT_NE(std::string(e.what()).find("gave up stream 's' after 4 steps"), std::string::npos)
          << e.what();
    }
    EXPECT_EQ(step, depth);
    ++over;
  });
  EXPECT_EQ(text_of(world.join()), "");
}

INSTANTIATE_TEST_SUITE_P(
    Over, LastSteps,
    ::testing::Values(
        Case{.name = "tcp"}, Case{.name = "tcp_moved", .is_moved = true},
        Case{.name = "local", .is_local = true},
        Case{.name = "local_moved", .is_moved = true, .is_local = true},
        Case{.name = "tcp_2x3_moved", .producers = 2, .consumers = 3, .is_moved = true},
        Case{.name = "local_3x2", .producers = 3, .consumers = 2, .is_local = true}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace tremula::client
