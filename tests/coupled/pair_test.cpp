// SPDX-License-Identifier: Apache-2.0
// Two jobs that exchange streams in both directions, over every transport with default options.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "tests/coupled/jobs.hpp"

namespace tremula::coupled {

namespace {

struct PairCase {
  Roles roles;
  std::string transport;
  std::string name() const {
    return std::to_string(roles[0].ranks) + "x" + std::to_string(roles[1].ranks) + "_" + transport;
  }
};
void PrintTo(const PairCase& pair, std::ostream* out) { *out << pair.name(); }

class CoupledPair : public testing::TestWithParam<PairCase> {};

TEST_P(CoupledPair, CompletesAThousandRoundsInRandomOrders) {
  const auto& [roles, transport] = GetParam();
  const char* given = std::getenv("TREMULA_TEST_SEED");
  const std::string seed =
      given != nullptr ? given : std::to_string(std::random_device{}() % 1000000);
  SCOPED_TRACE("replay with TREMULA_TEST_SEED=" + seed);
  Stage stage;
  stage.start_server();
  if (transport == "mpi") stage.start_ompi_server();
  std::vector<Job*> jobs;
  for (const auto& role : roles)
    jobs.push_back(&stage.start(role, Launcher::mpirun,
                                {std::string(PROGRAMS) + "/coupled_pair", "--group", role.name,
                                 "--rounds", "1000", "--transport", transport, "--seed", seed},
                                {{"TREMULA_OFI_PROVIDER", "tcp;ofi_rxm"}}));
  const auto deadline = core::Deadline::after(400);
  for (Job* job : jobs) ASSERT_EQ(job->wait(deadline), 0) << job->name() << stage.report();
}

INSTANTIATE_TEST_SUITE_P(Jobs, CoupledPair,
                         testing::Values(PairCase{{{"a", 1}, {"b", 1}}, "local"},
                                         PairCase{{{"a", 2}, {"b", 1}}, "tcp"},
                                         PairCase{{{"a", 2}, {"b", 1}}, "ofi"},
                                         PairCase{{{"a", 1}, {"b", 2}}, "mpi"}),
                         [](const auto& test) { return test.param.name(); });

}  // namespace

}  // namespace tremula::coupled
