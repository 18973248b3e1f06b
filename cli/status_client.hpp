// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/deadline.hpp"
#include "proto/control.pb.h"
#include "transport/control/control_connection.hpp"
#include "transport/control/reach_server.hpp"

namespace tremula::cli {

/// Appends the next page of a status to `all`.
/// @param goes_on  whether the page begins with further consumers of the last stream of `all`
void append_page(wire::Status& all, wire::Status page, bool goes_on);

/// Returns whether `place` comes after `from` in the order in which a server lists its status.
bool is_beyond(const wire::StatusPlace& place, const wire::StatusPlace& from);

/// Requests the status of one server, any number of times.
class StatusClient {
public:
  /// Connects to the server.
  /// @param waits  whether to wait for a server that is not running yet, and to report this on
  /// standard error
  /// @throws core::Error no_server; the error names the address and where it was given, and reports
  /// if a port file is stale
  StatusClient(const transport::ServerName& server, core::Deadline deadline, bool waits);
  /// Requests all pages and joins them. Blocks.
  /// @param with_ranks  whether to include the counters of every rank
  /// @throws core::Error no_server if the connection to the server is lost, timed_out, protocol
  wire::Status ask(core::Deadline deadline, bool with_ranks = false);
  /// Requests a list of what each rank waits for. Blocks.
  /// @throws core::Error as ask() does
  std::vector<wire::WaitStatus> ask_waits(core::Deadline deadline);

private:
  wire::ToClient ask_page(core::Deadline deadline, const wire::StatusRequest& request);
  void on_frame(core::BytesView payload);

  std::string name_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t request_ = 0;
  std::optional<wire::ToClient> reply_;
  std::optional<std::string> closed_;
  std::unique_ptr<transport::ControlConnection>
      connection_;  // the last member: its thread uses those above
};

}  // namespace tremula::cli
