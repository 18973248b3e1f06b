// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "core/types.hpp"
#include "transport/control/frame.hpp"
#include "transport/control/tls.hpp"

namespace tremula::transport {

class TlsStream;

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
    /// The other side has announced a frame that is longer than it may be. What follows is read and
    /// forgotten until it closes. Empty: the connection is closed.
    std::function<void(const core::Error& too_long)> on_refused = {};
    /// So many bytes more, or less, are held: of a frame that is arriving, or queued. May close this
    /// socket and others. May be empty.
    std::function<void(std::ptrdiff_t change)> on_buffered = {};
    /// The first bytes are those of TLS and none was expected, or the reverse. An answer goes out as
    /// a plain frame; what follows is read and forgotten. Empty: they are a frame.
    std::function<void(bool is_tls)> on_unlike = {};
  };
  /// The end of a payload that many connections get.
  struct Tail {
    std::shared_ptr<const core::Bytes> bytes;
    std::size_t counted = 0;  ///< of its bytes, those that on_buffered tells
  };

  /// Sets TCP_NODELAY, SO_KEEPALIVE and TCP_USER_TIMEOUT.
  FramedSocket(Socket socket, Handlers handlers);
  ~FramedSocket();

  /// As a server: the other side is to begin with the handshake of TLS. Before start().
  void expect_tls(std::shared_ptr<TlsContext> context) { context_ = std::move(context); }
  /// As a client: the handshake, before start().
  /// @param name  that the certificate of the other side must hold
  /// @param done  gets why it has failed; nothing if it has not
  /// @throws core::Error as tls_of_client
  void begin_tls(const TlsTrust& trust, const std::string& name,
                 std::function<void(const std::optional<core::Error>& failed)> done);
  /// Begins to read.
  void start();
  /// Frames that are longer are refused from now on, but for one that is arriving already.
  void limit_frames(std::size_t payload_bytes) { most_payload_bytes_ = payload_bytes; }
  /// Reads nothing more while more than so many bytes are queued.
  void pause_beyond(std::size_t queued_bytes) { pause_bytes_ = queued_bytes; }
  /// Stops reading until resume(), from within on_frame or before start(): incoming data and the end of
  /// the connection stay in the kernel.
  void hold() { held_ = true; }
  void resume();
  /// Queues one frame: the payload, and behind it the tail.
  /// @throws core::Error invalid_argument if they are too long for a frame
  void send(core::Bytes payload, Tail tail);
  void send(core::Bytes payload) { send(std::move(payload), Tail{}); }
  /// Sends what is queued, tells the other side that nothing follows, and closes when it closes
  /// too.
  void finish();
  /// Closes now; what is queued is lost.
  void close(const std::string& why);
  /// Closes now and calls no handler; needs no memory.
  void close_at_once() noexcept;

  bool is_open() const { return !closed_; }
  /// Bytes not sent yet.
  std::size_t queued_bytes() const { return queued_bytes_; }
  /// When bytes last arrived or, while nothing is read, were taken by the network; before the first
  /// ones, when the object was made.
  Clock::time_point last_heard() const { return last_heard_; }
  /// When the frame that is arriving began; empty between two frames.
  std::optional<Clock::time_point> frame_since() const { return frame_since_; }

private:
  struct Frame {
    FramePrefix prefix;
    core::Bytes payload;
    Tail tail;
    std::size_t bytes() const { return prefix.size() + payload.size() + tail_bytes(); }
    std::size_t tail_bytes() const { return tail.bytes ? tail.bytes->size() : 0; }
    std::size_t counted() const { return prefix.size() + payload.size() + tail.counted; }
  };
  /// Runs what a handler does; without memory for it, the connection is closed.
  template <class Action>
  void guard(Action&& action);
  void count(std::size_t less, std::size_t more);
  template <class Handler>
  void read_some(std::byte* to, std::size_t bytes, Handler handler);
  template <class Stream>
  void write_frame(Stream& stream);
  void read_prefix(std::size_t have);
  /// Whether the first bytes are what was expected; if not, they are dealt with.
  bool begins_as_expected();
  void take_handshake();
  void read_payload(std::size_t have, std::size_t bytes);
  void read_and_forget();
  void write_next();
  void close_after(const boost::system::error_code& error);
  /// Closes the socket; the other side sees the end even if a child of this process holds it.
  void end_connection() noexcept;

  Socket socket_;
  std::shared_ptr<TlsContext> context_;  // until TLS begins
  std::unique_ptr<TlsStream> tls_;       // over socket_; null: plain
  Handlers handlers_;
  FramePrefix prefix_{};
  core::Bytes payload_;
  std::size_t most_payload_bytes_ = max_frame_payload_bytes;
  std::deque<Frame> queue_;  // front is being written
  std::size_t queued_bytes_ = 0;
  std::size_t counted_ = 0;  // that on_buffered was told of
  std::size_t pause_bytes_ = std::numeric_limits<std::size_t>::max();
  Clock::time_point last_heard_ = Clock::now();
  std::optional<Clock::time_point> frame_since_;
  bool has_begun_ = false;  // the first bytes have come
  bool held_ = false;
  bool paused_ = false;  // held, or too many bytes queued
  bool finishing_ = false;
  bool closed_ = false;
};

}  // namespace tremula::transport
