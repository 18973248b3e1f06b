// SPDX-License-Identifier: Apache-2.0
#pragma once
// The connection of a session to the server.
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/deadline.hpp"
#include "core/error.hpp"
#include "core/key.hpp"
#include "core/types.hpp"
#include "transport/control/address.hpp"
#include "transport/control/tls.hpp"

namespace tremula::transport {

/// The users that may run a server to which a connection inside this host leads.
enum class TrustedUsers { all, own_and_root };

/// One TCP connection that carries frames to a server and back, served by one background thread.
/// Knows nothing of the contents of the frames.
///
/// The handlers are called on the background thread, one at a time. An exception that leaves
/// on_frame or on_timer closes the connection with its text. No handler is called once close() has
/// returned.
class ControlConnection {
public:
  struct Handlers {
    std::function<void(core::Bytes payload)> on_frame;
    /// Called at most once, and never because of close(). May be empty. Must not throw.
    std::function<void(const std::string& why)> on_closed = {};
    std::function<void()> on_timer = {};  ///< see repeat_timer; may be empty
  };

  /// Connects. Blocks until connected or `deadline`. With a key, no frame of the caller is sent and
  /// none is handed to on_frame before both ends have proved that they know the key
  /// (authentication.hpp); if one does not, the connection ends, and refusal() returns why. With
  /// `tls`, all of that is inside TLS.
  /// @param users  users that may run the server at the other end of a connection inside this host;
  ///               unless `all`, nothing is sent before one of them has accepted the connection
  /// @throws core::Error no_server naming the address and what to do: refused, unknown host, no
  /// answer in time, accepted by another user or by none in time. refused: the server is not the
  /// one that `tls` trusts, or does not speak TLS. invalid_argument: `tls` cannot be used
  ControlConnection(const HostPort& server, Handlers handlers, core::Deadline deadline,
                    const std::optional<core::Key>& key = std::nullopt, const TlsTrust& tls = {},
                    TrustedUsers users = TrustedUsers::all);
  /// Closes as close() does, within a second.
  ~ControlConnection();
  ControlConnection(const ControlConnection&) = delete;
  ControlConnection& operator=(const ControlConnection&) = delete;

  /// Returns the numeric address of this end; empty if it is loopback.
  const std::string& outward_address() const noexcept;

  /// Returns why the two ends refuse each other, e.g. different keys: a reason for which another
  /// attempt would also fail; nullopt if they do not. Set before on_closed is called. Any thread.
  std::optional<core::Error> refusal() const;

  /// Queues one frame; does nothing once the connection is closed. Never blocks. Any thread.
  /// @throws core::Error invalid_argument if the payload is too long for a frame (frame.hpp)
  void send(core::Bytes payload);
  /// Starts calling on_timer every `seconds`. Any thread.
  /// @pre seconds > 0
  void repeat_timer(double seconds);
  /// Sends the queued frames, shuts the sending direction down, waits until the server has also
  /// closed or `deadline`, and ends the thread. Idempotent.  @pre not called from a handler
  void close(core::Deadline deadline) noexcept;

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tremula::transport
