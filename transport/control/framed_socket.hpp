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

/// One open TCP connection that carries frames; the common half of client and server. It is bound to
/// its io_context: only the thread that runs the context may call it, all handlers are called on that
/// thread, and only on_buffered is called from inside a call.
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
    /// Called when the other side has announced a frame that is longer than allowed. Bytes that
    /// follow are read and discarded until that side closes. If empty, the connection is closed instead.
    std::function<void(const core::Error& too_long)> on_refused = {};
    /// Called with the change in the number of bytes held for the frame that is arriving and for
    /// queued frames. May close this socket and others. May be empty.
    std::function<void(std::ptrdiff_t change)> on_buffered = {};
    /// Called when the connection begins with TLS although none was expected, or the reverse. Any
    /// answer is sent as a plain frame; bytes that follow are read and discarded. If empty, the
    /// first bytes are treated as a frame.
    std::function<void(bool is_tls)> on_tls_mismatch = {};
  };
  /// The end of a payload, shared by all connections that send it.
  struct Tail {
    std::shared_ptr<const core::Bytes> bytes;
    std::size_t counted = 0;  ///< how many of its bytes on_buffered reports
  };

  /// Sets TCP_NODELAY, SO_KEEPALIVE and TCP_USER_TIMEOUT.
  FramedSocket(Socket socket, Handlers handlers);
  ~FramedSocket();

  /// Makes a server's socket expect a TLS handshake. Must be called before start().
  void expect_tls(std::shared_ptr<TlsContext> context) { context_ = std::move(context); }
  /// Begins the TLS handshake of a client. Must be called before start().
  /// @param name  name that the certificate of the other side must hold
  /// @param done  called with the reason if the handshake has failed, with nullopt if it has
  /// succeeded
  /// @throws core::Error as tls_of_client and expect_name
  void begin_tls(const TlsTrust& trust, const std::string& name,
                 std::function<void(const std::optional<core::Error>& failed)> done);
  /// Begins to read.
  void start();
  /// Makes the socket refuse frames whose payloads are longer than this, except one that is already
  /// arriving.
  void limit_frames(std::size_t payload_bytes) { most_payload_bytes_ = payload_bytes; }
  /// Stops reading while more than `queued_bytes` bytes are queued.
  void pause_beyond(std::size_t queued_bytes) { pause_bytes_ = queued_bytes; }
  /// Stops reading until resume(). Must be called within on_frame or before start(). Incoming data
  /// and the end of the connection stay in the kernel.
  void hold() { held_ = true; }
  void resume();
  /// Queues one frame: the payload, followed by the tail.
  /// @throws core::Error invalid_argument if they are too long for a frame
  void send(core::Bytes payload, Tail tail);
  void send(core::Bytes payload) { send(std::move(payload), Tail{}); }
  /// Sends the queued frames, shuts the sending direction down, and closes when the other side
  /// closes.
  void finish();
  /// Closes now; queued frames are lost.
  void close(const std::string& why);
  /// Closes now and calls no handler; needs no memory.
  void close_at_once() noexcept;

  bool is_open() const { return !closed_; }
  /// Returns how many bytes have not been sent yet.
  std::size_t queued_bytes() const { return queued_bytes_; }
  /// Returns when bytes last arrived or, while reading is paused, when the network last accepted
  /// some; initially, when the object was created.
  Clock::time_point last_activity() const { return last_activity_; }
  /// Returns when the frame that is arriving began; nullopt between two frames.
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
  /// Runs the body of a handler; closes the connection if memory runs out or OpenSSL fails.
  template <class Action>
  void guard(Action&& action);
  void count(std::size_t less, std::size_t more);
  template <class Handler>
  void read_some(std::byte* to, std::size_t bytes, Handler handler);
  template <class Stream>
  void write_frame(Stream& stream);
  void read_prefix(std::size_t have);
  /// Returns whether the first bytes are those of a plain frame; otherwise begins the TLS handshake
  /// or calls on_tls_mismatch.
  bool begins_as_expected();
  void take_handshake();
  void read_payload(std::size_t have, std::size_t bytes);
  void read_and_discard();
  void write_next();
  void close_after(const boost::system::error_code& error);
  /// Closes the socket; the other side sees the end even if a child of this process still holds it.
  void end_connection() noexcept;

  Socket socket_;
  std::shared_ptr<TlsContext> context_;  // until the TLS handshake begins
  std::unique_ptr<TlsStream> tls_;       // over socket_; null if plain
  Handlers handlers_;
  FramePrefix prefix_{};
  core::Bytes payload_;
  std::size_t most_payload_bytes_ = max_frame_payload_bytes;
  std::deque<Frame> queue_;  // front is being written
  std::size_t queued_bytes_ = 0;
  std::size_t counted_ = 0;  // bytes that on_buffered has reported
  std::size_t pause_bytes_ = std::numeric_limits<std::size_t>::max();
  Clock::time_point last_activity_ = Clock::now();
  std::optional<Clock::time_point> frame_since_;
  bool has_begun_ = false;  // the first bytes have arrived
  bool held_ = false;
  bool paused_ = false;  // held, or too many bytes queued
  bool finishing_ = false;
  bool closed_ = false;
};

}  // namespace tremula::transport
