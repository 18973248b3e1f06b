// SPDX-License-Identifier: Apache-2.0
// Ranks of one group that make different calls get an error that names these calls. The other side
// gets such an error as well.
#include <array>
#include <atomic>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>

#include "client/session/endpoint_group.hpp"
#include "client/stream/describe.hpp"
#include "tests/client/world.hpp"

namespace tremula::client {
namespace {

proto::Field field(RankCount size) {
  return {.name = "f",
          .type = core::ElementType::i64,
          .layout = index_calc::Layout::parse(fmt::format("shape=60 grid={}", size))};
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

const std::string one_begins =
    "group 'producer': expected all ranks to make the same calls in the same order; found rank 1 "
    "in "
    "begin_step of stream 's', step 3, while rank 0 is in close of stream 's', step 3";
const std::string one_closes =
    "group 'producer': expected all ranks to make the same calls in the same order; found rank 1 "
    "in "
    "close of stream 's', step 3, while rank 0 is in begin_step of stream 's', step 3";

/// Two producer ranks, one of which puts one more step than the other.
class OneStepMore : public testing::TestWithParam<Rank> {};

TEST_P(OneStepMore, IsReportedToBothRanksAndToTheConsumer) {
  World world;
  world.step_timeout = 60;  // no rank waits that long
  const auto begun = core::Deadline::Clock::now();
  const Rank longer = GetParam();
  const std::string& reported = longer == Rank{1} ? one_begins : one_closes;
  world.start("producer", 2, [&](Session& s) {
    OutStream out(s, "s", {.queue_depth = 2});
    out.declare(field(2));
    const std::vector<std::int64_t> part(30);
    const auto put = [&] {
      out.begin_step();
      out.put(0, std::as_bytes(std::span(part)));
      out.end_step();
    };
    for (int step = 0; step < 3; ++step) put();
    const auto error = error_of([&] {
      if (s.rank() != longer) return out.close();
      for (;;) put();
    });
    EXPECT_HAS(error.what(), reported);
  });
  world.start("consumer", 1, [&](Session& s) {
    InStream in(s, "s");
    in.declare(field(1));
    const auto error = error_of([&] {
      while (in.begin_step()) in.end_step();
    });
    EXPECT_EQ(error.code(), Errc::peer_lost);
    if (longer == Rank{0}) {
      EXPECT_HAS(error.what(), reported);
    }
  });
  EXPECT_EQ(text_of(world.join()), "");
  EXPECT_LT(core::Deadline::Clock::now() - begun, std::chrono::seconds(45));
}
INSTANTIATE_TEST_SUITE_P(OfRank, OneStepMore, testing::Values(Rank{0}, Rank{1}));

TEST(OtherCall, NamesTheRanksAndTheirStreams) {
  World world;
  world.start("producer", 3, [](Session& s) {
    OutStream a(s, "a", {.wait_for_consumers = 0}), b(s, "b", {.wait_for_consumers = 0});
    a.declare(field(3));
    b.declare(field(3));
    OutStream& mine = s.rank() == Rank{2} ? b : a;
    EXPECT_HAS(error_of([&] { mine.begin_step(); }).what(),
               "found rank 2 in begin_step of stream 'b', step 0, while rank 0 is in begin_step of "
               "stream 'a', step 0");
  });
  EXPECT_EQ(text_of(world.join()), "");
}

/// Uses the channel of groups without MPI, where a broadcast and an allgather are different messages.
TEST(OtherCall, IsReportedInEveryKindOfAgreement) {
  for (const bool root_gathers : {true, false})
    for (const bool other_gathers : {true, false}) {
      transport::Network network(0);
      transport::Loopback loopback(network);
      auto root = loopback.open("loopback", transport::Side::producer);
      auto other = loopback.open("loopback", transport::Side::consumer);
      const std::vector<transport::Address> of_root{root->address()}, of_other{other->address()};
      root->connect(of_other, core::Deadline::after(1));
      other->connect(of_root, core::Deadline::after(1));
      const std::string name = "g";
      const auto agree = [&](EndpointGroup& group, bool gathers) {
        const CollectiveCall call{group.rank() == Rank{0} ? "close" : "begin_step", "s", 7};
        const auto deadline = core::Deadline::after(30);
        Left left;
        const std::function<bool(const std::string&)> has_lost = [](const auto&) { return false; };
        const AgreementContext context{group, name, call, &left, &has_lost};
        if (gathers)
          allgather(context, {}, deadline);
        else
          run_on_root(
              context, [] { return core::Bytes(3); }, deadline);
      };
      const auto reported = "rank 1 in begin_step of stream 's', step 7, while rank 0 is in close";
      std::thread thread([&, end = std::move(other)]() mutable {
        EndpointGroup group(std::move(end), Rank{1}, 2);
        EXPECT_HAS(error_of([&] { agree(group, other_gathers); }).what(), reported);
      });
      EndpointGroup group(std::move(root), Rank{0}, 2);
      if (root_gathers) {
        EXPECT_HAS(error_of([&] { agree(group, true); }).what(), reported);
      } else {
        agree(group, false);  // the root of a broadcast waits for no rank
      }
      thread.join();
    }
}

/// Puts two steps and runs `more`; then makes no call until the consumer has ended.
void produce(World& world, RankCount size, const std::atomic<bool>& is_over,
             const std::function<void(Session&, const std::function<void()>& put)>& more) {
  world.start("producer", size, [&is_over, more, size](Session& s) {
    OutStream out(s, "s", {.queue_depth = 4});
    out.declare(field(size));
    const std::vector<std::int64_t> part(static_cast<std::size_t>(60 / size));
    const auto put = [&] {
      out.begin_step();
      out.put(0, std::as_bytes(std::span(part)));
      out.end_step();
    };
    put(), put();
    more(s, put);
    while (!is_over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
}
const auto nothing_more = [](Session&, const auto&) {};

void end(InStream& in) {
  std::vector<std::int64_t> part(30);
  in.get(0, std::as_writable_bytes(std::span(part)));
  in.end_step();
}
void take(InStream& in) {
  EXPECT_EQ(in.begin(std::nullopt), Begun::step);
  end(in);
}
void redeclare(InStream& in) {
  const std::pair<int, index_calc::Layout> layout{
      0, index_calc::Layout::parse("shape=60 grid=2 block=10")};
  in.redeclare(std::span(&layout, 1));
}
void allgather_numbers(Session& s) {
  s.begin_call("session_allgather", "", 0);
  s.allgather(core::Bytes(8), s.deadline());
}

using Errors = std::array<std::optional<Error>, 2>;
/// Runs a consumer of two ranks, which reach each other as separate processes do. They run `work`
/// after two steps.
Errors consume(const World& world, double restart_timeout,
               const std::function<void(Session&, InStream&)>& work) {
  Errors errors;
  std::vector<std::thread> ranks;
  for (const Rank rank : core::all_ranks(2))
    ranks.emplace_back([&, rank] {
      try {
        auto config = world.config_of("consumer", rank, 30);
        config.transport = "local";
        const auto session = Session::open("consumer", rank.value, 2, config);
        InStream in(*session, "s", {.restart_timeout = restart_timeout});
        in.declare(field(2));
        take(in), take(in);
        work(*session, in);
        in.close();
      } catch (const Error& e) {
        errors[at(rank)] = e;
      }
    });
  for (auto& rank : ranks) rank.join();
  return errors;
}
void expect_mismatch(const Errors& errors, const std::vector<std::string>& calls) {
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Errc::mismatch) << error->what();
    for (const std::string& call : calls) EXPECT_HAS(error->what(), call);
  }
}
void expect_none(const Errors& errors) {
  for (const auto& error : errors) EXPECT_FALSE(error) << error->what();
}

/// A consumer whose restart_timeout is the parameter.
class CallDuringAStep : public testing::TestWithParam<double> {
protected:
  CallDuringAStep() { world.step_timeout = 60; }
  Errors consume(const std::function<void(Session&, InStream&)>& work) {
    const auto errors = client::consume(world, GetParam(), work);
    is_over = true;
    EXPECT_EQ(text_of(world.join()), "");
    is_over = false;
    return errors;
  }
  std::atomic<bool> is_over = false;
  World world{8192, World::Way::local};
};
INSTANTIATE_TEST_SUITE_P(RestartTimeout, CallDuringAStep, testing::Values(0.0, 60.0));

/// The producer may put the awaited step at any time, so the ranks' waits form no circle.
TEST_P(CallDuringAStep, IsReportedIfItRedeclaresLayouts) {
  for (const Rank rank : core::all_ranks(2)) {
    produce(world, 1, is_over, nothing_more);
    const auto errors = consume([&](Session& s, InStream& in) {
      if (s.rank() == rank) return redeclare(in);
      in.begin(std::nullopt);
    });
    expect_mismatch(
        errors, {fmt::format("rank {} of group 'consumer' waits in an agreement of its group in "
                             "redeclare of stream 's', step 1",
                             rank.value),
                 fmt::format("rank {} of group 'consumer' waits in begin_step of stream 's', step "
                             "2",
                             1 - rank.value)});
  }
}

TEST_P(CallDuringAStep, MayBeMadeByARankThatIsAhead) {
  produce(world, 2, is_over, [](Session& s, const auto& put) {
    if (s.rank() == Rank{0}) std::this_thread::sleep_for(std::chrono::seconds(2));
    put();
  });
  expect_none(consume([](Session&, InStream& in) {
    take(in);
    redeclare(in);
  }));
}

TEST_P(CallDuringAStep, MayBeMadeLate) {
  produce(world, 1, is_over, [](Session&, const auto& put) {
    std::this_thread::sleep_for(std::chrono::seconds(2));
    put();
  });
  expect_none(consume([](Session& s, InStream& in) {
    if (s.rank() == Rank{1}) allgather_numbers(s);
    EXPECT_EQ(in.begin(std::nullopt), Begun::step);
    if (s.rank() == Rank{0}) allgather_numbers(s);
    end(in);
  }));
}

/// Each rank gives up waiting for the step at a different time.
TEST_P(CallDuringAStep, MayFollowAStepThatAllRanksGaveUp) {
  produce(world, 1, is_over, nothing_more);
  expect_none(consume([](Session& s, InStream& in) {
    const auto until = core::Deadline::after(s.rank() == Rank{0} ? 2.5 : 0.5);
    bool is_given_up = false;
    s.control().waits().ask_by(
        [&] { return until.expired() && !std::exchange(is_given_up, true); });
    EXPECT_EQ(error_of([&] { in.begin(std::nullopt); }).code(), Errc::interrupted);
    s.control().waits().ask_by({});
    redeclare(in);
  }));
}

/// With a restart_timeout, end_step waits for a message from every rank.
TEST(CallDuringTheEndOfAStep, IsReported) {
  const auto describe_stream = [](Session& s) { describe(s, "s", s.deadline()); };
  const std::vector<std::tuple<Rank, std::string, std::function<void(Session&)>>> calls{
      {Rank{0}, "session_allgather", allgather_numbers},
      {Rank{1}, "session_allgather", allgather_numbers},
      {Rank{1}, "describe", describe_stream}};  // here rank 0 waits for no other rank
  for (const auto& [rank, name, call] : calls) {
    World world(8192, World::Way::local);
    world.step_timeout = 60;
    std::atomic<bool> is_over = false;
    produce(world, 1, is_over, [](Session&, const auto& put) { put(); });
    const auto errors = consume(world, 60, [&, of = rank, make = call](Session& s, InStream& in) {
      if (s.rank() == of) return make(s);
      take(in);
    });
    is_over = true;
    EXPECT_EQ(text_of(world.join()), "");
    expect_mismatch(errors, {"in an agreement of its group in " + name,
                             "in end_step of stream 's', step 2, for rank"});
  }
}

}  // namespace
}  // namespace tremula::client
