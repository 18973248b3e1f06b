// SPDX-License-Identifier: Apache-2.0
#pragma once
// The results of `tremula bench`, and their output.
#include <string>

#include "cli/bench/bench_rank.hpp"

namespace tremula::cli {

struct BenchResult {
  std::string transport;
  core::Index step_bytes = 0;
  double step_seconds = 0, memcpy_seconds = 0, raw_seconds = 0, latency = 0;  ///< medians
  double copies_per_byte = 0;
  double serial_seconds = 0;  ///< median; 0 if steps are too large
  double lost_share = 0;  ///< share of time that a computing producer loses; largest of all ranks
};

/// Starts a server and two jobs on this host and reads their measurements. Leaves nothing behind,
/// even after SIGINT or SIGTERM, which then ends the process.
/// @throws core::Error with the text of the first rank or service that fails
BenchResult run_bench(BenchOptions options);

std::string bench_json(const BenchOptions& options, const BenchResult& r);
std::string bench_text(const BenchOptions& options, const BenchResult& r);

}  // namespace tremula::cli
