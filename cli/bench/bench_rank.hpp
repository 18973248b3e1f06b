// SPDX-License-Identifier: Apache-2.0
#pragma once
// What one process of `tremula bench` does.
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
  core::Rank producers = 1, consumers = 1;
  core::ElementType type = core::ElementType::f64;
  int steps = 10;
  int queue_depth = 2;
  bool allocates_producers = false, allocates_consumers = false;  ///< memory that peers can map
  bool is_async = false;                                          ///< put_async instead of put
  bool is_serial = false;  ///< small steps follow each other, too
  bool computes = false;   ///< the producer's loss is measured, too
  std::string transport = "auto";
  std::string ofi_provider;
  /// Where each side lives, so that two hosts can be played on one.
  struct Place {
    std::string network_namespace;  ///< empty: where the command runs
    std::string address;            ///< to listen on
  };
  Place producer_place, consumer_place;
  std::string server;  ///< "host:port" or "file:PATH"
  double timeout = 60;
};

/// What is measured, each between two meetings of all ranks; steps + limit_rounds of them.
inline constexpr int warm_up_steps = 2;
inline constexpr int limit_rounds = 7;
/// Steps that follow each other without lockstep, each when the one before has been taken; their
/// times end up in BenchSlot::moments. Only where a step is small, and each rank has a core.
inline constexpr int serial_steps = 400;
inline constexpr core::Index most_serial_bytes = 1 << 12;
/// Of a producer that computes as long as a step takes; not in lockstep.
inline constexpr int computing_steps = 20;

/// Of meetings: a stream that is stuck tells so first.
inline double patience_of(const BenchOptions& options) { return 3 * options.timeout + 30; }

/// Joins a group with that configuration.
using JoinGroup = std::function<std::unique_ptr<client::Session>(const std::string& group,
                                                                 const client::SessionConfig&)>;

/// One rank, which is bound to a core of its own. Its error becomes that of the area. In which
/// order BenchArea::meet is called, and what the slots hold then, is known to this and to
/// run_bench alone. Number of a rank in the area: producers first.
/// @return whether all went well
bool run_bench_rank(const BenchOptions& options, BenchArea& area, bool is_producer, core::Rank rank,
                    const JoinGroup& join);

}  // namespace tremula::cli
