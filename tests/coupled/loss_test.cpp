// SPDX-License-Identifier: Apache-2.0
// A rank is killed in the middle of a step: every rank that depends on it gets an error before its own
// deadline, and none hangs.
#include <signal.h>

#include <fstream>
#include <iostream>
#include <tuple>

#include "tests/coupled/actors.hpp"

namespace tremula::coupled {

namespace {

constexpr int fatal_step = 3;
/// How many steps a rank that needs nothing from the lost rank may be ahead: the default queue depth.
constexpr int queue_depth = 2;

struct Loss {
  Roles roles;  ///< of the producer and of the consumer
  std::string transport;
  Launcher launcher;

  std::string name() const {
    return std::to_string(roles[0].ranks) + "x" + std::to_string(roles[1].ranks) + "_" + transport +
           (launcher == Launcher::plain ? "_plain" : "");
  }
};
void PrintTo(const Loss& loss, std::ostream* out) { *out << loss.name(); }

class CoupledLoss : public CoupledActors, public testing::WithParamInterface<Loss> {
protected:
  void SetUp() override {
    stage.start_server();
    if (GetParam().transport == "mpi") stage.start_ompi_server();
  }
  /// Starts a job whose packages are several hundred kibibytes long, so that a rank can be lost in the middle of
  /// a step.
  Actors act(const Role& role, const std::string& side, const Arguments& more = {}) {
    const std::string layout = "shape=300000 grid=" + std::to_string(role.ranks);
    return play(role, GetParam().launcher,
                join({"--side", side, "--layout", layout, "--steps", "100000"},
                     session(GetParam().transport), more),
                {{"TREMULA_SILENCE", silence_}});
  }
  std::string silence_ = "3";
  bool has_child_ = false;  // whether the lost rank has forked a child that survives it
  /// Makes `rank` of one side raise `signal`, and checks that every rank on the other side gets an error.
  void lose(const std::string& lost_side, int rank, int signal = SIGKILL) {
    for (int stopped_by_mpi = 0; !is_lost_and_judged(lost_side, rank, signal); ++stopped_by_mpi) {
      std::cout << "[     NOTE ] Open MPI stopped the survivor; trying again\n";
      ASSERT_LT(stopped_by_mpi, 5) << "Open MPI stops every survivor";
    }
  }
  /// @return false if Open MPI stopped the other side, which proves nothing
  bool is_lost_and_judged(const std::string& lost_side, int rank, int signal) {
    bool is_judged = true;
    judge_loss(lost_side, rank, signal, is_judged);
    return is_judged;
  }
  void judge_loss(const std::string& lost_side, int rank, int signal, bool& is_judged) {
    const Role& producer = GetParam().roles[0];
    const Role& consumer = GetParam().roles[1];
    const Arguments death{
        "--die-rank",   std::to_string(rank),   "--die-step",       std::to_string(fatal_step),
        "--die-signal", std::to_string(signal), "--die-after-fork", has_child_ ? "1" : "0"};
    const bool loses_producer = lost_side == "out";
    const Actors out = act(producer, "out", loses_producer ? death : Arguments{});
    const Actors in = act(consumer, "in", loses_producer ? Arguments{} : death);
    const Actors& lost = loses_producer ? out : in;
    const Actors& others = loses_producer ? in : out;

    others.job->wait(Deadline::after(patience_seconds));
    if (GetParam().transport == "mpi" && others.job->was_stopped_by_mpi()) {
      is_judged = false;
      // A rank that hangs in Open MPI still sends signs of life to the server.
      for (const Actors* actors : {&out, &in}) actors->job->process(0).signal(SIGKILL);
      for (const Actors* actors : {&out, &in}) actors->job->wait(Deadline::after(10));
      stage.stop_server(SIGKILL);
      stage.start_server();
      return;
    }
    expect_end(others);
    ASSERT_EQ(lost.event_of(rank, "die").rank, rank) << "no rank died";
    expect_error(others, TREMULA_PEER_LOST, {lost.role.name});
    for (int r = 0; r < others.role.ranks; ++r) {
      EXPECT_EQ(others.event_of(r, "closed").rank, -1);
      if (loses_producer) {  // the lost rank began the fatal step, and so knew which steps were taken
        EXPECT_GE(others.error_of(r).step, fatal_step - queue_depth) << "rank " << r;
        EXPECT_LE(others.error_of(r).step, fatal_step + queue_depth) << "rank " << r;
      }
    }
    if (GetParam().launcher == Launcher::mpirun || signal != SIGKILL)
      return;  // mpirun ends the rest of the job
    for (int r = 0; r < lost.role.ranks; ++r) {
      if (r == rank) continue;
      ASSERT_TRUE(
          lost.job->process(static_cast<std::size_t>(r)).wait(Deadline::after(patience_seconds)));
      EXPECT_EQ(lost.error_of(r).status, TREMULA_PEER_LOST) << lost.role.name << " rank " << r;
    }
  }
};

TEST_P(CoupledLoss, IsReportedForProducerRankZero) { lose("out", 0); }

TEST_P(CoupledLoss, IsReportedForTheLastProducerRank) {
  lose("out", GetParam().roles[0].ranks - 1);
}

TEST_P(CoupledLoss, IsReportedForConsumerRankZero) { lose("in", 0); }

TEST_P(CoupledLoss, IsReportedForTheLastConsumerRank) { lose("in", GetParam().roles[1].ranks - 1); }

// The silence limit exceeds the test's patience, so silence cannot reveal the loss.
TEST_P(CoupledLoss, IsReportedAtOnceIfTheRankHasForked) {
  if (GetParam().launcher == Launcher::mpirun) GTEST_SKIP() << "mpirun ends the rest of the job";
  silence_ = "600";
  has_child_ = true;
  lose("out", 1);
  lose("in", 1);
}

TEST_P(CoupledLoss, IsReportedForASilentProducerRank) { lose("out", 1, SIGSTOP); }

TEST_P(CoupledLoss, IsReportedForASilentConsumerRank) { lose("in", 1, SIGSTOP); }

TEST_P(CoupledLoss, OfOneConsumerAffectsNoOther) {
  const auto& [producer, consumer] = std::tie(GetParam().roles[0], GetParam().roles[1]);
  const auto one_has_come = (stage.directory() / "one-has-come").string(),
             both_have_come = (stage.directory() / "both-have-come").string();
  const Actors out =
      act(producer, "out",
          {"--steps", "400", "--pause", "0.1", "--pause-until", both_have_come + ".0"});
  const Actors steady = act({"steady", consumer.ranks}, "in", {"--step-file", one_has_come});
  const Actors mortal = act({"mortal", consumer.ranks}, "in",
                            {"--wait-file", one_has_come, "--first-file", both_have_come,
                             "--die-rank", "0", "--die-step", "320"});
  expect_end(steady);
  expect_end(out);
  EXPECT_GT(mortal.event_of(0, "first_step").step, 0) << "mortal must join later";
  EXPECT_EQ(mortal.event_of(0, "die").step, 320);
  for (int r = 0; r < consumer.ranks; ++r) {
    EXPECT_EQ(steady.error_of(r).status, 0) << testing::PrintToString(steady.error_of(r));
    EXPECT_EQ(steady.event_of(r, "end_of_stream").step, 399);
  }
}

/// Tests of a consumer that is in its first step when the producer is killed in the fatal step.
class CoupledLag : public CoupledLoss {};

TEST_P(CoupledLag, KeepsAllStepsThatArrivedWhole) {
  const auto& [producer, consumer] = std::tie(GetParam().roles[0], GetParam().roles[1]);
  // Each rank needs elements of all producer ranks, in messages so short that they arrive by the end of end_step.
  const auto small = [](const Role& role) {
    return Arguments{"--layout", "shape=6000 block=7 grid=" + std::to_string(role.ranks)};
  };
  const auto is_over = (stage.directory() / "is-over").string();
  const Actors in = act(consumer, "in", join(small(consumer), Arguments{"--hold-file", is_over}));
  const Actors out =
      act(producer, "out",
          join(small(producer),
               Arguments{"--stream-options", "{queue_depth: 5}", "--die-rank", "0", "--die-step",
                         std::to_string(fatal_step), "--rest-step", std::to_string(fatal_step - 1),
                         "--rest-file", (stage.directory() / "all-are-in").string()}));
  ASSERT_TRUE(in.have_all("first_step"));
  ASSERT_TRUE(out.have_all("rests"))
      << "a rank of the producer did not rest after step " << fatal_step - 1;
  for (int r = 0; r < producer.ranks; ++r)
    std::ofstream(stage.directory() / ("all-are-in." + std::to_string(r))) << "\n";
  out.job->wait(Deadline::after(patience_seconds));
  std::ofstream(is_over) << "\n";
  expect_end(in);
  ASSERT_EQ(out.event_of(0, "die").rank, 0) << "no rank died";
  expect_error(in, TREMULA_PEER_LOST, {producer.name});
  for (int r = 0; r < consumer.ranks; ++r)
    EXPECT_EQ(in.error_of(r).step, fatal_step - 1) << "rank " << r;
}

INSTANTIATE_TEST_SUITE_P(
    Jobs, CoupledLag,
    testing::Values(Loss{Roles{{"producer", 2}, {"consumer", 3}}, "local", Launcher::mpirun},
                    Loss{Roles{{"producer", 2}, {"consumer", 3}}, "tcp", Launcher::plain}),
    [](const auto& test) { return test.param.name(); });

INSTANTIATE_TEST_SUITE_P(
    Jobs, CoupledLoss,
    testing::Values(Loss{Roles{{"producer", 2}, {"consumer", 3}}, "local", Launcher::mpirun},
                    Loss{Roles{{"producer", 2}, {"consumer", 3}}, "tcp", Launcher::plain},
                    Loss{Roles{{"producer", 2}, {"consumer", 3}}, "ofi", Launcher::mpirun},
                    Loss{Roles{{"producer", 2}, {"consumer", 3}}, "ofi", Launcher::plain},
                    Loss{Roles{{"producer", 2}, {"consumer", 3}}, "mpi", Launcher::mpirun}),
    [](const auto& test) { return test.param.name(); });

}  // namespace

}  // namespace tremula::coupled
