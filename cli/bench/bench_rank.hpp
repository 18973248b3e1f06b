// SPDX-License-Identifier: Apache-2.0
#pragma once
// The work of one process of `tremula bench`.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/bench/bench_area.hpp"
#include "client/session/session.hpp"
#include "core/element_type.hpp"
#include "index_calc/layout/layout.hpp"

namespace tremula::cli {

struct BenchOptions {
  index_calc::Layout from, to;
  core::RankCount producers = 1, consumers = 1;
  core::ElementType type = core::ElementType::f64;
  int steps = 10;
  int queue_depth = 2;
  bool allocates_producers = false, allocates_consumers = false;  ///< arrays that peers can map
  bool is_async = false;                                          ///< put_async instead of put
  bool is_serial = false;  ///< also measures small steps, one after the other
  bool computes = false;   ///< also measures how much time a computing producer loses
  std::string transport = "auto";
  std::string ofi_provider;
  /// The network namespace of a side, so that one host can stand in for two.
  struct Site {
    std::string network_namespace;  ///< empty: where the command runs
    std::string address;            ///< address to listen on
  };
  Site producer_site, consumer_site;
  std::string server;  ///< "host:port" or "file:PATH"
  double timeout = 60;
};

/// Numbers of measurements, each of which is between two meetings of all ranks.
inline constexpr int warm_up_steps = 2;
inline constexpr int limit_rounds = 7;
/// Number of steps without lockstep, each put when the previous one has been taken. Their times are
/// in RankReport::moments. Only for small steps, and if every rank has a core.
inline constexpr int serial_steps = 400;
inline constexpr core::Index most_serial_bytes = 1 << 12;
/// Number of steps of a producer that computes for as long as a step takes; not in lockstep.
inline constexpr int computing_steps = 20;

/// Returns the time limit of meetings in seconds, long enough for a stuck stream to end with its
/// own error.
inline double patience_of(const BenchOptions& options) { return 3 * options.timeout + 30; }

/// Joins a group with the configuration.
using JoinGroup = std::function<std::unique_ptr<client::Session>(const std::string& group,
                                                                 const client::SessionConfig&)>;

/// Runs one rank, bound to a core of its own, and reports its error in the area. Only this function
/// and run_bench know the order of the calls of BenchArea::meet and the contents of the reports at
/// each call. In the area producers are numbered first, then consumers.
/// @return false if the rank has failed
bool run_bench_rank(const BenchOptions& options, BenchArea& area, bool is_producer, core::Rank rank,
                    const JoinGroup& join);

}  // namespace tremula::cli
