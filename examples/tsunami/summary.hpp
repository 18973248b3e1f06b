// SPDX-License-Identifier: Apache-2.0
#pragma once
// The summary of a job's run, for the other job and for the script that started both.
#include <mpi.h>

#include <cstdint>
#include <string>
#include <tremula/tremula.hpp>
#include <vector>

namespace tsunami {

struct Summary {
  std::string job;
  std::uint64_t steps = 0;
  std::uint64_t bytes = 0;     ///< payload of all ranks
  std::uint64_t packages = 0;  ///< number of packages of all ranks
  double plan_seconds = 0;     ///< time to plan, on the slowest rank
  double wait_seconds = 0;     ///< time blocked on the other job, mean over the ranks
  double wall_seconds = 0;
  std::string transport;
  std::vector<std::uint64_t> hashes;  ///< hash of every step, over the whole field
};

/// Combines each rank's statistics and its part of the hashes into the summary of all ranks.
/// Collective.
Summary summarise(const std::string& job, const tremula::Statistics& statistics,
                  std::vector<std::uint64_t> hashes, double wall_seconds, MPI_Comm comm);

/// Writes the summary as JSON; the file appears under its name only when it is complete.
void write_summary(const Summary& summary, const std::string& file);

/// Reads the summary that another job has written or will soon write.
/// @throws std::runtime_error if the file does not exist after `timeout_seconds`
Summary read_summary(const std::string& file, double timeout_seconds);

}  // namespace tsunami
