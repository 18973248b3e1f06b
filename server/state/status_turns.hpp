// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decides which request for a status is served next, and when. A status is the only answer that
// takes long and that any client may request again and again: statuses get a bounded share of the
// server's thread, and requests beyond it wait. Pure: no sockets, no clock; time is an argument, in
// seconds since any moment.
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>

#include "proto/control.pb.h"
#include "server/state/groups.hpp"
#include "server/state/output.hpp"

namespace tremula::server {

/// Serves owners in turn, and the requests of one owner in their order.
class StatusTurns {
public:
  /// @param rest  seconds of pause for each second that a status has taken: 3 leaves a quarter of the
  ///              thread to all statuses
  explicit StatusTurns(double rest) : rest_(rest) {}

  /// Returns whether a request that arrives now is served at once; if not, pass it to add().
  bool is_free(double now) const { return turns_.empty() && now >= due_; }
  /// Keeps a request that waits, without fields that this version does not know.
  /// @pre no request of the connection waits
  void add(Owner owner, ConnectionId from, const wire::ToServer& message);
  /// Removes the waiting request of a closed connection.
  void remove(ConnectionId from);
  /// A request that has waited.
  struct Request {
    ConnectionId from;
    wire::ToServer message;
  };
  /// Takes the request whose turn it is; nullopt if it is too early, or none waits.
  std::optional<Request> next(double now);
  /// Records that a status was served from `begin` to `end`.
  void record(double begin, double end) { due_ = end + rest_ * (end - begin); }

  bool is_empty() const { return turns_.empty(); }
  /// Returns whether a request of the connection waits.
  bool has(ConnectionId from) const { return turns_.contains(from); }
  /// Returns when the next one may be served.
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
