// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cli/status_client.hpp"
#include "proto/control.pb.h"

namespace tremula::cli {

/// One line for each stream: step, bytes moved, bytes per second since `before`, which group waits
/// for which.
/// @param before  an earlier status of the same server; empty = the rate is not known yet
std::vector<std::string> watch_lines(const std::optional<wire::Status>& before,
                                     const wire::Status& now);

/// Shows watch_lines every `interval` seconds until streams were seen and none is left, or SIGINT
/// or SIGTERM comes. On a terminal the lines are redrawn in place, elsewhere they follow each
/// other.
/// @pre block_watch_signals() was called before any thread was started
/// @throws core::Error as StatusClient::ask
void watch(StatusClient& client, double interval, double answer_seconds);
/// Blocks SIGINT and SIGTERM, so that watch() finds them.
void block_watch_signals();

}  // namespace tremula::cli
