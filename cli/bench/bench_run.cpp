// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ranges>
#include <thread>
#include <utility>

#include "cli/bench/bench_jobs.hpp"
#include "cli/bench/bench_result.hpp"
#include "core/error.hpp"

namespace tremula::cli {

using core::Deadline, core::Errc, core::Error;

namespace {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// Returns the seconds from the first begin to the last end on all ranks, for each of `rounds`
/// measurements.
/// @param meet       meets the ranks of the area
/// @param sets_pace  whether to set the pace of the area to the median so far before a round ends
template <class Meet>
std::vector<double> read(BenchArea& area, int rounds, Meet& meet, bool sets_pace = false) {
  std::vector<double> seconds;
  for (int round = 0; round < rounds; ++round) {
    meet();
    meet();
    if (sets_pace && !seconds.empty()) area.set_pace(median(seconds));
    const auto reports = area.reports();
    const double began = std::ranges::min_element(reports, {}, &RankReport::began)->began;
    const double ended = std::ranges::max_element(reports, {}, &RankReport::ended)->ended;
    meet();
    seconds.push_back(ended - began);
  }
  return seconds;
}

}  // namespace

BenchResult run_bench(BenchOptions options) {
  const HeldSignals signals;
  const Folder folder;
  const BenchFiles files{folder.path()};
  BenchArea area(files.area(), static_cast<std::size_t>(options.producers + options.consumers));
  Children services, ranks;
  const auto look_after = [&] {
    expect_no_signal();
    services.count_running();
    return ranks.count_running();
  };
  auto meet = [&, naps = 0]() mutable {
    area.meet(Deadline::after(patience_of(options)), [&] {  // takes no core from the ranks
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      if (++naps % 100 == 0) look_after();
    });
  };

  BenchResult result;
  result.step_bytes = bytes_of(options.from, core::element_bytes(options.type));
  try {
    start_server(options, files, services);
    options.server = files.server();
    if (options.transport == "mpi")
      start_mpi_jobs(options, files, services, ranks);
    else
      start_ranks(options, area, ranks);
    meet();  // all have started
    const auto steps = read(area, warm_up_steps + options.steps, meet, options.computes);
    result.step_seconds = median({steps.begin() + warm_up_steps, steps.end()});
    result.memcpy_seconds = median(read(area, limit_rounds, meet));
    meet();  // all addresses are in the area
    result.raw_seconds = median(read(area, limit_rounds, meet));
    read(area, 1, meet);
    const auto deadline = Deadline::after(patience_of(options));
    while (look_after() > 0) {
      if (deadline.expired()) throw Error(Errc::timed_out, "expected every rank to end");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  } catch (const Error& error) {
    const std::string why = area.error();
    throw Error(error.code(), "bench: " + (why.empty() ? error.what() : why));
  }
  if (options.is_serial) {
    const auto all = area.reports();
    const auto producers = all.first(static_cast<std::size_t>(options.producers)),
               consumers = all.subspan(producers.size());
    std::vector<double> seconds;
    for (std::size_t i = 0; i < serial_steps; ++i) {
      const auto moment = [i](const RankReport& report) { return report.moments[i]; };
      seconds.push_back(std::ranges::max(consumers | std::views::transform(moment)) -
                        std::ranges::min(producers | std::views::transform(moment)));
    }
    result.serial_seconds = median(std::move(seconds));
  }
  std::uint64_t bytes = 0, copied = 0;
  for (const RankReport& report : area.reports()) {
    bytes += report.bytes;
    copied += report.copied_bytes;
    result.lost_share = std::max(result.lost_share, report.lost_share);
  }
  result.copies_per_byte = 2 * static_cast<double>(copied) / static_cast<double>(bytes);
  result.transport = area.reports()[0].transport;
  result.latency = area.reports()[0].latency;
  return result;
}

}  // namespace tremula::cli
