// SPDX-License-Identifier: Apache-2.0
// Links are set up while the stream runs: a consumer whose process is stopped during its set-up delays no
// other rank, and is admitted when it continues.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "client/exchange/signs_of_life.hpp"
#include "client/stream/link/link_plan.hpp"
#include "proto/convert.hpp"
#include "tests/client/stream/numbered_steps.hpp"
#include "tests/coupled/jobs.hpp"

namespace tremula::client {
namespace {

using numbered::Consumer;
using numbered::Event;
using numbered::Producer;

constexpr double far_too_long = 1000;
constexpr RankCount producers = 2;

core::Deadline soon() { return core::Deadline::after(60); }

proto::Field field_of(RankCount size) {
  return {.name = "f",
          .type = core::ElementType::i64,
          .layout = index_calc::Layout::parse(
              fmt::format("shape={} grid={} block={}", numbered::extent, size, 7 * size))};
}

/// Waits until a process is stopped, or until it runs.
void await_state(pid_t pid, bool is_stopped) {
  const auto limit = soon();
  for (;;) {
    std::ifstream stat(fmt::format("/proc/{}/stat", pid));
    std::string text{std::istreambuf_iterator<char>(stat), {}};
    const auto name_end = text.rfind(')');
    if (name_end != text.npos && (text.at(name_end + 2) == 'T') == is_stopped) return;
    ASSERT_FALSE(limit.expired());
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

/// Runs in a separate process: a consumer that talks to the server without a session, and stops
/// itself before it sends its address, or before it connects.
TEST(Stopping, DISABLED_Consumer) {
  const bool sends_address = std::getenv("TREMULA_TEST_SENDS") != nullptr;
  const core::Log log("stopping", core::LogLevel::off);
  transport::Local local;
  const std::string offer = local.offers().front();
  wire::Hello hello;
  hello.set_protocol(proto::protocol_version);
  hello.set_group("stopping");
  hello.set_size(1);
  hello.set_job("stopping");
  hello.set_host("h");
  hello.set_version("1");
  hello.set_silence_seconds(no_limit);
  Control control(transport::ServerName{std::getenv("TREMULA_TEST_SERVER"), "test"}, hello, soon(),
                  log);
  wire::ToServer message;
  auto& subscribe = *message.mutable_subscribe();
  subscribe.set_stream("s");
  *subscribe.add_fields() = proto::encode(field_of(1));
  subscribe.add_offers()->set_transport("local");
  subscribe.mutable_offers(0)->set_offer(offer);
  subscribe.set_incarnation(1);
  control.call(message, soon());
  control.begin_presence(0, soon());
  const auto event = control.next_event(soon());
  ASSERT_TRUE(event && event->has_matched());
  const std::uint64_t link = event->matched().link();
  const auto endpoint = local.open(offer, transport::Side::consumer);
  const auto send_address = [&] {
    wire::ToServer own_address;
    own_address.mutable_link_addresses()->set_link(link);
    const auto address = endpoint->address();
    own_address.mutable_link_addresses()->add_addresses(address.data(), address.size());
    control.call(own_address, soon());
  };
  if (sends_address) send_address();
  raise(SIGSTOP);
  if (!sends_address) send_address();
  endpoint->connect(addresses_in(control.take_addresses(link, soon())), soon());
  index_calc::PlanCache plans;
  const std::vector<proto::Field> mine{field_of(1)}, theirs{field_of(producers)};
  const auto plan =
      plan_exchange(mine, theirs, transport::Side::consumer, Rank{0}, 1, producers, plans, {});
  SignsOfLife signs(plan, *endpoint, link, no_limit);
  const auto is_proved = [&] {
    endpoint->progress();
    signs.advance();
    return !signs.unproved();
  };
  ASSERT_TRUE(wait_for(is_proved, soon(), [] {}).second);
  // The consumer is admitted: both ranks send it the same step.
  std::array<std::array<std::byte, 1 << 16>, producers> heads;
  std::vector<transport::Request> requests;
  for (const Rank r : core::all_ranks(producers))
    requests.push_back(endpoint->receive(r, tags::step, heads[at(r)]));
  const auto is_here = [&] {
    endpoint->progress();
    return std::ranges::all_of(requests, [](auto& request) { return request.test(); });
  };
  ASSERT_TRUE(wait_for(is_here, soon(), [] {}).second);
  const auto first = proto::decode_message_header(std::span(heads[0]).first(requests[0].bytes()));
  const auto second = proto::decode_message_header(std::span(heads[1]).first(requests[1].bytes()));
  EXPECT_EQ(first.step, second.step);
  std::ofstream(std::getenv("TREMULA_TEST_FILE")) << first.step;
}

/// When the consumer is stopped, and whether it continues before the stream ends.
enum class Stopped { before_it_sends_its_address, before_it_connects, for_ever };

class StoppedConsumer : public testing::TestWithParam<Stopped> {};

TEST_P(StoppedConsumer, DelaysNoOtherRank) {
  const bool sends_address = GetParam() != Stopped::before_it_sends_its_address;
  const bool continues = GetParam() != Stopped::for_ever;
  World world(0, World::Way::local);
  world.step_timeout = far_too_long;
  const auto file = std::filesystem::temp_directory_path() /
                    fmt::format("tremula_opening_{}_{}", getpid(), static_cast<int>(GetParam()));
  std::atomic<std::uint64_t> put = 0;  // by rank 0
  std::atomic<bool> is_over = false;
  std::atomic<double> longest = 0;
  std::uint64_t taken = 0;
  Event is_linked;
  world.start(
      "producer", producers,
      [&](Session& s) {
        Producer p(s, {});
        const auto is_next = [&] {  // decided by rank 0
          return s.run_on_root([&] { return core::Bytes(is_over ? 1 : 0); }, soon()).empty();
        };
        for (std::uint64_t step = 1; is_next(); ++step) {
          const auto start = core::Deadline::Clock::now();
          p.put_to(step);
          const double seconds =
              core::Deadline::Seconds(core::Deadline::Clock::now() - start).count();
          if (s.rank() != Rank{0}) continue;
          put = step;
          longest = std::max(longest.load(), seconds);
        }
        p.out.close();
      },
      far_too_long);
  world.start(
      "healthy", 1,
      [&](Session& s) {
        Consumer c(s, {});
        while (c.begin()) {
          c.take();
          is_linked.set();
        }
        c.in.close();
        taken = c.steps.size();
        EXPECT_EQ(c.steps.front(), 0u);
      },
      far_too_long);
  is_linked.wait();
  coupled::Environment environment{{"TREMULA_TEST_SERVER", world.config(1).server},
                                   {"TREMULA_TEST_FILE", file.string()}};
  if (sends_address) environment["TREMULA_TEST_SENDS"] = "1";
  std::optional<coupled::Process> stopping(
      std::in_place,
      coupled::Arguments{"/proc/self/exe", "--gtest_filter=Stopping.DISABLED_Consumer",
                         "--gtest_also_run_disabled_tests"},
      environment, file.string() + ".log");
  await_state(stopping->pid(), true);
  const std::uint64_t stopped_at = put;
  // While it is stopped during its set-up, the other ranks continue for longer than a call waits for a link
  // that has just begun, but for less than the 10 s after which the link is given up.
  const auto stopped_until = core::Deadline::after(continues ? 2 : 1);
  const auto limit = soon();
  while ((put < stopped_at + 100 || !stopped_until.expired()) && !limit.expired())
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_GE(put, stopped_at + 100);
  EXPECT_LT(longest, 8) << "seconds for a step";
  if (continues) {
    stopping->signal(SIGCONT);
    EXPECT_EQ(stopping->wait(soon()), 0) << stopping->output();
    std::uint64_t first = 0;
    EXPECT_TRUE(std::ifstream(file) >> first);
    EXPECT_GT(first, stopped_at + 50);  // admitted when its link was proved, not before
  }
  is_over = true;
  const auto errors = world.join();  // no rank waits for a consumer that is still stopped
  EXPECT_EQ(text_of(errors), "");
  EXPECT_EQ(taken, put);
  stopping->signal(SIGKILL);
  std::filesystem::remove(file);
  std::filesystem::remove(file.string() + ".log");
}

INSTANTIATE_TEST_SUITE_P(, StoppedConsumer,
                         testing::Values(Stopped::before_it_sends_its_address,
                                         Stopped::before_it_connects, Stopped::for_ever),
                         [](const auto& when) {
                           return when.param == Stopped::for_ever ? "for_ever"
                                  : when.param == Stopped::before_it_connects
                                      ? "before_it_connects"
                                      : "before_it_sends_its_address";
                         });

}  // namespace
}  // namespace tremula::client
