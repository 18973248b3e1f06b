// SPDX-License-Identifier: Apache-2.0
// Transposes, scales, converts and cuts fields in transit between two real jobs.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "tests/coupled/jobs.hpp"

namespace tremula::coupled {

namespace {

struct UpdateCase {
  Roles roles;  ///< of the producer and of the consumer
  std::string transport;

  std::string name() const {
    return std::to_string(roles[0].ranks) + "x" + std::to_string(roles[1].ranks) + "_" + transport;
  }
};
void PrintTo(const UpdateCase& update, std::ostream* out) { *out << update.name(); }

class CoupledUpdate : public testing::TestWithParam<UpdateCase> {};

TEST_P(CoupledUpdate, EqualsTheOracle) {
  const auto& [roles, transport] = GetParam();
  const char* given = std::getenv("TREMULA_TEST_SEED");
  for (const char* queue_depth : {"0", "2"}) {
    const std::string seed = given != nullptr ? given : std::to_string(std::random_device{}());
    SCOPED_TRACE("replay with TREMULA_TEST_SEED=" + seed);
    Stage stage;
    stage.start_server();
    if (transport == "mpi") stage.start_ompi_server();
    std::vector<Job*> jobs;
    for (std::size_t i = 0; i < roles.size(); ++i)
      jobs.push_back(
          &stage.start(roles[i], Launcher::mpirun,
                       {std::string(PROGRAMS) + "/coupled_update", "--side", i == 0 ? "out" : "in",
                        "--producers", std::to_string(roles[0].ranks), "--consumers",
                        std::to_string(roles[1].ranks), "--cases", "12", "--queue-depth",
                        queue_depth, "--transport", transport},
                       {{"TREMULA_TEST_SEED", seed}, {"TREMULA_OFI_PROVIDER", "tcp;ofi_rxm"}}));
    const auto deadline = core::Deadline::after(300);
    for (Job* job : jobs) ASSERT_EQ(job->wait(deadline), 0) << job->name() << stage.report();
  }
}

INSTANTIATE_TEST_SUITE_P(Jobs, CoupledUpdate,
                         testing::Values(UpdateCase{{{"producer", 2}, {"consumer", 3}}, "local"},
                                         UpdateCase{{{"producer", 3}, {"consumer", 2}}, "tcp"},
                                         UpdateCase{{{"producer", 3}, {"consumer", 2}}, "ofi"},
                                         UpdateCase{{{"producer", 2}, {"consumer", 2}}, "mpi"}),
                         [](const auto& test) { return test.param.name(); });

}  // namespace

}  // namespace tremula::coupled
