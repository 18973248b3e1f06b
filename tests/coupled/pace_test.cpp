// SPDX-License-Identifier: Apache-2.0
// Jobs with steps of different lengths: a producer with steps of 20 minutes, and consumers with steps of 30
// and 7 minutes. coupled_pace checks every element; this test checks the steps that each rank began and
// passed.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "tests/coupled/jobs.hpp"

namespace tremula::coupled {

namespace {

constexpr long producer_dt = 20;

struct Taken {
  long steps = 0, passed = 0, last = 0;
  friend bool operator==(const Taken&, const Taken&) = default;
};
void PrintTo(const Taken& taken, std::ostream* out) {
  *out << taken.steps << " steps, " << taken.passed << " passed, last at " << taken.last;
}

std::vector<Taken> taken_by(const Job& job) {
  std::vector<Taken> all;
  std::istringstream lines(job.output());
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word;
    long rank = 0;
    Taken taken;
    if (words >> word && word == "rank" &&
        words >> rank >> word >> taken.steps >> word >> taken.passed >> word >> taken.last)
      all.push_back(taken);
  }
  return all;
}

/// Returns, by definition, how many of the producer's steps at 0, 20, ... a consumer needs at its times 0, dt,
/// ... until the stream ends, how many steps it passes, and the time of the last step.
Taken expected(long steps, long dt, bool is_around) {
  std::set<long> needed;
  const long last = producer_dt * (steps - 1);
  for (long t = 0; t < last + producer_dt + dt; t += dt) {
    needed.insert(std::min(last, t - t % producer_dt));
    if (is_around && t % producer_dt != 0 && t < last)
      needed.insert(t - t % producer_dt + producer_dt);
  }
  return {static_cast<long>(needed.size()), steps - static_cast<long>(needed.size()), last};
}

class CoupledPace : public testing::TestWithParam<std::string> {
protected:
  CoupledPace() {
    stage.start_server();
    if (GetParam() == "mpi") stage.start_ompi_server();
  }
  Job& start(const Role& role, const std::string& part, long dt, Arguments more) {
    Arguments command{PROGRAMS "/coupled_pace", "--group",     role.name, "--role", part, "--dt",
                      std::to_string(dt),       "--transport", GetParam()};
    command.insert(command.end(), more.begin(), more.end());
    return stage.start(role, GetParam() == "mpi" ? Launcher::mpirun : Launcher::plain, command,
                       {{"TREMULA_OFI_PROVIDER", "tcp;ofi_rxm"}});
  }
  Stage stage;
};

TEST_P(CoupledPace, EachConsumerGetsTheStepsThatItsTimesNeed) {
  constexpr long steps = 101;
  Job& producer = start({"producer", 2}, "producer", producer_dt,
                        {"--steps", std::to_string(steps), "--options", "{wait_for_consumers: 3}"});
  struct Consumer {
    Job& job;
    int ranks;
    Taken taken;
  };
  const std::vector<Consumer> consumers{
      {start({"longer", 3}, "at", 30, {}), 3, expected(steps, 30, false)},
      {start({"shorter", 1}, "at", 7, {}), 1, expected(steps, 7, false)},
      {start({"between", 2}, "around", 30, {}), 2, expected(steps, 30, true)}};
  const auto deadline = core::Deadline::after(300);
  ASSERT_EQ(producer.wait(deadline), 0) << stage.report();
  for (const Consumer& consumer : consumers) {
    ASSERT_EQ(consumer.job.wait(deadline), 0) << consumer.job.name() << stage.report();
    EXPECT_EQ(taken_by(consumer.job),
              std::vector<Taken>(static_cast<std::size_t>(consumer.ranks), consumer.taken))
        << consumer.job.name();
  }
}

TEST_P(CoupledPace, RestartedConsumerContinuesWithTheNextStep) {
  constexpr long steps = 600;
  const auto back = (stage.directory() / "back").string();
  Job& producer = start({"producer", 2}, "producer", producer_dt,
                        {"--steps", std::to_string(steps), "--pause-ms", "100", "--pause-until",
                         back + ".0", "--options", "{wait_for_consumers: 0}"});
  const auto deadline = core::Deadline::after(300);
  Job& once = start({"viewer", 2}, "around", 30, {"--late", "1", "--leave-after", "3"});
  ASSERT_EQ(once.wait(deadline), 0) << stage.report();
  Job& again = start({"viewer", 2}, "around", 30, {"--late", "1", "--first-file", back});
  ASSERT_EQ(again.wait(deadline), 0) << stage.report();
  ASSERT_EQ(producer.wait(deadline), 0) << stage.report();
  const auto first = taken_by(once), second = taken_by(again);
  ASSERT_EQ(first.size(), 2u);
  ASSERT_EQ(second.size(), 2u);
  EXPECT_EQ(first[0], first[1]);
  EXPECT_EQ(second[0], second[1]);
  EXPECT_EQ(second[0].last, producer_dt * (steps - 1));
}

// Ranks leave a collective call because the producer is dead, and one rank makes that call late or never:
// all ranks still continue together with the other stream of the session.
TEST_P(CoupledPace, DeadProducerAffectsNoOtherStream) {
  constexpr long steps = 51;
  constexpr int ranks = 3;
  const auto deadline = core::Deadline::after(300);
  for (const auto& [late, comes] : {std::pair{0, 1}, std::pair{0, 0}, std::pair{1, 1}}) {
    SCOPED_TRACE("rank " + std::to_string(late) + (comes ? " comes late" : " does not come"));
    const auto name = std::to_string(late) + std::to_string(comes);
    const auto files = (stage.directory() / ("files" + name)).string();
    start({"mortal" + name, 2}, "producer", producer_dt,
          {"--steps", "2", "--dies", files + ".die"});
    Job& steady = start({"steady" + name, 1}, "producer", producer_dt,
                        {"--steps", std::to_string(steps), "--stream", "t"});
    Job& both = start(
        {"both" + name, ranks}, "both", 30,
        {"--files", files, "--waits", std::to_string(late), "--comes", std::to_string(comes)});
    for (int rank = 0; rank < ranks; ++rank)
      while (rank != late && !std::filesystem::exists(files + ".asks." + std::to_string(rank))) {
        ASSERT_FALSE(deadline.expired()) << stage.report();
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    std::ofstream(files + ".die") << std::endl;
    ASSERT_EQ(both.wait(deadline), 0) << stage.report();
    ASSERT_EQ(steady.wait(deadline), 0) << stage.report();
    EXPECT_EQ(taken_by(both), std::vector<Taken>(ranks, expected(steps, 30, false)));
  }
}

INSTANTIATE_TEST_SUITE_P(Jobs, CoupledPace, testing::Values("local", "ofi", "mpi"),
                         [](const auto& test) { return test.param; });

}  // namespace

}  // namespace tremula::coupled
