// SPDX-License-Identifier: Apache-2.0
// Tests the error that one side gets when it has lost the other side.
#include <gtest/gtest.h>

#include <atomic>

#include "tests/client/world.hpp"
#include "transport/tcp/tcp.hpp"

namespace tremula::client {
namespace {

using index_calc::Layout;

proto::Field field(RankCount size) {
  return {.name = "f",
          .type = core::ElementType::i64,
          .layout = Layout::parse(fmt::format("shape=24 grid={}", size))};
}
void put(Session& s, OutStream& out) {
  const std::vector<std::int64_t> data(static_cast<std::size_t>(24 / s.size()));
  out.begin_step();
  out.put(0, std::as_bytes(std::span(data)));
  out.end_step();
}
void wait_until(const std::atomic<bool>& flag) {
  ASSERT_TRUE(wait_for([&] { return flag.load(); }, core::Deadline::after(60), [] {}).second);
}
std::size_t count_of(const std::string& line, const std::string& text) {
  std::size_t times = 0;
  for (auto at = text.find(line); at != text.npos; at = text.find(line, at + 1)) ++times;
  return times;
}

TEST(LostConsumer, IsNamedInOneWarningByAStreamThatContinues) {
  World world;
  world.log = core::LogLevel::warn;
  testing::internal::CaptureStderr();
  std::atomic<bool> is_steady = false, has_left = false;
  world.start("producer", 2, [&](Session& s) {
    OutStream out(s, "s", {.wait_for_consumers = 1});
    out.declare(field(2));
    const auto has_it_left = [&] {  // decided by rank 0
      const std::byte mine{has_left.load()};
      return s.group().allgather({mine}, s.deadline())[0][0] == std::byte{1};
    };
    while (!has_it_left()) put(s, out);
    for (int more = 0; more < 5; ++more) put(s, out);
    out.close();
  });
  world.start("steady", 1, [&](Session& s) {
    InStream in(s, "s");
    in.declare(field(1));
    for (; in.begin_step(); is_steady = true) in.end_step();
    in.close();
  });
  world.start("mortal", 1, [&](Session& s) {
    wait_until(is_steady);
    {
      InStream in(s, "s");
      in.declare(field(1));
      ASSERT_TRUE(in.begin_step());
    }
    has_left = true;
  });
  EXPECT_EQ(text_of(world.join()), "");
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(count_of("lost consumer group 'mortal': rank 0 of group 'mortal' left", said), 1u)
      << said;
}

// The producer waits for the stuck consumer first, until the time limit for both has passed.
TEST(LostConsumer, IsNamedWithItsCauseAfterTheTimeLimit) {
  World world;
  world.step_timeout = 300;
  world.step_timeout_of["producer.0"] = 3;
  constexpr std::uint64_t second_link = 2;  // as the server counts them
  std::atomic<bool> is_steady = false, is_there = false, is_last = false, has_begun = false,
                    is_over = false;
  world.start("producer", 1, [&](Session& s) {
    OutStream out(s, "s", {.queue_depth = 0, .wait_for_consumers = 1});
    out.declare(field(1));
    while (!is_there) put(s, out);
    is_last = true;
    out.begin_step();
    has_begun = true;
    const auto has_failed = [&] { return s.control().link_end(second_link).has_value(); };
    EXPECT_TRUE(wait_for(has_failed, core::Deadline::after(60), [] {}).second);
    const std::vector<std::int64_t> data(24);
    try {
      out.put(0, std::as_bytes(std::span(data)));
      out.end_step();
      out.begin_step();  // no required consumer is left
      ADD_FAILURE() << "expected an error";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Errc::peer_lost) << e.what();
      EXPECT_NE(std::string(e.what()).find("it has failed alone"), std::string::npos) << e.what();
    }
    is_over = true;
  });
  world.start("stuck", 1, [&](Session& s) {
    InStream in(s, "s");
    in.declare(field(1));
    for (; in.begin_step() && !is_last; is_steady = true) in.end_step();
    wait_until(is_over);
  });
  world.start("failed", 1, [&](Session& s) {
    wait_until(is_steady);
    InStream in(s, "s");
    in.declare(field(1));
    ASSERT_TRUE(in.begin_step());
    is_there = true;
    in.end_step();
    wait_until(has_begun);
    wire::ToServer message;
    message.mutable_close_link()->set_link(second_link);
    message.mutable_close_link()->set_gave_up(true);
    message.mutable_close_link()->set_why("it has failed alone");
    s.control().call(std::move(message), s.deadline());
    wait_until(is_over);  // its endpoints stay as they are
  });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(LostConsumer, IsReportedWithoutAServer) {
  World world;
  world.other_way = [] { return std::make_unique<transport::Tcp>(); };
  std::atomic<bool> is_there = false, is_served = true, is_reported = false;
  world.start(
      "producer", 1,
      [&](Session& s) {
        OutStream out(s, "s", {});
        out.declare(field(1));
        try {
          for (;;) put(s, out);
        } catch (const Error& e) {
          EXPECT_EQ(e.code(), Errc::peer_lost) << e.what();
          EXPECT_NE(std::string(e.what()).find("consumer group 'consumer'"), std::string::npos)
              << e.what();
        }
        is_reported = true;
      },
      2);
  world.start(
      "consumer", 1,
      [&](Session& s) {
        {
          InStream in(s, "s");
          in.declare(field(1));
          ASSERT_TRUE(in.begin_step());
          is_there = true;
          wait_for([&] { return !is_served.load(); }, core::Deadline::after(60), [] {});
        }
        wait_until(is_reported);
      },
      2);
  wait_until(is_there);
  world.stop_server();
  is_served = false;
  EXPECT_EQ(text_of(world.join()), "");
}

// A consumer waits a moment for data that a lost producer had sent, here for longer than a step may take.
TEST(LostProducer, IsReportedEvenAfterTheTimeForAStep) {
  World world(8192, World::Way::local);
  world.step_timeout_of["consumer.0"] = 0.2;
  std::atomic<bool> has_taken = false;
  world.start("producer", 1, [&](Session& s) {
    OutStream out(s, "s", {.queue_depth = 1});
    out.declare(field(1));
    put(s, out);
    wait_until(has_taken);
  });
  world.start("consumer", 1, [&](Session& s) {
    InStream in(s, "s");
    in.declare(field(1));
    const auto has_begun = [&] {
      try {
        return in.begin_step();
      } catch (const Error& e) {  // on a busy machine
        if (e.code() != Errc::timed_out) throw;
        return false;
      }
    };
    ASSERT_TRUE(wait_for(has_begun, core::Deadline::after(60), [] {}).second);
    in.end_step();
    has_taken = true;
    const auto is_lost = [&] { return s.control().link_end(1).has_value(); };
    EXPECT_TRUE(wait_for(is_lost, core::Deadline::after(60), [] {}).second);
    try {
      in.begin_step();
      ADD_FAILURE() << "expected an error";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Errc::peer_lost) << e.what();
    }
  });
  EXPECT_EQ(text_of(world.join()), "");
}

}  // namespace
}  // namespace tremula::client
