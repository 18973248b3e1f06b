// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bounds how much connections and groups may use. Pure: no sockets, no clock; time is an argument, in
// seconds since an arbitrary moment. The table of limits is in server/README.md.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "server/state/output.hpp"
#include "transport/control/authentication.hpp"

namespace tremula::server {

/// Limits. Beyond a limit, a request is refused or a connection is closed. A stranger is a connection that
/// belongs to no group.
struct Limits {
  double hello_seconds = 10;      ///< from the connection to its first message
  double stranger_seconds = 120;  ///< between two messages of a stranger
  double exchange_seconds = transport::exchange_seconds;  ///< until a connection has proved the key
  double frame_seconds = 30;             ///< from the first byte of a frame to its last
  std::size_t connections = 0;           ///< 0: as many as the limit on open files allows
  std::size_t connections_per_host = 0;  ///< sessions; 0: three quarters of all connections
  std::size_t stranger_frame_bytes = std::size_t{64} << 10;
  /// Limits on the answers that a connection has not read, in bytes: beyond `pause_bytes` its next message
  /// waits, beyond `unread_bytes` it is closed.
  std::size_t pause_bytes = std::size_t{1} << 20, unread_bytes = std::size_t{128} << 20;
  /// Bytes of all connections in frames that have not arrived completely, or have not been read completely;
  /// beyond this, the connection that find_heaviest() returns is closed.
  std::size_t buffered_bytes = std::size_t{1} << 30;
  /// Bytes that streams, links, subscriptions, shares and the like take, for one group and for all
  /// groups. A request that would exceed one of these limits is refused.
  std::size_t group_bytes = std::size_t{256} << 20, held_bytes = std::size_t{1} << 30;
  /// Bytes of the rows in one page of a status.
  std::size_t page_bytes = std::size_t{1} << 20;
  double status_rest = 3;  ///< pause after a status, in multiples of the time that it took
};

/// Memory that a group makes the server keep, counted while this object lives.
class Hold {
public:
  Hold() = default;
  Hold(std::shared_ptr<std::size_t> of_group, std::shared_ptr<std::size_t> of_all,
       std::size_t bytes)
      : of_group_(std::move(of_group)), of_all_(std::move(of_all)), bytes_(bytes) {
    *of_group_ += bytes_, *of_all_ += bytes_;
  }
  Hold(Hold&& other) noexcept { swap(other); }
  Hold& operator=(Hold&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Hold() {
    if (of_group_) *of_group_ -= bytes_, *of_all_ -= bytes_;
  }

private:
  void swap(Hold& other) noexcept {
    std::swap(of_group_, other.of_group_);
    std::swap(of_all_, other.of_all_);
    std::swap(bytes_, other.bytes_);
  }
  // Shared because the memory may outlive the group, e.g. that of a link to a producer that left.
  std::shared_ptr<std::size_t> of_group_, of_all_;
  std::size_t bytes_ = 0;
};

/// Keeps account of the connections of a server, and chooses which of them to close when there are
/// too many or they make the server buffer too much.
class Quotas {
public:
  /// @pre limits.connections > 1
  explicit Quotas(const Limits& limits);
  Quotas(const Quotas&) = delete;
  Quotas& operator=(const Quotas&) = delete;

  /// @param host  numeric address of the other side
  void add(ConnectionId id, const std::string& host, double now);
  void remove(ConnectionId id);
  /// Records that a complete message has arrived.
  void record_spoken(ConnectionId id, double now);
  /// Returns whether the connection has ever sent a message; true for a connection that is gone.
  bool has_spoken(ConnectionId id) const {
    const auto it = all_.find(id);
    return it == all_.end() || it->second.has_spoken;
  }
  /// Checks that the connection may join a group.
  /// @throws core::Error refused if the server, or the host, already has the most sessions allowed
  void check_may_join(ConnectionId id) const;
  /// Records that the connection belongs to a group from now on.
  void join(ConnectionId id);
  /// Adds `change`, which may be negative, to the bytes that the connection buffers.
  void buffer(ConnectionId id, std::ptrdiff_t change);
  /// Counts a line of the log that the connection causes, and returns whether it may be written.
  /// Each host may cause at most `log_burst` lines at once and `log_rate` a second in the long run.
  bool may_log(ConnectionId id, double now);

  /// Returns, if there are too many connections, the stranger whose last message is the oldest, on the
  /// host that has the most strangers, or on any of them if several have equally many; nullopt otherwise.
  std::optional<ConnectionId> find_surplus() const;
  /// Returns, if too much is buffered, the connection that buffers the most; nullopt otherwise. The
  /// connection is a stranger if strangers have more than half of the bytes, else a session. If several
  /// connections buffer equally much, returns the oldest.
  std::optional<ConnectionId> find_heaviest() const;

  const std::string& host(ConnectionId id) const { return all_.at(id).host->first; }
  std::size_t connections() const { return all_.size(); }
  std::size_t max_connections() const { return limits_.connections; }
  std::size_t sessions() const { return sessions_; }
  std::size_t buffered_bytes() const { return buffered_; }
  std::uint64_t lines_left_out() const { return lines_left_out_; }

  static constexpr double log_burst = 2000, log_rate = 100;

private:
  struct Host {
    std::size_t strangers = 0, sessions = 0;
    double lines = log_burst, since = 0;  // lines that it could cause at the time `since`
  };
  struct Connection {
    std::pair<const std::string, Host>* host;  // an entry of hosts_, which stays while it is used
    double last_active;  // when its last message arrived; before the first one, when it connected
    bool has_spoken = false, is_session = false;
    std::size_t buffered = 0;
  };
  std::size_t max_sessions() const;

  Limits limits_;
  std::unordered_map<ConnectionId, Connection> all_;
  std::map<std::string, Host> hosts_;
  std::size_t sessions_ = 0, buffered_ = 0;
  std::uint64_t lines_left_out_ = 0;
};

}  // namespace tremula::server
