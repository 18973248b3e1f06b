// SPDX-License-Identifier: Apache-2.0
#pragma once
// The processes that `tremula bench` starts: a server, those that MPI needs, and the ranks of both
// jobs.
#include <CLI/App.hpp>
#include <filesystem>
#include <functional>
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
/// bench_mpi with the arguments of this command and also --folder and --side.
/// @throws core::Error unsupported if one of the programs is missing
void start_mpi_jobs(const BenchOptions& options, const BenchFiles& files, Children& services,
                    Children& ranks);

/// Runs such a rank.
using RunRank = std::function<void(BenchOptions, const BenchFiles&, bool is_producer)>;
/// The command of a program that runs ranks.
void add_bench(CLI::App& app, const RunRank& run_rank);

}  // namespace tremula::cli
