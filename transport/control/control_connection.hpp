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

/// The users that may run the server at the other end of a connection within this host.
enum class TrustedUsers { all, own_and_root };

/// One TCP connection that carries frames to a server and back, served by one background thread.
/// Does not interpret the contents of the frames.
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

  /// Connects. Blocks until it is connected or `deadline` has passed. With a key, no frame of the
  /// caller is sent and none is passed to on_frame before both ends have proved that they know the
  /// key (authentication.hpp); if one end fails to, the connection ends, and refusal() returns why.
  /// With `tls`, all of this happens inside TLS.
  /// @param users  users that may run the server at the other end of a connection within this host;
  ///               unless `all`, nothing is sent before one of them has accepted the connection
  /// @throws core::Error no_server, with the address and a remedy, if the connection is refused, the
  /// host is unknown, no answer arrives in time, or another user or no user accepts in time; refused
  /// if the server is not the one that `tls` trusts, or does not speak TLS; invalid_argument if `tls`
  /// cannot be used
  ControlConnection(const HostPort& server, Handlers handlers, core::Deadline deadline,
                    const std::optional<core::Key>& key = std::nullopt, const TlsTrust& tls = {},
                    TrustedUsers users = TrustedUsers::all);
  /// Closes as close() does, within a second.
  ~ControlConnection();
  ControlConnection(const ControlConnection&) = delete;
  ControlConnection& operator=(const ControlConnection&) = delete;

  /// Returns the numeric address of this end; empty if it is loopback.
  const std::string& outward_address() const noexcept;

  /// Returns why the two ends refuse each other, e.g. different keys; nullopt if they do not. Another
  /// attempt would fail for the same reason. Set before on_closed is called. Any thread.
  std::optional<core::Error> refusal() const;

  /// Queues one frame; does nothing once the connection is closed. Never blocks. Any thread.
  /// @throws core::Error invalid_argument if the payload is too long for a frame (frame.hpp)
  void send(core::Bytes payload);
  /// Starts calling on_timer every `seconds`. Any thread.
  /// @pre seconds > 0
  void repeat_timer(double seconds);
  /// Sends the queued frames, except those that still wait for the proof of the key, which are
  /// dropped. Shuts the sending direction down, waits until the server has also closed or `deadline`
  /// has passed, and ends the thread. Idempotent.  @pre not called from a handler
  void close(core::Deadline deadline) noexcept;

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tremula::transport
