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

/// The users that may run the server of a connection inside this host.
enum class TrustedUsers { all, own_and_root };

/// One TCP connection that carries frames to a server and back, served by one background thread.
/// Knows nothing of what the frames say.
///
/// The handlers are called on the background thread, one at a time. An exception that leaves
/// on_frame or on_timer closes the connection with its text. No handler is called once close() has
/// returned.
class ControlConnection {
public:
  struct Handlers {
    std::function<void(core::Bytes payload)> on_frame;
    /// Called at most once, and never because of close(). May be empty. Must not throw.
    std::function<void(const std::string& why)> on_closed;
    std::function<void()> on_timer;  ///< see repeat_timer; may be empty
  };

  /// Connects. Blocks until connected or `deadline`. With a key, nothing that is sent leaves and no
  /// frame is handed on before both ends have proved that they know it (authentication.hpp); if one
  /// does not, the connection ends, and refusal() tells why. With `tls`, all of that is inside TLS.
  /// @param users  who may run the server at the other end of a connection inside this host; unless `all`, nothing is
  ///               sent before one of them has accepted the connection
  /// @throws core::Error no_server naming the address and what to do: refused, unknown host, no
  /// answer in time, accepted by another user or by none in time. refused: the server is not the one
  /// that `tls` trusts, or speaks no TLS. invalid_argument: of the file of `tls`
  ControlConnection(const HostPort& server, Handlers handlers, core::Deadline deadline,
                    const std::optional<core::Key>& key = std::nullopt, const TlsTrust& tls = {},
                    TrustedUsers users = TrustedUsers::all);
  /// As close(), for a second at most.
  ~ControlConnection();
  ControlConnection(const ControlConnection&) = delete;
  ControlConnection& operator=(const ControlConnection&) = delete;

  /// Numeric address of this end; empty if it is loopback.
  const std::string& outward_address() const noexcept;

  /// Why the keys of the two ends do not let them speak to each other: a reason for which another
  /// attempt would fail, too. Set before on_closed is called. Any thread.
  std::optional<core::Error> refusal() const;

  /// Queues one frame; after the connection was closed it does nothing. Never blocks. Any thread.
  /// @throws core::Error invalid_argument if the payload is too long for a frame (frame.hpp)
  void send(core::Bytes payload);
  /// Calls on_timer every `seconds` from now on. Any thread.
  /// @pre seconds > 0
  void repeat_timer(double seconds);
  /// Sends what is queued, tells the server that nothing follows, waits until it has closed too or
  /// `deadline`, and ends the thread. Idempotent.  @pre called from no handler
  void close(core::Deadline deadline) noexcept;

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tremula::transport
