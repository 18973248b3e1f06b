// SPDX-License-Identifier: Apache-2.0
// Particles that migrate between the ranks of a simulation are sent to a job that follows them by their
// ids, and to a job that divides them evenly (coupled_particles checks every particle, all bytes and all
// messages).
#include <gtest/gtest.h>

#include "tests/coupled/jobs.hpp"

namespace tremula::coupled {

namespace {

class CoupledParticles : public testing::TestWithParam<std::string> {};

TEST_P(CoupledParticles, AreFollowedFromStepToStep) {
  Stage stage;
  stage.start_server();
  std::vector<Job*> jobs;
  for (const Role& role : Roles{{"simulation", 8}, {"tracks", 3}, {"columns", 2}})
    jobs.push_back(&stage.start(role, Launcher::mpirun,
                                {std::string(PROGRAMS) + "/coupled_particles", "--group", role.name,
                                 "--steps", "200", "--transport", GetParam()},
                                {}));
  const auto deadline = core::Deadline::after(300);
  for (Job* job : jobs) ASSERT_EQ(job->wait(deadline), 0) << job->name() << stage.report();
}

INSTANTIATE_TEST_SUITE_P(Jobs, CoupledParticles, testing::Values("local", "tcp"),
                         [](const auto& test) { return test.param; });

}  // namespace

}  // namespace tremula::coupled
