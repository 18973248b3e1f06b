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

/// Data rates of the streams of one server.
class Rates {
public:
  /// Returns the rate between the last two reports of the ranks, e.g. "  1.50 GB/s"; empty before
  /// the second report. Ranks report the bytes that they have moved about once a second,
  /// independently of calls to this function.
  std::string text(const wire::StreamStatus& stream);

private:
  struct Report {
    std::uint64_t bytes = 0;
    double seconds = 0;
    std::string rate{};
  };
  std::map<std::pair<std::string, std::string>, Report> last_reports_;  // by stream and producer
};

/// Returns one line for each stream: its step, bytes moved, bytes per second, and which group waits
/// for which.
std::vector<std::string> watch_lines(Rates& rates, const wire::Status& now);

/// Shows watch_lines every `interval` seconds until all streams seen so far are gone, or SIGINT or
/// SIGTERM arrives. On a terminal the lines are redrawn in place; otherwise they are appended.
/// @pre block_watch_signals() was called before any thread was started
/// @throws core::Error as StatusClient::ask does
void watch(StatusClient& client, double interval, double answer_seconds);
/// Blocks SIGINT and SIGTERM, so that watch() can wait for them.
void block_watch_signals();

}  // namespace tremula::cli
