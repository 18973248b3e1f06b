// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/types.hpp"
#include "transport/control/frame.hpp"

namespace tremula::transport {

/// One open TCP connection that carries frames; the common half of client and server. Lives on its
/// io_context: all calls come from the thread that runs it, all handlers are called there, never
/// from inside a call.
///
/// Held by shared_ptr because the operations that Asio has in flight keep it alive until they have
/// ended.
class FramedSocket : public std::enable_shared_from_this<FramedSocket> {
public:
  using Socket = boost::asio::ip::tcp::socket;
  using Clock = std::chrono::steady_clock;
  struct Handlers {
    std::function<void(core::Bytes payload)> on_frame;
    /// Called once when the connection has ended, for any reason; it is closed by then.
    std::function<void(const std::string& why)> on_closed;
  };

  /// Sets TCP_NODELAY, SO_KEEPALIVE and TCP_USER_TIMEOUT.
  FramedSocket(Socket socket, Handlers handlers);

  /// Frames that are longer are refused from now on, but for one that is arriving already.
  void limit_frames(std::size_t payload_bytes) { most_payload_bytes_ = payload_bytes; }
  /// Begins to read.
  void start();
  /// Queues one frame.  @throws core::Error invalid_argument if the payload is too long for a frame
  void send(core::Bytes payload);
  /// Sends what is queued, tells the other side that nothing follows, and closes when it closes
  /// too.
  void finish();
  /// Closes now; what is queued is lost.
  void close(const std::string& why);

  bool is_open() const { return !closed_; }
  /// Bytes not sent yet.
  std::size_t queued_bytes() const { return queued_bytes_; }
  /// When bytes last arrived; before the first ones, when the object was made.
  Clock::time_point last_heard() const { return last_heard_; }
  /// When the frame that is arriving began; empty between two frames.
  std::optional<Clock::time_point> frame_since() const { return frame_since_; }

private:
  struct Frame {
    FramePrefix prefix;
    core::Bytes payload;
  };
  void read_prefix(std::size_t have);
  void read_payload(std::size_t have, std::size_t bytes);
  void write_next();
  void close_after(const boost::system::error_code& error);

  Socket socket_;
  Handlers handlers_;
  FramePrefix prefix_{};
  core::Bytes payload_;
  std::size_t most_payload_bytes_ = max_frame_payload_bytes;
  std::deque<Frame> queue_;  // front is being written
  std::size_t queued_bytes_ = 0;
  Clock::time_point last_heard_ = Clock::now();
  std::optional<Clock::time_point> frame_since_;
  bool finishing_ = false;
  bool closed_ = false;
};

}  // namespace tremula::transport
