// SPDX-License-Identifier: Apache-2.0
// Jobs in a ring, each of which puts to the next job and gets from the previous one, close their streams
// and reopen them under the same names, a hundred times.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "tests/coupled/jobs.hpp"

namespace tremula::coupled {

namespace {

struct RingCase {
  std::vector<int> ranks;  // [job]
  std::string transport;
  int rounds = 100;
  std::string name() const {
    std::string text;
    for (const int size : ranks) text += (text.empty() ? "" : "x") + std::to_string(size);
    return text + "_" + transport;
  }
};
void PrintTo(const RingCase& ring, std::ostream* out) { *out << ring.name(); }

class CoupledReopen : public testing::TestWithParam<RingCase> {};

TEST_P(CoupledReopen, FindsTheSameStreamsInAnyOrder) {
  const auto& [ranks, transport, rounds] = GetParam();
  const char* given = std::getenv("TREMULA_TEST_SEED");
  const std::string seed =
      given != nullptr ? given : std::to_string(std::random_device{}() % 1000000);
  SCOPED_TRACE("replay with TREMULA_TEST_SEED=" + seed);
  Stage stage;
  stage.start_server();
  if (transport == "mpi") stage.start_ompi_server();
  std::vector<Job*> jobs;
  for (std::size_t job = 0; job < ranks.size(); ++job) {
    const std::string group = "job" + std::to_string(job);
    jobs.push_back(
        &stage.start({group, ranks[job]}, Launcher::mpirun,
                     {std::string(PROGRAMS) + "/coupled_reopen", "--group", group, "--jobs",
                      std::to_string(ranks.size()), "--job", std::to_string(job), "--rounds",
                      std::to_string(rounds), "--transport", transport, "--seed", seed},
                     {{"TREMULA_OFI_PROVIDER", "tcp;ofi_rxm"}}));
  }
  const auto deadline = core::Deadline::after(400);
  for (Job* job : jobs) ASSERT_EQ(job->wait(deadline), 0) << job->name() << stage.report();
}

INSTANTIATE_TEST_SUITE_P(Jobs, CoupledReopen,
                         testing::Values(RingCase{{1, 1}, "local"}, RingCase{{2, 1, 2}, "local"},
                                         RingCase{{1, 2}, "tcp"}, RingCase{{2, 1, 2}, "tcp"},
                                         RingCase{{1, 2}, "ofi"}, RingCase{{1, 1}, "mpi"},
                                         RingCase{{1, 1, 1}, "mpi", 30}),
                         [](const auto& test) { return test.param.name(); });

}  // namespace

}  // namespace tremula::coupled
