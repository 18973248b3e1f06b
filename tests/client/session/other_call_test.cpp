// SPDX-License-Identifier: Apache-2.0
// Ranks of one group that make different calls are told which, and so is the other side.
#include "client/session/endpoint_group.hpp"
#include "tests/client/world.hpp"

namespace tremula::client {
namespace {

proto::Field field(Rank size) {
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

/// Two producers, one of which puts a step more than the other.
class OneStepMore : public testing::TestWithParam<Rank> {};

TEST_P(OneStepMore, IsToldToBothRanksAndToTheConsumer) {
  World world;
  world.step_timeout = 60;  // nobody waits so long
  const auto begun = core::Deadline::Clock::now();
  const Rank longer = GetParam();
  const std::string& told = longer == 1 ? one_begins : one_closes;
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
    EXPECT_HAS(error.what(), told);
  });
  world.start("consumer", 1, [&](Session& s) {
    InStream in(s, "s");
    in.declare(field(1));
    const auto error = error_of([&] {
      while (in.begin_step()) in.end_step();
    });
    EXPECT_EQ(error.code(), Errc::peer_lost);
    if (longer == 0) {
      EXPECT_HAS(error.what(), told);
    }
  });
  EXPECT_EQ(text_of(world.join()), "");
  EXPECT_LT(core::Deadline::Clock::now() - begun, std::chrono::seconds(45));
}
INSTANTIATE_TEST_SUITE_P(OfRank, OneStepMore, testing::Values(0, 1));

TEST(OtherCall, OfTwoStreamsIsTold) {
  World world;
  world.start("producer", 3, [](Session& s) {
    OutStream a(s, "a", {.wait_for_consumers = 0}), b(s, "b", {.wait_for_consumers = 0});
    a.declare(field(3));
    b.declare(field(3));
    OutStream& mine = s.rank() == 2 ? b : a;
    EXPECT_HAS(error_of([&] { mine.begin_step(); }).what(),
               "found rank 2 in begin_step of stream 'b', step 0, while rank 0 is in begin_step of "
               "stream 'a', step 0");
  });
  EXPECT_EQ(text_of(world.join()), "");
}

/// Over the channel of groups without MPI, where a broadcast and an allgather are other messages.
TEST(OtherCall, IsToldOverAnEndpointGroupWhicheverAgreementItMeets) {
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
        const CollectiveCall call{group.rank() == 0 ? "close" : "begin_step", "s", 7};
        const auto deadline = core::Deadline::after(30);
        Left left;
        const std::function<bool(const std::string&)> has_lost = [](const auto&) { return false; };
        const Circle circle{group, name, call, &left, &has_lost};
        if (gathers)
          allgather(circle, {}, deadline);
        else
          run_on_root(
              circle, [] { return core::Bytes(3); }, deadline);
      };
      const auto told = "rank 1 in begin_step of stream 's', step 7, while rank 0 is in close";
      std::thread thread([&, end = std::move(other)]() mutable {
        EndpointGroup group(std::move(end), 1, 2);
        EXPECT_HAS(error_of([&] { agree(group, other_gathers); }).what(), told);
      });
      EndpointGroup group(std::move(root), 0, 2);
      if (root_gathers) {
        EXPECT_HAS(error_of([&] { agree(group, true); }).what(), told);
      } else {
        agree(group, false);  // it waits for nobody
      }
      thread.join();
    }
}

}  // namespace
}  // namespace tremula::client
