// SPDX-License-Identifier: Apache-2.0
// Sends the parameters of a transformer from the ranks that train it to the ranks that serve it, in another
// layout and another type, and back (coupled_weights checks every element, all bytes and all messages).
#include <gtest/gtest.h>

#include "tests/coupled/jobs.hpp"

namespace tremula::coupled {

namespace {

struct WeightsCase {
  std::string to, transport;
  std::string name() const { return to + "_" + transport; }
};
void PrintTo(const WeightsCase& weights, std::ostream* out) { *out << weights.name(); }

class CoupledWeights : public testing::TestWithParam<WeightsCase> {};

TEST_P(CoupledWeights, ReachTheOtherJobExactly) {
  Stage stage;
  stage.start_server();
  std::vector<Job*> jobs;
  for (const Role& role : Roles{{"trained", 4}, {"served", 4}})
    jobs.push_back(
        &stage.start(role, Launcher::mpirun,
                     {std::string(PROGRAMS) + "/coupled_weights", "--group", role.name, "--to",
                      GetParam().to, "--versions", "5", "--transport", GetParam().transport},
                     {}));
  const auto deadline = core::Deadline::after(300);
  for (Job* job : jobs) ASSERT_EQ(job->wait(deadline), 0) << job->name() << stage.report();
}

INSTANTIATE_TEST_SUITE_P(Jobs, CoupledWeights,
                         testing::Values(WeightsCase{"tensor_parallel", "local"},
                                         WeightsCase{"tensor_parallel", "tcp"},
                                         WeightsCase{"sharded", "local"}),
                         [](const auto& test) { return test.param.name(); });

}  // namespace

}  // namespace tremula::coupled
