// SPDX-License-Identifier: Apache-2.0
// A rank of `tremula bench --transport mpi`, started by mpirun with the command line of that bench.
// A separate program, so that `tremula` needs no MPI.
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "cli/bench/bench_jobs.hpp"
#include "core/error.hpp"
#include "transport/mpi/group.hpp"
#include "transport/mpi/process.hpp"
#include "transport/mpi/transport.hpp"

namespace tremula::cli {

using core::Errc, core::Error, core::Rank;

namespace {

constexpr double set_up_seconds = 60;

/// Runs a rank. Does not return.
void run_rank(BenchOptions options, const BenchFiles& files, bool is_producer) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  options.server = files.server();
  BenchArea area(files.area(), static_cast<std::size_t>(options.producers + options.consumers));
  {
    const transport::mpi::Process mpi;
    auto channel = std::make_unique<transport::mpi::Group>(mpi.world(), set_up_seconds);
    const Rank rank = channel->rank();
    const auto join = [&](const std::string& group, const client::SessionConfig& config) {
      std::vector<std::unique_ptr<transport::Transport>> transports;
      auto transport = std::make_unique<transport::mpi::Transport>(mpi.world(), set_up_seconds);
      if (transport->offers().empty()) throw Error(Errc::unsupported, transport->why_not());
      transports.push_back(std::move(transport));
      return client::Session::open(group, std::move(channel), std::move(transports), config);
    };
    // A rank that fails does not wait for the others: mpirun ends them.
    if (!run_bench_rank(options, area, is_producer, rank, join)) _exit(1);
  }
  _exit(0);
}

}  // namespace

}  // namespace tremula::cli

int main(int argc, char** argv) {
  try {
    CLI::App app("A rank of tremula bench --transport mpi", "bench_mpi");
    app.require_subcommand(1);
    tremula::cli::add_bench(app, tremula::cli::run_rank);
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      return app.exit(error) == 0 ? 0 : 2;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tremula: %s\n", error.what());
    return 1;
  }
}
