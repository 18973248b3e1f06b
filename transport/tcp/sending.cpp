// SPDX-License-Identifier: Apache-2.0
// The half of a peer that writes.
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "transport/tcp/peer.hpp"

namespace tremula::transport::tcp {

namespace {

/// The most bytes of small messages that are copied together before they are written.
constexpr std::size_t most_copied_together = std::size_t{64} << 10;

void append(Bytes& to, const void* from, std::size_t bytes) {
  const auto* const begin = static_cast<const std::byte*>(from);
  to.insert(to.end(), begin, begin + bytes);
}

}  // namespace

void Peer::add(const Frame& frame) {
  if (before_.size() + after_.size() > limits_.unwritten)
    throw core::Error(
        core::Errc::protocol,
        "it broke the protocol: expected it to read the data that it requests, found " +
            std::to_string(limits_.unwritten) + " bytes waiting for it");
  append(chunk_.left == 0 ? before_ : after_, &frame, sizeof frame);
}

void Peer::fill() {
  using State = Operation::State;
  if (written_ >= most_copied_together) {
    before_.erase(before_.begin(), before_.begin() + static_cast<std::ptrdiff_t>(written_));
    written_ = 0;
  }
  while (chunk_.left == 0 && !queued_.is_empty() &&
         before_.size() - written_ < most_copied_together) {
    Operation& send = *queued_.first();
    const bool is_eager = send.room <= longest_eager && cost_of(send.room) <= credit_;
    add({.kind = is_eager ? FrameKind::message : FrameKind::announce,
         .bytes = send.room,
         .tag = send.tag,
         .send = send.id()});
    queued_.pop();
    if (!is_eager) {
      send.state = State::announced;
      continue;
    }
    credit_ -= cost_of(send.room);
    if (send.room <= longest_copied) {
      append(before_, send.data, send.room);
      send.finish(send.room);
    } else {
      send.state = State::writing;
      chunk_ = {send.data, send.room, &send};
    }
  }
  if (chunk_.left > 0 || streaming_.is_empty()) return;
  Operation& next = *streaming_.first();
  const std::size_t bytes = std::min(chunk_bytes, next.room - next.bytes);
  add({.kind = FrameKind::data, .bytes = bytes, .room = next.theirs});
  streaming_.pop();
  chunk_ = {next.data + next.bytes, bytes, &next};
  next.bytes += bytes;
}

void Peer::flush() {
  for (std::size_t turn = 0; socket_ && !awaits_room_ && !is_broken_;) {
    fill();
    std::array<iovec, 3> parts{{{before_.data() + written_, before_.size() - written_},
                                {const_cast<std::byte*>(chunk_.data), chunk_.left},
                                {after_.data(), after_.size()}}};
    const std::size_t all = parts[0].iov_len + parts[1].iov_len + parts[2].iov_len;
    if (all == 0) return await_room(false);
    if (turn >= most_bytes_per_turn) return await_room(true);
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const auto count = sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return await_room(true);
    if (count < 0) {
      // Bytes that the peer sent before it left are still to be read; the loss is reported once
      // they have been read.
      is_broken_ = true;
      return;
    }
    turn += static_cast<std::size_t>(count);
    count_written(static_cast<std::size_t>(count));
  }
}

void Peer::count_written(std::size_t bytes) {
  const std::size_t first = std::min(bytes, before_.size() - written_);
  written_ += first;
  bytes -= first;
  if (written_ < before_.size()) return;
  before_.clear();
  written_ = 0;
  const std::size_t second = std::min(bytes, chunk_.left);
  chunk_.data += second;
  chunk_.left -= second;
  if (chunk_.left > 0) return;
  if (chunk_.operation != nullptr) end_chunk();
  std::swap(before_, after_);
  written_ = bytes - second;
  if (written_ < before_.size()) return;
  before_.clear();
  written_ = 0;
}

void Peer::end_chunk() {
  using Kind = Operation::Kind;
  using State = Operation::State;
  Operation& operation = *std::exchange(chunk_, {}).operation;
  if (operation.state == State::writing || operation.state == State::ending) {
    operation.finish(operation.room);
  } else if (operation.bytes < operation.room) {
    streaming_.push(operation);
  } else if (operation.kind == Kind::serve) {
    operation.finish(operation.room);
    release_serve(operation);
  } else {
    operation.state = State::sent;
  }
}

void Peer::await_room(bool is_awaited) noexcept {
  awaits_room_ = is_awaited;
  if (is_armed_ == is_awaited) return;
  is_armed_ = is_awaited;
  epoll_event event{.events = is_armed_ ? EPOLLIN | EPOLLOUT : EPOLLIN,
                    .data = {.u64 = core::at(rank_)}};
  epoll_ctl(epoll_, EPOLL_CTL_MOD, socket_.get(), &event);
}

}  // namespace tremula::transport::tcp
