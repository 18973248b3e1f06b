// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cli/status_client.hpp"
#include "proto/control.pb.h"

namespace tremula::cli {

/// How fast the streams of one server move.
class Rates {
public:
  /// "  1.50 GB/s", between the last two moments at which the ranks have told what they have moved:
  /// they do so about once a second, whenever one looks. Empty until there were two.
  std::string text(const wire::StreamStatus& stream);

private:
  struct Told {
    std::uint64_t bytes = 0;
    double seconds = 0;
    std::string rate{};
  };
  std::map<std::pair<std::string, std::string>, Told> told_;  // by stream and producer
};

/// One line for each stream: step, bytes moved, bytes per second, which group waits for which.
std::vector<std::string> watch_lines(Rates& rates, const wire::Status& now);

/// Shows watch_lines every `interval` seconds until streams were seen and none is left, or SIGINT
/// or SIGTERM comes. On a terminal the lines are redrawn in place, elsewhere they follow each
/// other.
/// @pre block_watch_signals() was called before any thread was started
/// @throws core::Error as StatusClient::ask
void watch(StatusClient& client, double interval, double answer_seconds);
/// Blocks SIGINT and SIGTERM, so that watch() finds them.
void block_watch_signals();

}  // namespace tremula::cli
