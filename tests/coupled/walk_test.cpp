// SPDX-License-Identifier: Apache-2.0
// Two jobs of M and N ranks run random scenarios, and every element must reach its place.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "tests/coupled/jobs.hpp"

namespace tremula::coupled {

namespace {

struct WalkCase {
  Roles roles;
  std::string transport;
  Launcher launcher;
  int scenarios;

  /// Returns, for example, "2x3_mpi".
  std::string name() const {
    return std::to_string(roles[0].ranks) + "x" + std::to_string(roles[1].ranks) + "_" + transport +
           (launcher == Launcher::plain ? "_plain" : "");
  }
};
void PrintTo(const WalkCase& walk, std::ostream* out) { *out << walk.name(); }

std::string test_seed() {
  const char* given = std::getenv("TREMULA_TEST_SEED");
  const std::string seed = given != nullptr ? given : "20110311";
  std::cout << "TREMULA_TEST_SEED=" << seed << '\n';
  return seed;
}

class CoupledWalk : public testing::TestWithParam<WalkCase> {};

TEST_P(CoupledWalk, BringsEveryElementToItsPlace) {
  const auto& [roles, transport, launcher, scenarios] = GetParam();
  const std::string seed = test_seed();
  Stage stage;
  stage.start_server();
  if (transport == "mpi") stage.start_ompi_server();
  std::vector<Job*> jobs;
  for (std::size_t i = 0; i < roles.size(); ++i)
    jobs.push_back(&stage.start(roles[i], launcher,
                                {PROGRAMS "/coupled_" + roles[i].name, "--seed", seed,
                                 "--scenarios", std::to_string(scenarios), "--peers",
                                 std::to_string(roles[1 - i].ranks), "--transport", transport}));
  const auto deadline = Deadline::after(300);
  const auto failed = [](Job* job) { return job->wait(Deadline::after(0)).value_or(0) != 0; };
  while (std::ranges::none_of(jobs, failed) && !deadline.expired() &&
         !(jobs[0]->wait(Deadline::after(0.05)) && jobs[1]->wait(Deadline::after(0.05)))) {
  }
  for (Job* job : jobs) EXPECT_EQ(job->wait(Deadline::after(1)), 0) << job->name();
  if (HasFailure()) ADD_FAILURE() << stage.report();
}

INSTANTIATE_TEST_SUITE_P(
    Jobs, CoupledWalk,
    testing::Values(
        WalkCase{Roles{{"producer", 1}, {"consumer", 1}}, "ofi", Launcher::mpirun, 100},
        WalkCase{Roles{{"producer", 1}, {"consumer", 3}}, "ofi", Launcher::mpirun, 60},
        WalkCase{Roles{{"producer", 3}, {"consumer", 1}}, "ofi", Launcher::mpirun, 60},
        WalkCase{Roles{{"producer", 2}, {"consumer", 3}}, "ofi", Launcher::mpirun, 60},
        WalkCase{Roles{{"producer", 4}, {"consumer", 4}}, "ofi", Launcher::mpirun, 40},
        WalkCase{Roles{{"producer", 4}, {"consumer", 9}}, "ofi", Launcher::mpirun, 20},
        WalkCase{Roles{{"producer", 2}, {"consumer", 3}}, "ofi", Launcher::plain, 60},
        WalkCase{Roles{{"producer", 1}, {"consumer", 1}}, "tcp", Launcher::mpirun, 100},
        WalkCase{Roles{{"producer", 2}, {"consumer", 3}}, "tcp", Launcher::plain, 60},
        WalkCase{Roles{{"producer", 4}, {"consumer", 9}}, "tcp", Launcher::mpirun, 20},
        WalkCase{Roles{{"producer", 1}, {"consumer", 1}}, "local", Launcher::mpirun, 150},
        WalkCase{Roles{{"producer", 2}, {"consumer", 3}}, "local", Launcher::plain, 100},
        WalkCase{Roles{{"producer", 4}, {"consumer", 9}}, "local", Launcher::mpirun, 30},
        WalkCase{Roles{{"producer", 2}, {"consumer", 3}}, "auto", Launcher::mpirun, 60},
        WalkCase{Roles{{"producer", 1}, {"consumer", 1}}, "mpi", Launcher::mpirun, 100},
        WalkCase{Roles{{"producer", 1}, {"consumer", 3}}, "mpi", Launcher::mpirun, 60},
        WalkCase{Roles{{"producer", 3}, {"consumer", 1}}, "mpi", Launcher::mpirun, 60},
        WalkCase{Roles{{"producer", 2}, {"consumer", 3}}, "mpi", Launcher::mpirun, 60},
        WalkCase{Roles{{"producer", 4}, {"consumer", 4}}, "mpi", Launcher::mpirun, 40},
        WalkCase{Roles{{"producer", 4}, {"consumer", 9}}, "mpi", Launcher::mpirun, 20}),
    [](const auto& test) { return test.param.name(); });

}  // namespace

}  // namespace tremula::coupled
