// SPDX-License-Identifier: Apache-2.0
// Three producer jobs own boxes of one array, and three consumer jobs take the whole array: one leaves
// early, one is killed, one starts late. Each consumer gets successive whole steps while it stays, and
// the producers continue to the end (coupled_many checks every element).
#include <gtest/gtest.h>

#include <sstream>

#include "tests/coupled/jobs.hpp"

namespace tremula::coupled {

namespace {

constexpr std::uint64_t steps = 600, leaves_after = 30, dies_in = 45;

struct Taken {
  std::uint64_t first = 0, count = 0;
  friend bool operator==(const Taken&, const Taken&) = default;
};
void PrintTo(const Taken& taken, std::ostream* out) {
  *out << taken.count << " steps, beginning with step " << taken.first;
}

/// Returns the first step and the number of steps that each rank of `job` has printed.
std::vector<Taken> taken_by(const Job& job) {
  std::vector<Taken> all;
  std::istringstream lines(job.output());
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word;
    Taken taken;
    if (words >> word >> taken.first >> taken.count && word == "took") all.push_back(taken);
  }
  return all;
}

class CoupledMany : public testing::TestWithParam<std::string> {};

TEST_P(CoupledMany, ProducersAndConsumersShareOneArray) {
  Stage stage;
  stage.start_server();
  const std::string late_is_there = (stage.directory() / "late").string(),
                    one_is_there = (stage.directory() / "one").string();
  const auto start = [&](const Role& role, const Arguments& more) -> Job& {
    Arguments command{std::string(PROGRAMS) + "/coupled_many", "--group", role.name, "--transport",
                      GetParam()};
    command.insert(command.end(), more.begin(), more.end());
    return stage.start(role, Launcher::mpirun, command, {{"TREMULA_OFI_PROVIDER", "tcp;ofi_rxm"}});
  };
  const auto produce = [&](const Role& role, const std::string& layout, int row,
                           int column) -> Job& {
    return start(role, {"--role", "producer", "--layout", layout, "--row", std::to_string(row),
                        "--column", std::to_string(column), "--steps", std::to_string(steps),
                        "--slow-until", late_is_there});
  };
  const auto consume = [&](const Role& role, const std::string& layout,
                           const Arguments& more) -> Job& {
    Arguments all{"--role", "consumer", "--layout", layout};
    all.insert(all.end(), more.begin(), more.end());
    return start(role, all);
  };
  Job& west = produce({"west", 2}, "shape=60x30 grid=2x1 block=7x30 store=column", 0, 0);
  Job& north = produce({"north", 3}, "shape=20x54 grid=1x3 block=20x5", 0, 30);
  Job& south = produce({"south", 1}, "shape=40x54 grid=1x1 ghost=2x2", 20, 30);
  Job& leaving = consume({"leaving", 3}, "shape=60x84 grid=1x3 block=60x4",
                         {"--steps", std::to_string(leaves_after), "--touch", one_is_there});
  Job& mortal = consume({"mortal", 2}, "shape=60x84 grid=2x1 store=column",
                        {"--steps", "100000", "--die-step", std::to_string(dies_in)});
  Job& late = consume({"late", 4}, "shape=60x84 grid=2x2 block=8x9",
                      {"--steps", "100000", "--await", one_is_there, "--touch", late_is_there});
  const auto deadline = core::Deadline::after(300);
  for (Job* job : {&west, &north, &south, &leaving, &late})
    ASSERT_EQ(job->wait(deadline), 0) << job->name() << stage.report();
  EXPECT_NE(mortal.wait(deadline), 0);
  EXPECT_NE(mortal.output().find("dies in step " + std::to_string(dies_in)), std::string::npos)
      << mortal.output();
  EXPECT_EQ(taken_by(leaving), std::vector<Taken>(3, {0, leaves_after})) << leaving.output();
  const auto taken = taken_by(late);
  ASSERT_EQ(taken.size(), 4u) << late.output();
  EXPECT_GT(taken[0].first, 0u) << "the late job must join later";
  EXPECT_EQ(taken, std::vector<Taken>(4, {taken[0].first, steps - taken[0].first}));
}

INSTANTIATE_TEST_SUITE_P(Jobs, CoupledMany, testing::Values("local", "tcp", "ofi"),
                         [](const auto& test) { return test.param; });

}  // namespace

}  // namespace tremula::coupled
