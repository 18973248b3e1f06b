// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include "cli/bench/bench_jobs.hpp"
#include "core/error.hpp"

namespace tremula::cli {

using core::Errc, core::Error, core::RankCount;

namespace {

/// Returns the command line of this process, including the name of the program.
std::vector<std::string> own_command_line() {
  std::ifstream file("/proc/self/cmdline");
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

void expect_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (access((std::filesystem::path(folder) / name).c_str(), X_OK) == 0) return;
  throw Error(Errc::unsupported,
              fmt::format("--transport mpi: expected the program {} in PATH, found none: install "
                          "Open MPI (Debian: openmpi-bin), or choose auto, local, tcp or ofi",
                          name));
}

/// Returns the program of a rank, the only program that is linked with MPI.
std::filesystem::path rank_program() {
  const auto file = (own_program().parent_path() / TREMULA_LIBEXEC_FROM_PROGRAMS / "bench_mpi")
                        .lexically_normal();
  if (access(file.c_str(), X_OK) == 0) return file;
  throw Error(
      Errc::unsupported,
      fmt::format("--transport mpi: expected the program {}, found none: build all of Tremula "
                  "with Open MPI, or choose auto, local, tcp or ofi",
                  file.string()));
}

/// Sets, in a child process, the environment that programs of Open MPI need.
void prepare(const BenchOptions::Site& site, const std::filesystem::path& scratch) {
  enter(site);
  const auto set = [](const char* name, const std::string& value) {
    setenv(name, value.c_str(), 1);
  };
  if (site.network_namespace.empty()) {  // in a namespace Open MPI itself finds the only interface
    set("OMPI_MCA_oob_tcp_if_include", "lo");
    set("OMPI_MCA_btl_tcp_if_include", "lo");
  }
  set("OMPI_MCA_orte_tmpdir_base", scratch);
  set("OMPI_MCA_mpi_yield_when_idle", "1");
  set("OMPI_ALLOW_RUN_AS_ROOT", "1");  // harmless, because it runs only this program
  set("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
}

}  // namespace

void start_mpi_jobs(const BenchOptions& options, const BenchFiles& files, Children& services,
                    Children& ranks) {
  const auto program_of_ranks = rank_program();
  for (const char* program : {"ompi-server", TREMULA_MPIRUN}) expect_program(program);
  const auto uri = files.folder / "ompi-server.uri";
  const auto start = [&](Children& children, const std::string& name,
                         const BenchOptions::Site& site, std::vector<std::string> command) {
    // Each program has its own scratch folder: two that share one may fail to create it.
    const auto scratch = files.folder / name;
    std::filesystem::create_directory(scratch);
    children.start(
        name,
        [&] {
          prepare(site, scratch);
          become(std::move(command));
        },
        files.folder / (name + ".out"));
  };
  const auto start_job = [&](const std::string& side, RankCount size,
                             const BenchOptions::Site& site) {
    std::vector<std::string> command{TREMULA_MPIRUN,
                                     "--ompi-server",
                                     "file:" + uri.string(),
                                     "--oversubscribe",
                                     "--bind-to",
                                     "none",
                                     "-n",
                                     std::to_string(size)};
    auto rank = own_command_line();
    rank[0] = program_of_ranks;
    rank.insert(rank.end(), {"--folder", files.folder, "--side", side});
    command.insert(command.end(), rank.begin(), rank.end());
    start(ranks, "mpirun-" + side, site, std::move(command));
  };
  start(services, "ompi-server", options.producer_site,
        {"ompi-server", "--no-daemonize", "--report-uri", uri});
  await_line(uri, "ompi-server", services);
  start_job("producer", options.producers, options.producer_site);
  start_job("consumer", options.consumers, options.consumer_site);
}

}  // namespace tremula::cli
