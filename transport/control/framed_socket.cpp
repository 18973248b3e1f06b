// SPDX-License-Identifier: Apache-2.0
#include "transport/control/framed_socket.hpp"

#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/write.hpp>
#include <boost/system/system_error.hpp>
#include <new>
#include <utility>

#include "core/close_on_fork.hpp"
#include "core/error.hpp"
#include "transport/control/tls_stream.hpp"

namespace tremula::transport {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {
// A peer whose host is gone acknowledges nothing: the kernel gives up after this time instead of
// after 15 minutes.
constexpr int unacknowledged_milliseconds = 20'000;
// Memory for a frame grows with the bytes that arrive, not with the length that the peer states.
constexpr std::size_t first_read_bytes = 4 << 10;
constexpr std::size_t write_bytes = 64 << 10;  // per write
}  // namespace

FramedSocket::FramedSocket(Socket socket, Handlers handlers)
    : socket_(std::move(socket)), handlers_(std::move(handlers)) {
  core::set_close_on_fork(socket_.native_handle());
  error_code ignored;  // a connection without these options still works
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.set_option(asio::socket_base::keep_alive(true), ignored);
  ::setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_milliseconds,
               sizeof unacknowledged_milliseconds);
}

FramedSocket::~FramedSocket() { end_connection(); }

void FramedSocket::end_connection() noexcept {
  error_code ignored;
  // release() takes the socket out of the reactor's epoll; close() leaves that to the system.
  const int socket = socket_.release(ignored);
  if (ignored) return;  // closed before
  core::clear_close_on_fork(socket);
  ::shutdown(socket, SHUT_RDWR);  // another process may hold it open
  ::close(socket);
}

template <class Action>
void FramedSocket::guard(Action&& action) {
  try {
    action();
  } catch (const std::bad_alloc&) {
    close("out of memory for its messages");
  } catch (const boost::system::system_error& error) {  // OpenSSL could not make its objects
    close(error.what());
  }
}

void FramedSocket::count(std::size_t less, std::size_t more) {
  if (less == more) return;
  counted_ = counted_ - less + more;
  if (handlers_.on_buffered)
    handlers_.on_buffered(static_cast<std::ptrdiff_t>(more) - static_cast<std::ptrdiff_t>(less));
}

void FramedSocket::begin_tls(const TlsTrust& trust, const std::string& name,
                             std::function<void(const std::optional<core::Error>& failed)> done) {
  tls_ = std::make_unique<TlsStream>(socket_, *tls_of_client(trust));
  expect_name(*tls_, name);
  tls_->async_handshake(TlsStream::client, [self = shared_from_this(), trust, name,
                                            done = std::move(done)](const error_code& error) {
    if (error)
      done(error_of_handshake(*self->tls_, error, trust, name));
    else
      done(std::nullopt);
  });
}

void FramedSocket::start() { read_prefix(0); }

void FramedSocket::resume() {
  held_ = false;
  last_activity_ = Clock::now();  // bytes that arrived during the pause were not read
  if (paused_ && !closed_) read_prefix(0);
}

template <class Handler>
void FramedSocket::read_some(std::byte* to, std::size_t bytes, Handler handler) {
  if (tls_)
    tls_->async_read_some(asio::buffer(to, bytes), std::move(handler));
  else
    socket_.async_read_some(asio::buffer(to, bytes), std::move(handler));
}

bool FramedSocket::begins_as_expected() {
  if (std::exchange(has_begun_, true) || !handlers_.on_tls_mismatch) return true;
  const bool found = is_tls(prefix_);
  if (found == (context_ != nullptr)) {
    if (found) take_handshake();
    return !found;
  }
  handlers_.on_tls_mismatch(found);
  read_and_discard();
  return false;
}

void FramedSocket::take_handshake() {
  tls_ = std::make_unique<TlsStream>(socket_, *std::exchange(context_, nullptr));
  count(0, tls_set_up_bytes);
  if (closed_) return;
  tls_->async_handshake(TlsStream::server, asio::buffer(prefix_),
                        [self = shared_from_this()](const error_code& error, std::size_t) {
                          if (self->closed_) return;
                          if (error) return self->close_after(error);
                          self->guard([&] {
                            self->count(tls_set_up_bytes, 0);
                            self->frame_since_.reset();
                            self->last_activity_ = Clock::now();
                            self->read_prefix(0);
                          });
                        });
}

void FramedSocket::read_prefix(std::size_t have) {
  paused_ = have == 0 && (held_ || queued_bytes_ > pause_bytes_);
  if (paused_) return;
  read_some(prefix_.data() + have, prefix_.size() - have,
            [self = shared_from_this(), have](const error_code& error, std::size_t got) {
              if (self->closed_) return;
              if (error) return self->close_after(error);
              self->guard([&] {
                self->last_activity_ = Clock::now();
                if (!self->frame_since_) self->frame_since_ = self->last_activity_;
                if (have + got < frame_prefix_bytes) return self->read_prefix(have + got);
                if (!self->begins_as_expected()) return;
                try {
                  const std::size_t bytes =
                      frame_payload_bytes(self->prefix_, self->most_payload_bytes_);
                  self->payload_.clear();
                  return self->read_payload(0, bytes);
                } catch (const core::Error& too_long) {
                  if (!self->handlers_.on_refused) return self->close(too_long.what());
                  self->handlers_.on_refused(too_long);
                }
                self->read_and_discard();
              });
            });
}

void FramedSocket::read_payload(std::size_t have, std::size_t bytes) {
  if (have == bytes) {
    frame_since_.reset();
    count(payload_.size(), 0);
    payload_.resize(bytes);
    handlers_.on_frame(std::exchange(payload_, {}));
    if (!closed_) read_prefix(0);
    return;
  }
  if (have == payload_.size()) {
    payload_.resize(std::min(bytes, std::max(first_read_bytes, 2 * have)));
    count(have, payload_.size());
    if (closed_) return;
  }
  read_some(payload_.data() + have, payload_.size() - have,
            [self = shared_from_this(), have, bytes](const error_code& error, std::size_t got) {
              if (self->closed_) return;
              if (error) return self->close_after(error);
              self->last_activity_ = Clock::now();
              self->guard([&] { self->read_payload(have + got, bytes); });
            });
}

void FramedSocket::read_and_discard() {
  if (closed_) return;
  payload_.resize(first_read_bytes);
  read_some(payload_.data(), payload_.size(),
            [self = shared_from_this()](const error_code& error, std::size_t) {
              if (self->closed_) return;
              if (error) return self->close_after(error);
              self->guard([&] { self->read_and_discard(); });
            });
}

void FramedSocket::send(core::Bytes payload, Tail tail) {
  if (closed_ || finishing_) return;
  const std::size_t tail_bytes = tail.bytes ? tail.bytes->size() : 0;
  const FramePrefix prefix = frame_prefix(payload.size() + tail_bytes);
  const Frame& frame = queue_.emplace_back(Frame{prefix, std::move(payload), std::move(tail)});
  queued_bytes_ += frame.bytes();
  const bool is_first = queue_.size() == 1;
  count(0, frame.counted());
  if (is_first && !closed_) write_next();
}

void FramedSocket::write_next() {
  if (tls_)
    write_frame(*tls_);
  else
    write_frame(socket_);
}

template <class Stream>
void FramedSocket::write_frame(Stream& stream) {
  const Frame& frame = queue_.front();
  const std::array buffers{asio::const_buffer(frame.prefix.data(), frame.prefix.size()),
                           asio::const_buffer(frame.payload.data(), frame.payload.size()),
                           asio::const_buffer(frame.tail.bytes ? frame.tail.bytes->data() : nullptr,
                                              frame.tail_bytes())};
  const auto progress = [this](const error_code& error, std::size_t done) -> std::size_t {
    if (paused_ && done > 0) last_activity_ = Clock::now();  // the other side reads
    return error ? 0 : write_bytes;
  };
  asio::async_write(stream, buffers, progress,
                    [self = shared_from_this()](const error_code& error, std::size_t written) {
                      if (self->closed_) return;
                      if (error) return self->close_after(error);
                      self->guard([&] {
                        self->queued_bytes_ -= written;
                        const std::size_t counted = self->queue_.front().counted();
                        self->queue_.pop_front();
                        self->count(counted, 0);
                        if (self->closed_) return;
                        if (self->paused_) self->read_prefix(0);
                        if (!self->queue_.empty()) return self->write_next();
                        if (self->finishing_) self->finish();
                      });
                    });
}

void FramedSocket::finish() {
  finishing_ = true;
  if (closed_ || !queue_.empty()) return;
  // A frame states its length, so a truncated one is noticed even without TLS's closing message.
  error_code error;
  socket_.shutdown(Socket::shutdown_send, error);
  if (error) close_after(error);
}

void FramedSocket::close_after(const error_code& error) {
  const bool is_end = error == asio::error::eof || error == asio::ssl::error::stream_truncated;
  close(is_end ? "the other side closed the connection" : error.message());
}

void FramedSocket::close_at_once() noexcept {
  closed_ = true;
  end_connection();
}

void FramedSocket::close(const std::string& why) {
  if (closed_) return;
  closed_ = true;
  end_connection();
  count(counted_, 0);
  asio::post(socket_.get_executor(),
             [self = shared_from_this(), why] { self->handlers_.on_closed(why); });
}

}  // namespace tremula::transport
