// SPDX-License-Identifier: Apache-2.0
#include "transport/control/framed_socket.hpp"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "core/error.hpp"

namespace tremula::transport {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {
// A peer whose host is gone acknowledges nothing: the kernel gives up after this time instead of 15
// minutes.
constexpr int unacknowledged_milliseconds = 20'000;
// Memory for a frame grows with the bytes that arrive, not with the length that the peer states.
constexpr std::size_t first_read_bytes = 64 << 10;
}  // namespace

FramedSocket::FramedSocket(Socket socket, Handlers handlers)
    : socket_(std::move(socket)), handlers_(std::move(handlers)) {
  error_code ignored;  // a connection without these options still works
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.set_option(asio::socket_base::keep_alive(true), ignored);
  ::setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_milliseconds,
               sizeof unacknowledged_milliseconds);
}

void FramedSocket::start() { read_prefix(0); }

void FramedSocket::read_prefix(std::size_t have) {
  socket_.async_read_some(
      asio::buffer(prefix_.data() + have, prefix_.size() - have),
      [self = shared_from_this(), have](const error_code& error, std::size_t got) {
        if (self->closed_) return;
        if (error) return self->close_after(error);
        self->last_heard_ = Clock::now();
        if (!self->frame_since_) self->frame_since_ = self->last_heard_;
        if (have + got < frame_prefix_bytes) return self->read_prefix(have + got);
        std::size_t bytes = 0;
        try {
          bytes = frame_payload_bytes(self->prefix_, self->most_payload_bytes_);
        } catch (const core::Error& bad_length) {
          return self->close(bad_length.what());
        }
        self->payload_.clear();
        self->read_payload(0, bytes);
      });
}

void FramedSocket::read_payload(std::size_t have, std::size_t bytes) {
  if (have == bytes) {
    frame_since_.reset();
    payload_.resize(bytes);
    handlers_.on_frame(std::exchange(payload_, {}));
    if (!closed_) read_prefix(0);
    return;
  }
  if (have == payload_.size())
    payload_.resize(std::min(bytes, std::max(first_read_bytes, 2 * have)));
  socket_.async_read_some(
      asio::buffer(payload_.data() + have, payload_.size() - have),
      [self = shared_from_this(), have, bytes](const error_code& error, std::size_t got) {
        if (self->closed_) return;
        if (error) return self->close_after(error);
        self->last_heard_ = Clock::now();
        self->read_payload(have + got, bytes);
      });
}

void FramedSocket::send(core::Bytes payload) {
  if (closed_ || finishing_) return;
  const FramePrefix prefix = frame_prefix(payload.size());
  queued_bytes_ += frame_prefix_bytes + payload.size();
  queue_.push_back({prefix, std::move(payload)});
  if (queue_.size() == 1) write_next();
}

void FramedSocket::write_next() {
  const Frame& frame = queue_.front();
  const std::array buffers{asio::const_buffer(frame.prefix.data(), frame.prefix.size()),
                           asio::const_buffer(frame.payload.data(), frame.payload.size())};
  asio::async_write(socket_, buffers,
                    [self = shared_from_this()](const error_code& error, std::size_t written) {
                      if (self->closed_) return;
                      if (error) return self->close_after(error);
                      self->queued_bytes_ -= written;
                      self->queue_.pop_front();
                      if (!self->queue_.empty()) return self->write_next();
                      if (self->finishing_) self->finish();
                    });
}

void FramedSocket::finish() {
  finishing_ = true;
  if (closed_ || !queue_.empty()) return;
  error_code error;
  socket_.shutdown(Socket::shutdown_send, error);
  if (error) close_after(error);
}

void FramedSocket::close_after(const error_code& error) {
  close(error == asio::error::eof ? "the other side closed the connection" : error.message());
}

void FramedSocket::close(const std::string& why) {
  if (closed_) return;
  closed_ = true;
  error_code ignored;
  socket_.close(ignored);
  asio::post(socket_.get_executor(),
             [self = shared_from_this(), why] { self->handlers_.on_closed(why); });
}

}  // namespace tremula::transport
