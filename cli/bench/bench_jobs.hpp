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

/// For a child: lives in the network namespace of that place from now on.
/// @throws core::Error invalid_argument if there is no such namespace or it may not be entered
void enter(const BenchOptions::Place& place);

/// Waits until a service of `services` has written a line.
/// @throws core::Error timed_out, or as Children::still_running and expect_no_signal
void await_line(const std::filesystem::path& file, const std::string& service, Children& services);

void start_server(const BenchOptions& options, const BenchFiles& files, Children& services);
/// Every rank is a fork of this process: a group without MPI.
void start_ranks(const BenchOptions& options, BenchArea& area, Children& ranks);

/// An mpirun for each job, and the ompi-server by which they meet. Their ranks are this command
/// with the same arguments and, besides, --folder and --side: see run_mpi_rank.
/// @throws core::Error unsupported if this build has no MPI
void start_mpi_jobs(const BenchOptions& options, const BenchFiles& files, Children& services,
                    Children& ranks);
/// What such a rank does.
/// @throws core::Error unsupported if this build has no MPI
[[noreturn]] void run_mpi_rank(BenchOptions options, const BenchFiles& files, bool is_producer);

}  // namespace tremula::cli
