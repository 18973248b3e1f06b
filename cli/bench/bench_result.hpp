// SPDX-License-Identifier: Apache-2.0
#pragma once
// What `tremula bench` has measured, and how it tells.
#include <string>

#include "cli/bench/bench_rank.hpp"

namespace tremula::cli {

struct BenchResult {
  std::string transport;
  core::Index step_bytes = 0;
  double step_seconds = 0, memcpy_seconds = 0, raw_seconds = 0, latency = 0;  ///< medians
  double copies_per_byte = 0;
  double serial_seconds = 0;  ///< median; 0 where steps are too large
  double lost_share = 0;      ///< of a computing producer's time, the largest of all ranks
};

/// Starts a server and two jobs on this host, and reads what they measure. Leaves nothing behind,
/// also when SIGINT or SIGTERM comes: the process then ends by that signal.
/// @throws core::Error with what the first rank or service has to say that fails
BenchResult run_bench(BenchOptions options);

std::string bench_json(const BenchOptions& options, const BenchResult& r);
std::string bench_text(const BenchOptions& options, const BenchResult& r);

}  // namespace tremula::cli
