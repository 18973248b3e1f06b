// SPDX-License-Identifier: Apache-2.0
// Jobs that are killed in the middle of a step and started again: a producer, whose consumer continues
// with a new epoch, and a consumer, whose producer never stops (coupled_epoch checks every element).
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <sstream>

#include "tests/coupled/jobs.hpp"

namespace tremula::coupled {

namespace {

/// First step and number of steps of each epoch.
using Taken = std::vector<std::uint64_t>;

/// Returns the epochs that each rank of `job` has printed.
std::vector<Taken> taken_by(const Job& job) {
  std::vector<Taken> all;
  std::istringstream lines(job.output());
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word;
    if (!(words >> word) || word != "took") continue;
    Taken& taken = all.emplace_back();
    for (std::uint64_t number; words >> word;)
      if (std::istringstream(word) >> number) taken.push_back(number);
  }
  return all;
}

/// Returns how many steps a producer with --until has put; 0 if it has not printed that yet.
std::uint64_t put_by(const Job& producer) {
  const std::string said = producer.output(), put = "put ";
  const auto at = said.find(put);
  return at == said.npos ? 0 : std::stoull(said.substr(at + put.size()));
}

class CoupledEpoch : public testing::TestWithParam<std::string> {
protected:
  void TearDown() override {
    if (HasFailure()) ADD_FAILURE() << stage.report();
  }
  Job& start(const Role& role, const std::string& side, const std::string& layout,
             const Arguments& more) {
    Arguments command{std::string(PROGRAMS) + "/coupled_epoch",
                      "--group",
                      role.name,
                      "--role",
                      side,
                      "--layout",
                      layout,
                      "--transport",
                      GetParam()};
    command.insert(command.end(), more.begin(), more.end());
    return stage.start(
        role, Launcher::mpirun, command,
        {{"TREMULA_OFI_PROVIDER", "tcp;ofi_rxm"},
         {"TREMULA_SERVER", "file:" + (stage.directory() / "server.port").string()}});
  }
  /// Waits until the job ends because a rank has died.
  /// @param step  receives the step in which the rank died; may be null
  static void expect_death(Job& job, Deadline deadline, std::uint64_t* step = nullptr) {
    const auto status = job.wait(deadline);
    ASSERT_TRUE(status.has_value()) << job.name() << " does not end";
    EXPECT_NE(*status, 0);
    const std::string said = job.output(), dies = "dies in step ";
    const auto at = said.find(dies);
    ASSERT_NE(at, std::string::npos) << said;
    if (step != nullptr) *step = std::stoull(said.substr(at + dies.size()));
  }
  /// Returns the output of `tremula status`.
  std::string status() {
    Process process(
        Arguments{std::string(PROGRAMS) + "/tremula", "status", "--server", stage.server()}, {},
        stage.directory() / ("status" + std::to_string(++asked_)));
    process.wait(Deadline::after(60));
    return process.output();
  }
  static std::string path(const Stage& stage, const std::string& name) {
    return (stage.directory() / name).string();
  }
  Stage stage;

private:
  int asked_ = 0;
};

TEST_P(CoupledEpoch, RestartedProducerContinuesTheStream) {
  constexpr std::uint64_t dies_in = 9;
  stage.start_server();
  const auto deadline = Deadline::after(300);
  Job& consumer = start({"consumer", 3}, "consumer", "shape=60x84 grid=1x3 block=60x4",
                        {"--options", "{restart_timeout: 200}"});
  Job& other = start({"other", 2}, "consumer", "shape=60x84 grid=1x2 store=column",
                     {"--options", "{restart_timeout: 200}"});
  const auto die = [&](const std::string& rank, const std::string& step) {
    return Arguments{"--steps", "1000", "--die-rank", rank, "--die-step", step};
  };
  const auto produce = [&](const Role& role, const std::string& layout, Arguments arguments,
                           const std::string& first) -> Job& {
    arguments.insert(arguments.end(), {"--first", first, "--options",
                                       "{wait_for_consumers: 2, first_step: " + first + "}"});
    return start(role, "producer", layout, arguments);
  };
  // The ranks that survive may have sent their parts of the step.
  Job& first = produce({"ocean", 4}, "shape=60x84 grid=2x2 block=7x9",
                       die("1", std::to_string(dies_in)), "0");
  ASSERT_NO_FATAL_FAILURE(expect_death(first, deadline));
  // The second job starts from a checkpoint, with a different number of ranks and a different layout.
  // Rank 1 of `other` needs nothing from the rank that dies, so it gets the step.
  Job& second = produce({"ocean", 2}, "shape=60x84 grid=1x2 store=column", die("0", "12"), "5");
  ASSERT_NO_FATAL_FAILURE(expect_death(second, deadline));
  stage.stop_server(SIGKILL);
  stage.start_server();
  Job& third = produce({"ocean", 3}, "shape=60x84 grid=3x1", {"--steps", "40"}, "10");
  for (Job* job : {&third, &consumer, &other}) ASSERT_EQ(job->wait(deadline), 0) << job->name();
  for (Job* job : {&consumer, &other}) {
    const auto taken = taken_by(*job);
    ASSERT_EQ(taken.size(), job == &consumer ? 3u : 2u) << job->output();
    for (const Taken& of_rank : taken) {
      EXPECT_EQ(of_rank, taken[0]) << "a step must count on all ranks or on none";
      ASSERT_EQ(of_rank.size(), 6u) << job->output();
      EXPECT_EQ(of_rank[0], 0u);
      // Producer ranks may be at different steps; the step in which a rank died does not count.
      EXPECT_GE(of_rank[1], 1u);
      EXPECT_LE(of_rank[1], dies_in);
      EXPECT_EQ(of_rank[2], 5u);
      EXPECT_GE(of_rank[3], 1u);
      EXPECT_LE(of_rank[3], 12 - 5u);
      EXPECT_EQ(of_rank[4], 10u);
      EXPECT_EQ(of_rank[5], 30u);
    }
  }
}

TEST_P(CoupledEpoch, RestartedConsumerRejoinsTheProducer) {
  constexpr std::uint64_t kept = 6;
  for (const std::string begins : {"next", "oldest"}) {
    SCOPED_TRACE(begins);
    stage.start_server();
    const auto deadline = Deadline::after(300);
    const std::string again_is_there = path(stage, "again-" + begins),
                      steady_is_there = path(stage, "steady-" + begins);
    Job& producer = start({"ocean", 2}, "producer", "shape=60x84 grid=2x1",
                          {"--steps", "200", "--until", again_is_there, "--options",
                           "{keep_steps: " + std::to_string(kept) + "}"});
    Job& steady =
        start({"steady", 3}, "consumer", "shape=60x84 grid=1x3", {"--touch", steady_is_there});
    const std::string layout = "shape=60x84 grid=2x1 block=3x84",
                      options = "{start: " + begins + "}";
    Job& mortal = start(
        {"mortal", 2}, "consumer", layout,
        {"--die-rank", "1", "--die-step", "20", "--await", steady_is_there, "--options", options});
    std::uint64_t died_in = 0;
    ASSERT_NO_FATAL_FAILURE(expect_death(mortal, deadline, &died_in));
    Job& again =
        start({"mortal", 2}, "consumer", layout, {"--touch", again_is_there, "--options", options});
    for (Job* job : {&producer, &steady, &again}) ASSERT_EQ(job->wait(deadline), 0) << job->name();
    const std::uint64_t steps = put_by(producer);
    EXPECT_GT(steps, died_in + 200) << producer.output();
    EXPECT_EQ(taken_by(steady), std::vector<Taken>(3, Taken{0, steps})) << steady.output();
    const auto taken = taken_by(again);
    ASSERT_EQ(taken.size(), 2u) << again.output();
    EXPECT_EQ(taken[0], taken[1]);
    ASSERT_EQ(taken[0].size(), 2u);
    EXPECT_GT(taken[0][0] + (begins == "oldest" ? kept : 0), died_in);
    EXPECT_EQ(taken[0][0] + taken[0][1], steps) << "all later steps must arrive";
    stage.stop_server(SIGTERM);
  }
}

// A trainer, a job that reads its weights and serves them, and a job that reads them from the serving
// job. The server is restarted before the serving job is killed.
TEST_P(CoupledEpoch, ReaderSurvivesTheDeathOfItsServingReader) {
  stage.start_server();
  const auto deadline = Deadline::after(300);
  const std::string first_is_there = path(stage, "first"), second_is_there = path(stage, "second"),
                    may_die = path(stage, "die"), may_end = path(stage, "end");
  Job& trainer = start({"trainer", 2}, "producer", "shape=60x84 grid=2x1",
                       {"--steps", "200", "--until", may_end, "--options",
                        "{kind: state, wait_for_consumers: 0, readers_serve: true}"});
  Job& first = start({"first", 2}, "consumer", "shape=60x84 grid=1x2 block=60x4",
                     {"--skips", "1", "--touch", first_is_there, "--die-rank", "1", "--die-when",
                      may_die, "--options", "{restart_timeout: 200, serve: true}"});
  Job& second = start({"second", 3}, "consumer", "shape=60x84 grid=3x1",
                      {"--skips", "1", "--await", first_is_there, "--touch", second_is_there,
                       "--options", "{restart_timeout: 200}"});
  const auto served = [&] {  // whether the server reports that `first` serves `second`
    const std::string said = status(), row = "stream s, as first serves it";
    const auto at = said.find(row);
    return at != said.npos && said.find("second ", at) != said.npos;
  };
  const auto wait_until = [&](const auto& is_so) {
    while (!is_so() && !deadline.expired() && !second.wait(Deadline::after(0.05))) {
    }
    EXPECT_TRUE(is_so());
  };
  wait_until([&] { return std::filesystem::exists(second_is_there); });
  wait_until(served);
  stage.stop_server(SIGKILL);
  stage.start_server();
  wait_until(served);
  std::ofstream(may_die) << "now";
  ASSERT_NO_FATAL_FAILURE(expect_death(first, deadline));
  wait_until([&] { return second.output().find("from trainer") != std::string::npos; });
  std::ofstream(may_end) << "now";
  for (Job* job : {&trainer, &second}) ASSERT_EQ(job->wait(deadline), 0) << job->name();
  const std::string said = second.output();
  EXPECT_NE(said.find("from first"), std::string::npos) << said;
  EXPECT_LT(said.find("from first"), said.find("from trainer")) << said;
  const auto taken = taken_by(second);
  ASSERT_EQ(taken.size(), 3u) << said;
  for (const Taken& of_rank : taken) {
    EXPECT_EQ(of_rank, taken[0]);
    ASSERT_EQ(of_rank.size(), 2u) << said;  // one epoch
    EXPECT_EQ(of_rank[1], put_by(trainer) - 1) << trainer.output();
  }
}

INSTANTIATE_TEST_SUITE_P(Jobs, CoupledEpoch, testing::Values("local", "tcp", "ofi"),
                         [](const auto& test) { return test.param; });

}  // namespace

}  // namespace tremula::coupled
