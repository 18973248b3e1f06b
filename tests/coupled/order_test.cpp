// SPDX-License-Identifier: Apache-2.0
// Groups start and leave in every allowed order.
#include <signal.h>

#include "tests/coupled/actors.hpp"

namespace tremula::coupled {

namespace {

class CoupledOrder : public CoupledActors, public testing::WithParamInterface<std::string> {
protected:
  void SetUp() override {
    stage.start_server();
    if (GetParam().ends_with("mpi")) stage.start_ompi_server();
  }
  Actors act(const Role& role, const std::string& side, const Arguments& more = {}) {
    const std::string layout = "shape=1000x10 grid=1x" + std::to_string(role.ranks);
    return play(role, Launcher::mpirun,
                join({"--side", side, "--layout", layout},
                     session(GetParam().substr(GetParam().find('_') + 1), 20, 20), more));
  }
  void expect_no_error(const Actors& actors) {
    for (int r = 0; r < actors.role.ranks; ++r)
      EXPECT_EQ(actors.error_of(r).status, 0)
          << actors.role.name << " " << testing::PrintToString(actors.error_of(r));
  }
  const Role producer{"producer", 2}, consumer{"consumer", 2};
};

TEST_P(CoupledOrder, StreamEndsAfterTheLastStep) {
  const Actors in = act(consumer, "in");  // a consumer may start first
  const Actors out = act(producer, "out", {"--steps", "6"});
  for (const Actors& actors : {in, out}) {
    expect_end(actors);
    expect_no_error(actors);
  }
  for (int r = 0; r < consumer.ranks; ++r) EXPECT_EQ(in.event_of(r, "end_of_stream").step, 5);
}

TEST_P(CoupledOrder, EarlyLeaverDoesNotStopTheProducer) {
  const Actors out = act(producer, "out", {"--steps", "60", "--pause", "0.01"});
  const Actors in = act(consumer, "in", {"--leave-after", "5"});
  for (const Actors& actors : {in, out}) {
    expect_end(actors);
    expect_no_error(actors);
  }
  EXPECT_EQ(in.event_of(0, "closed").step, 4);
  EXPECT_EQ(out.event_of(0, "closed").step, 60);
}

TEST_P(CoupledOrder, LateConsumerJoinsAtALaterStep) {
  const auto begun = (stage.directory() / "begun").string(),
             come = (stage.directory() / "come").string();
  const Actors out = act(producer, "out",
                         {"--steps", "200", "--pause", "0.1", "--pause-until", come + ".0",
                          "--stream-options", "{wait_for_consumers: 0}", "--step-file", begun});
  const Actors in =
      act({"late", 3}, "in",
          {"--wait-file", begun, "--first-file", come, "--layout", "shape=1000x10 grid=3x1"});
  for (const Actors& actors : {in, out}) {
    expect_end(actors);
    expect_no_error(actors);
  }
  for (int r = 0; r < 3; ++r) {
    EXPECT_GT(in.event_of(r, "first_step").step, 0);
    EXPECT_EQ(in.event_of(r, "first_step").step, in.event_of(0, "first_step").step);
    EXPECT_EQ(in.event_of(r, "end_of_stream").step, 199);
  }
}

TEST_P(CoupledOrder, ConsumerReturnsUnderItsName) {
  const auto back = (stage.directory() / "back").string();
  const Actors out = act(producer, "out",
                         {"--steps", "300", "--pause", "0.1", "--pause-until", back + ".0",
                          "--stream-options", "{wait_for_consumers: 0}"});
  const Actors once = act(consumer, "in", {"--leave-after", "2"});
  expect_end(once);
  const Actors again = act(consumer, "in", {"--leave-after", "2", "--first-file", back});
  expect_end(again);
  expect_no_error(once);
  expect_no_error(again);
  EXPECT_GT(again.event_of(0, "first_step").step, once.event_of(0, "closed").step);
  expect_end(out);
  expect_no_error(out);
}

TEST_P(CoupledOrder, GivenUpStreamIsAnErrorForItsConsumer) {
  const Actors out = act(producer, "out", {"--steps", "9", "--abandon-after", "4"});
  const Actors in = act(consumer, "in");
  expect_end(in);
  expect_error(in, TREMULA_PEER_LOST, {"producer"});
  expect_end(out);
}

TEST_P(CoupledOrder, MistakeOfOneRankFailsOnAllRanks) {
  const Arguments mistake{"--buffer", "8", "--buffer-rank", "1"};
  const auto expect = [&](const Actors& mistaken, const Actors& others) {
    expect_end(mistaken);
    expect_end(others);
    const Event error = mistaken.error_of(1);
    EXPECT_EQ(error.status, TREMULA_INVALID_ARGUMENT) << testing::PrintToString(error);
    for (const char* part : {"'f'", "rank 1", "40000", "40008"})
      EXPECT_NE(error.text.find(part), std::string::npos) << part << " in " << error.text;
    EXPECT_EQ(mistaken.error_of(0).status, TREMULA_PEER_LOST)
        << testing::PrintToString(mistaken.error_of(0));
    expect_error(others, TREMULA_PEER_LOST, {mistaken.role.name});
  };
  // Each rank exchanges elements only with the rank that has the same number.
  {
    const Actors in = act(consumer, "in");
    expect(act(producer, "out", join(mistake, Arguments{"--steps", "9"})), in);
  }
  {
    const Actors out = act({"sound", 2}, "out", {"--steps", "100000"});
    expect(act({"mistaken", 2}, "in", mistake), out);
  }
}

TEST_P(CoupledOrder, RankThatGivesUpLateDelaysNoOther) {
  // Rank 0 of the producer has seen the consumer leave in order, and it decides for all ranks.
  const Actors out = act(producer, "out", {"--steps", "200", "--pause", "0.01"});
  const Actors in =
      act(consumer, "in", {"--leave-after", "2", "--abandon-after", "20", "--abandon-rank", "1"});
  expect_end(in);
  expect_no_error(in);
  expect_end(out);
  expect_no_error(out);
  for (int r = 0; r < producer.ranks; ++r) EXPECT_EQ(out.event_of(r, "closed").step, 200);
}

// This holds by default on every transport, since `progress` is `auto`.
TEST_P(CoupledOrder, StepMovesWhileTheProducerComputes) {
  const Arguments large{"--layout",
                        "shape=4000000 grid=2"};  // 16 MB per rank: more than fits into a queue
  const auto taken = (stage.directory() / "taken").string();
  const Actors out =
      act(producer, "out", join(large, Arguments{"--steps", "2", "--rest-file", taken}));
  const Actors in = act(consumer, "in", join(large, Arguments{"--first-file", taken}));
  for (const Actors& actors : {in, out}) {
    expect_end(actors);
    expect_no_error(actors);
  }
  for (int r = 0; r < producer.ranks; ++r)
    EXPECT_EQ(out.event_of(r, "rested").rank, r) << "the step must move before the next call";
}

TEST_P(CoupledOrder, StreamContinuesWithoutTheServer) {
  const auto begun = (stage.directory() / "begun").string();
  const Actors out =
      act(producer, "out", {"--steps", "50", "--pause", "0.02", "--step-file", begun});
  const Actors in = act(consumer, "in");
  const auto deadline = Deadline::after(patience_seconds);
  while (!std::filesystem::exists(begun) && !deadline.expired())
    in.job->wait(Deadline::after(0.01));
  stage.stop_server(SIGKILL);
  expect_end(in);
  for (int r = 0; r < consumer.ranks; ++r) EXPECT_EQ(in.event_of(r, "end_of_stream").step, 49);
}

INSTANTIATE_TEST_SUITE_P(Jobs, CoupledOrder, testing::Values("2x2_local", "2x2_ofi", "2x2_mpi"),
                         [](const auto& test) { return test.param; });

}  // namespace

}  // namespace tremula::coupled
