// SPDX-License-Identifier: Apache-2.0
// A job refines its mesh and redistributes its matrix every few steps, and two other jobs follow it in
// different layouts (coupled_regrid checks every element, and all bytes).
#include <gtest/gtest.h>

#include "tests/coupled/jobs.hpp"

namespace tremula::coupled {

namespace {

class CoupledRegrid : public testing::TestWithParam<std::string> {};

TEST_P(CoupledRegrid, ConsumersFollowRedeclaredLayouts) {
  Stage stage;
  stage.start_server();
  if (GetParam() == "mpi") stage.start_ompi_server();
  std::vector<Job*> jobs;
  for (const Role& role : Roles{{"mesh", 4}, {"analysis", 3}, {"probe", 2}})
    jobs.push_back(&stage.start(role, Launcher::mpirun,
                                {std::string(PROGRAMS) + "/coupled_regrid", "--group", role.name,
                                 "--steps", "60", "--transport", GetParam()},
                                {}));
  const auto deadline = core::Deadline::after(200);
  for (Job* job : jobs) ASSERT_EQ(job->wait(deadline), 0) << job->name() << stage.report();
}

INSTANTIATE_TEST_SUITE_P(Jobs, CoupledRegrid, testing::Values("local", "tcp", "ofi", "mpi"),
                         [](const auto& test) { return test.param; });

}  // namespace

}  // namespace tremula::coupled
