// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decides which request for a status is served next, and when. A status is the only answer that takes long
// and that any client may request repeatedly. So statuses get a bounded share of the server's thread, and
// requests beyond that share wait. Pure: no sockets, no clock; time is an argument, in seconds since an
// arbitrary moment.
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>

#include "proto/control.pb.h"
#include "server/state/groups.hpp"
#include "server/state/output.hpp"

namespace tremula::server {

/// Serves owners in turn, and the requests of one owner in the order of arrival.
class StatusTurns {
public:
  /// @param rest  seconds of pause for each second that a status has taken: 3 gives statuses a quarter of
  ///              the thread
  explicit StatusTurns(double rest) : rest_(rest) {}

  /// Returns whether a request that arrives now is served immediately; otherwise, pass it to add().
  bool is_free(double now) const { return turns_.empty() && now >= due_; }
  /// Queues a request, without fields that this version does not know.
  /// @pre no request of the connection is waiting
  void add(Owner owner, ConnectionId from, const wire::ToServer& message);
  /// Removes the waiting request of a closed connection.
  void remove(ConnectionId from);
  /// A request that has waited.
  struct Request {
    ConnectionId from;
    wire::ToServer message;
  };
  /// Takes the request whose turn it is; nullopt if it is too early or no request is waiting.
  std::optional<Request> next(double now);
  /// Records that a status was served from `begin` to `end`.
  void record(double begin, double end) { due_ = end + rest_ * (end - begin); }

  bool is_empty() const { return turns_.empty(); }
  /// Returns whether a request of the connection is waiting.
  bool has(ConnectionId from) const { return turns_.contains(from); }
  /// Returns when the next request may be served.
  double due() const { return due_; }

private:
  using Ticket = std::uint64_t;
  struct Turn {
    Owner owner;
    Ticket ticket;
    wire::ToServer message;
  };
  double rest_, due_ = 0;
  Ticket last_ticket_ = 0;
  std::map<Owner, std::map<Ticket, ConnectionId>> waiting_;  // no owner without a request
  std::unordered_map<ConnectionId, Turn> turns_;             // the same requests, by connection
  std::optional<Owner> last_owner_;                          // the owner served last
};

}  // namespace tremula::server
