// SPDX-License-Identifier: Apache-2.0
#pragma once
// What `tremula bench` starts: a server, what MPI needs, and the ranks of both jobs.
#include <filesystem>
#include <string>

#include "cli/bench/bench_rank.hpp"
#include "cli/bench/children.hpp"

namespace tremula::cli {

/// Where the processes of one bench find each other.
struct BenchFiles {
  std::filesystem::path folder;
  std::filesystem::path area() const { return folder / "area"; }
  std::filesystem::path port() const { return folder / "port"; }
  std::string server() const { return "file:" + port().string(); }
};

/// For a child: moves this process into the network namespace of the site.
/// @throws core::Error invalid_argument if there is no such namespace or it may not be entered
void enter(const BenchOptions::Site& site);

/// Waits until a service of `services` has written a line.
/// @throws core::Error timed_out, or as Children::count_running and expect_no_signal
void await_line(const std::filesystem::path& file, const std::string& service, Children& services);

void start_server(const BenchOptions& options, const BenchFiles& files, Children& services);
/// Every rank is a fork of this process: a group without MPI.
void start_ranks(const BenchOptions& options, BenchArea& area, Children& ranks);

/// Starts an mpirun for each job, and the ompi-server by which the jobs connect. Their ranks are
/// this command with the same arguments and also --folder and --side: see run_mpi_rank.
/// @throws core::Error unsupported if this build has no MPI
void start_mpi_jobs(const BenchOptions& options, const BenchFiles& files, Children& services,
                    Children& ranks);
/// Runs such a rank.
/// @throws core::Error unsupported if this build has no MPI
[[noreturn]] void run_mpi_rank(BenchOptions options, const BenchFiles& files, bool is_producer);

}  // namespace tremula::cli
