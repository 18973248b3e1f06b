// SPDX-License-Identifier: Apache-2.0
#pragma once
// The processes that `tremula bench` starts: a server, the processes that MPI needs, and the ranks
// of both jobs.
#include <CLI/App.hpp>
#include <filesystem>
#include <functional>
#include <string>

#include "cli/bench/bench_rank.hpp"
#include "cli/bench/children.hpp"

namespace tremula::cli {

/// The files through which the processes of one bench find each other.
struct BenchFiles {
  std::filesystem::path folder;
  std::filesystem::path area() const { return folder / "area"; }
  std::filesystem::path port() const { return folder / "port"; }
  std::string server() const { return "file:" + port().string(); }
};

/// Moves this process, a child, into the network namespace of the site.
/// @throws core::Error invalid_argument if there is no such namespace or it may not be entered
void enter(const BenchOptions::Site& site);

/// Waits until a service of `services` has written a line.
/// @throws core::Error timed_out, or as Children::count_running and expect_no_signal
void await_line(const std::filesystem::path& file, const std::string& service, Children& services);

void start_server(const BenchOptions& options, const BenchFiles& files, Children& services);
/// Starts every rank as a fork of this process, in groups without MPI.
void start_ranks(const BenchOptions& options, BenchArea& area, Children& ranks);

/// Starts an mpirun for each job, and the ompi-server through which the jobs connect. Their ranks
/// run bench_mpi with the arguments of this command, plus --folder and --side.
/// @throws core::Error unsupported if one of the programs is missing
void start_mpi_jobs(const BenchOptions& options, const BenchFiles& files, Children& services,
                    Children& ranks);

/// Runs a rank that mpirun has started.
using RunRank = std::function<void(BenchOptions, const BenchFiles&, bool is_producer)>;
/// Adds the command to a program that runs ranks.
void add_bench(CLI::App& app, const RunRank& run_rank);

}  // namespace tremula::cli
