// SPDX-License-Identifier: Apache-2.0
// The peak memory of a rank beyond its own array is at most queue_depth times its part of a step,
// plus 64 MiB.
#include <gtest/gtest.h>

#include <cstdint>
#include <iomanip>
#include <iostream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/coupled/jobs.hpp"

namespace tremula::coupled {

namespace {

constexpr double mebibyte = 1 << 20;
constexpr double more_mebibytes = 64;

/// The line that a rank of coupled_peak has printed, in MiB.
struct Memory {
  int rank = 0;
  double part = 0, baseline = 0, peak = 0;
  std::uint64_t array = 0;
  std::vector<std::pair<std::uint64_t, double>> mapped;

  /// Returns the peak memory beyond the baseline, excluding mapped arrays of other ranks.
  double beyond(const std::set<std::uint64_t>& arrays) const {
    double others = 0;
    for (const auto& [file, resident] : mapped)
      if (file != array && arrays.contains(file)) others += resident;
    return peak - baseline - others;
  }
};

std::vector<Memory> ranks_of(const Job& job) {
  static const std::regex line_of(
      "rank=([0-9]+) part=([0-9]+) baseline=([0-9]+) peak=([0-9]+) array=([0-9]+)([^\n]*)\n"),
      mapped_of("mapped=([0-9]+):([0-9]+)");
  const auto mebibytes = [](const std::string& bytes) { return std::stod(bytes) / mebibyte; };
  std::vector<Memory> ranks;
  const std::string text = job.output();
  for (auto line = std::sregex_iterator(text.begin(), text.end(), line_of);
       line != std::sregex_iterator(); ++line) {
    ranks.push_back({.rank = std::stoi((*line)[1]),
                     .part = mebibytes((*line)[2]),
                     .baseline = mebibytes((*line)[3]),
                     .peak = mebibytes((*line)[4]),
                     .array = std::stoull((*line)[5]),
                     .mapped = {}});
    const std::string files = (*line)[6];
    for (auto file = std::sregex_iterator(files.begin(), files.end(), mapped_of);
         file != std::sregex_iterator(); ++file)
      ranks.back().mapped.emplace_back(std::stoull((*file)[1]), mebibytes((*file)[2]));
  }
  return ranks;
}

struct PeakCase {
  Roles roles;  ///< of the producer and of the consumer
  std::string transport;

  std::string name() const {
    return std::to_string(roles[0].ranks) + "x" + std::to_string(roles[1].ranks) + "_" + transport;
  }
};
void PrintTo(const PeakCase& peak, std::ostream* out) { *out << peak.name(); }

class CoupledPeak : public testing::TestWithParam<PeakCase> {
protected:
  /// @param memory  kind of memory that holds the arrays of both sides: ordinary or allocated
  void run(int queue_depth, const std::string& memory, bool is_transposed) {
    const auto& [roles, transport] = GetParam();
    const std::string shape = "shape=12288x1024 ";  // 96 MiB
    const auto rows = [&](const Role& role) {
      return shape + "grid=" + std::to_string(role.ranks) + "x1";
    };
    const std::vector<std::string> layouts{
        rows(roles[0]), is_transposed
                            ? shape + "grid=1x" + std::to_string(roles[1].ranks) + " store=column"
                            : rows(roles[1])};
    Stage stage;
    stage.start_server();
    if (transport == "mpi") stage.start_ompi_server();
    std::vector<Job*> jobs;
    for (std::size_t i = 0; i < roles.size(); ++i)
      jobs.push_back(
          &stage.start(roles[i], transport == "mpi" ? Launcher::mpirun : Launcher::plain,
                       {std::string(PROGRAMS) + "/coupled_peak", "--side", i == 0 ? "out" : "in",
                        "--layout", layouts[i], "--steps", "4", "--queue-depth",
                        std::to_string(queue_depth), "--memory", memory, "--transport", transport},
                       {{"TREMULA_OFI_PROVIDER", "tcp;ofi_rxm"}}));
    const auto deadline = Deadline::after(300);
    for (Job* job : jobs) ASSERT_EQ(job->wait(deadline), 0) << job->name() << stage.report();

    std::set<std::uint64_t> arrays;
    for (const Job* job : jobs)
      for (const Memory& rank : ranks_of(*job)) arrays.insert(rank.array);
    for (std::size_t i = 0; i < roles.size(); ++i) {
      const auto ranks = ranks_of(*jobs[i]);
      ASSERT_EQ(ranks.size(), static_cast<std::size_t>(roles[i].ranks)) << stage.report();
      for (const Memory& rank : ranks) {
        const double most = queue_depth * rank.part + more_mebibytes;
        std::cout << std::fixed << std::setprecision(1) << transport << ", queue_depth "
                  << queue_depth << ", " << memory
                  << (is_transposed ? ", transposed" : ", contiguous") << ": " << roles[i].name
                  << " " << rank.rank << " takes " << rank.beyond(arrays)
                  << " MiB beyond its array of " << rank.part << ", may take " << most << '\n';
        EXPECT_GE(rank.baseline, rank.part);
        EXPECT_LE(rank.beyond(arrays), most);
      }
    }
  }
};

TEST_P(CoupledPeak, IsAtMostTheQueueAnd64MiB) {
  for (const int queue_depth : {0, 2})
    for (const char* memory : {"ordinary", "allocated"})
      for (const bool is_transposed : {false, true}) {
        run(queue_depth, memory, is_transposed);
        if (HasFatalFailure()) return;
      }
}

INSTANTIATE_TEST_SUITE_P(Jobs, CoupledPeak,
                         testing::Values(PeakCase{{{"producer", 1}, {"consumer", 1}}, "local"},
                                         PeakCase{{{"producer", 1}, {"consumer", 1}}, "ofi"},
                                         PeakCase{{{"producer", 3}, {"consumer", 2}}, "ofi"},
                                         PeakCase{{{"producer", 1}, {"consumer", 1}}, "mpi"}),
                         [](const auto& test) { return test.param.name(); });

}  // namespace

}  // namespace tremula::coupled
