// SPDX-License-Identifier: Apache-2.0
#pragma once
// The connection of a session to the server.
#include <functional>
#include <memory>
#include <string>

#include "core/deadline.hpp"
#include "core/types.hpp"
#include "transport/control/address.hpp"

namespace tremula::transport {

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

  /// Connects. Blocks until connected or `deadline`.
  /// @throws core::Error no_server naming the address and what to do: refused, unknown host, no
  /// answer in time
  ControlConnection(const HostPort& server, Handlers handlers, core::Deadline deadline);
  /// As close(), for a second at most.
  ~ControlConnection();
  ControlConnection(const ControlConnection&) = delete;
  ControlConnection& operator=(const ControlConnection&) = delete;

  /// Numeric address of this end; empty if it is loopback.
  const std::string& outward_address() const noexcept;

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
