// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/bench_jobs.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "core/error.hpp"

namespace tremula::cli {

using core::Deadline, core::Errc, core::Error, core::Rank, core::RankCount;

void enter(const BenchOptions::Site& site) {
  if (site.network_namespace.empty()) return;
  const auto file = "/run/netns/" + site.network_namespace;
  const int handle = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (handle < 0 || setns(handle, CLONE_NEWNET) != 0)
    throw Error(Errc::invalid_argument,
                fmt::format("--namespaces: expected to enter {} (as root), found: {}", file,
                            std::strerror(errno)));
  close(handle);
}

void await_line(const std::filesystem::path& file, const std::string& service, Children& services) {
  constexpr double seconds = 20;
  const auto deadline = Deadline::after(seconds);
  std::string line;
  while (!std::getline(std::ifstream(file), line).good()) {  // good: the line is complete
    expect_no_signal();
    services.count_running();
    if (deadline.expired())
      throw Error(Errc::timed_out,
                  fmt::format("expected {} to come up within {} s", service, seconds));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void start_server(const BenchOptions& options, const BenchFiles& files, Children& services) {
  const BenchOptions::Site& site = options.producer_site;
  services.start(
      "the server",
      [&] {
        enter(site);
        become({own_program(), "serve", "--bind", site.address.empty() ? "127.0.0.1" : site.address,
                "--port", "0", "--port-file", files.port(), "--log", "warn", "--heartbeat",
                "30"});  // the bench itself notices ranks that die
      },
      files.folder / "server.out");
  await_line(files.port(), "the server", services);
}

void start_ranks(const BenchOptions& options, BenchArea& area, Children& ranks) {
  for (const bool is_producer : {true, false}) {
    const RankCount size = is_producer ? options.producers : options.consumers;
    for (const Rank rank : core::all_ranks(size))
      ranks.start(fmt::format("{} {}", is_producer ? "producer" : "consumer", rank.value), [&] {
        const auto join = [&](const std::string& group, const client::SessionConfig& config) {
          enter(is_producer ? options.producer_site : options.consumer_site);
          return client::Session::open(group, rank.value, size, config);
        };
        if (!run_bench_rank(options, area, is_producer, rank, join)) _exit(1);
      });
  }
}

}  // namespace tremula::cli
