// SPDX-License-Identifier: Apache-2.0
// The half of a peer that reads. The peer is a member of the link; its frames are still checked.
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/tcp/peer.hpp"

namespace tremula::transport::tcp {

using core::Errc, core::Error;

namespace {

[[noreturn]] void refuse(const char* expected, std::uint64_t found) {
  throw Error(Errc::protocol, std::string("it broke the protocol: expected ") + expected +
                                  ", found " + std::to_string(found));
}

}  // namespace

void Peer::read() noexcept {
  try {
    for (std::size_t turn = 0; socket_ && turn < most_bytes_per_turn;) {
      // The input is empty while a payload is read. After a long payload, only the next frame is
      // read into the input, so that no byte of the payload after that is copied.
      const bool is_wanted = payload_.to != nullptr;
      std::array<iovec, 2> parts{};
      if (payload_.left > 0 && is_wanted) {
        parts[0] = {payload_.to, payload_.left};
        parts[1] = {input_.data(), payload_.left > input_.size() ? sizeof(Frame) : input_.size()};
      } else if (payload_.left > 0) {
        parts[0] = {input_.data(), std::min(payload_.left, input_.size())};
      } else {
        parts[1] = {input_.data() + input_end_, input_.size() - input_end_};
      }
      msghdr message{};
      message.msg_iov = parts.data();
      message.msg_iovlen = parts.size();
      const auto count = recvmsg(socket_.get(), &message, MSG_DONTWAIT);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (count < 0) return lose(Errc::peer_lost, system_text(errno));
      if (count == 0) return lose(Errc::peer_lost, "it has closed its end");
      const auto bytes = static_cast<std::size_t>(count);
      const std::size_t room = parts[0].iov_len + parts[1].iov_len;
      const std::size_t first = std::min(bytes, parts[0].iov_len);
      input_end_ += bytes - first;
      if (first > 0) count_payload(first);
      take_input();
      if (bytes < room) return;
      turn += bytes;
    }
  } catch (const std::exception& error) {
    lose(Errc::transport, error.what());
  }
}

void Peer::take_input() {
  while (socket_) {
    const std::size_t there = input_end_ - input_begin_;
    if (payload_.left > 0) {
      const std::size_t bytes = std::min(there, payload_.left);
      if (bytes == 0) break;
      if (payload_.to != nullptr) std::memcpy(payload_.to, input_.data() + input_begin_, bytes);
      input_begin_ += bytes;
      count_payload(bytes);
      continue;
    }
    if (there < sizeof(Frame)) break;
    Frame frame;
    std::memcpy(&frame, input_.data() + input_begin_, sizeof frame);
    input_begin_ += sizeof frame;
    take(frame);
  }
  if (!socket_) return;
  std::memmove(input_.data(), input_.data() + input_begin_, input_end_ - input_begin_);
  input_end_ -= std::exchange(input_begin_, 0);
}

void Peer::take(const Frame& frame) {
  using State = Operation::State;
  switch (frame.kind) {
    case FrameKind::message:
    case FrameKind::announce:
      return take_message(frame);
    case FrameKind::pull:
      return answer_pull(frame);
    case FrameKind::fetch:
      return answer_fetch(frame);
    case FrameKind::data: {
      Operation* const room = own_operation(frame.room, false);
      if (room == nullptr) return begin_payload({.left = frame.bytes, .bytes = frame.bytes});
      if (frame.bytes > room->expected - room->bytes)
        refuse("no more data than requested", frame.bytes);
      return begin_payload({.to = room->data + room->bytes,
                            .left = frame.bytes,
                            .bytes = frame.bytes,
                            .operation = room});
    }
    case FrameKind::done: {
      Operation* const send = own_operation(frame.send, true);
      if (send == nullptr) return;
      // Its receive was given up, and the next one is too short.
      if (send->state == State::streaming) {
        if (chunk_.operation == send) {
          send->state = State::ending;  // the rest of the chunk is still to be written
          return;
        }
        streaming_.remove(*send);
        return send->finish(send->room);
      }
      if (send->state != State::announced && send->state != State::sent)
        refuse("an answer to an announced or sent message, in state",
               static_cast<std::uint64_t>(send->state));
      return send->finish(send->room);
    }
    case FrameKind::gone:
      if (Operation* const room = own_operation(frame.room, false)) {
        room->state = State::failed;
        room->why = room->kind == Operation::Kind::read ? "the memory no longer exists"
                                                        : "the peer has given up its send";
      }
      return;
    case FrameKind::credit:
      if (frame.bytes > window_bytes - std::min(credit_, window_bytes))
        refuse("no more credit than was used", frame.bytes);
      credit_ += frame.bytes;
      return;
  }
  refuse("a frame", static_cast<std::uint64_t>(frame.kind));
}

Operation* Peer::own_operation(std::uint64_t id, bool is_send) {
  Operation* const found = pool_.find(id);
  if (found == nullptr || found->peer != this) return nullptr;
  using Kind = Operation::Kind;
  if (is_send) return found->kind == Kind::send ? found : nullptr;
  return found->state == Operation::State::pulling ? found : nullptr;
}

void Peer::take_message(const Frame& frame) {
  using State = Operation::State;
  const std::uint64_t number = ++arrived_;
  if (frame.kind == FrameKind::announce) {
    if (++announced_ > limits_.announced) refuse("fewer unmatched messages", announced_);
    Arrival& arrival = pool_.arrival();
    arrival.number = number;
    arrival.tag = frame.tag;
    arrival.bytes = frame.bytes;
    arrival.send = frame.send;
    arrival.is_announced = true;
    return deliver(arrival);
  }
  if (frame.bytes > longest_eager) refuse("a short message", frame.bytes);
  const std::uint64_t cost = cost_of(frame.bytes);
  if (cost > granted_) refuse("a message for which there is credit", frame.bytes);
  granted_ -= cost;
  Operation* const receive =
      posted_.take([&](const Operation& posted) { return posted.tag == frame.tag; });
  if (receive == nullptr) {
    Arrival& arrival = pool_.arrival();
    arrival.number = number;
    arrival.tag = frame.tag;
    arrival.bytes = frame.bytes;
    arrival.is_announced = false;
    arrival.cost = cost;
    arrival.copy.resize(frame.bytes);
    return begin_payload({.to = arrival.copy.data(),
                          .left = frame.bytes,
                          .bytes = frame.bytes,
                          .arrival = &arrival});
  }
  give_back(cost);
  if (frame.bytes > receive->room) {
    receive->state = State::failed;
    receive->bytes = frame.bytes;
    return begin_payload({.left = frame.bytes, .bytes = frame.bytes});
  }
  receive->state = State::arriving;
  receive->number = number;
  begin_payload(
      {.to = receive->data, .left = frame.bytes, .bytes = frame.bytes, .operation = receive});
}

void Peer::answer_pull(const Frame& frame) {
  using State = Operation::State;
  Operation* const send = own_operation(frame.send, true);
  const bool is_there =
      send != nullptr && (send->state == State::announced || send->state == State::streaming ||
                          send->state == State::sent);
  if (!is_there) return add({.kind = FrameKind::gone, .room = frame.room});
  send->theirs = frame.room;
  send->bytes = 0;
  if (std::exchange(send->state, State::streaming) != State::streaming) streaming_.push(*send);
}

void Peer::answer_fetch(const Frame& frame) {
  const auto found = regions_.find({frame.tag, frame.send}, frame.offset, frame.bytes);
  if (!found || found->empty()) return add({.kind = FrameKind::gone, .room = frame.room});
  if (serves_ >= limits_.serves) refuse("fewer concurrent reads", serves_);
  ++serves_;
  Operation& serve = pool_.operation();
  serve.kind = Operation::Kind::serve;
  serve.state = Operation::State::streaming;
  serve.peer = this;
  serve.data = found->data();
  serve.room = found->size();
  serve.bytes = 0;
  serve.theirs = frame.room;
  serve.region = frame.tag;
  streaming_.push(serve);
}

void Peer::begin_payload(const Payload& payload) {
  if (payload.left == 0) return end_payload(payload);
  payload_ = payload;
}

void Peer::count_payload(std::size_t bytes) {
  payload_.left -= bytes;
  if (payload_.to != nullptr) payload_.to += bytes;
  if (payload_.left == 0) end_payload(std::exchange(payload_, {}));
}

void Peer::end_payload(const Payload& payload) {
  using State = Operation::State;
  if (payload.arrival != nullptr) return deliver(*payload.arrival);
  if (payload.operation == nullptr) return;
  Operation& operation = *payload.operation;
  if (operation.state == State::arriving) return operation.finish(payload.bytes);
  operation.bytes += payload.bytes;
  if (operation.bytes < operation.expected) return;
  operation.finish(operation.expected);
  if (operation.kind == Operation::Kind::receive)
    add({.kind = FrameKind::done, .send = operation.theirs});
}

void Peer::deliver(Arrival& arrival) {
  Operation* const receive =
      posted_.take([&](const Operation& posted) { return posted.tag == arrival.tag; });
  if (receive != nullptr)
    deliver_to(*receive, arrival);
  else
    arrivals_.insert_in_order(arrival);
}

void Peer::deliver_to(Operation& receive, Arrival& arrival) {
  using State = Operation::State;
  if (arrival.is_announced) {
    --announced_;
    pull(receive, arrival);
  } else if (arrival.bytes > receive.room) {
    receive.state = State::failed;
    receive.bytes = arrival.bytes;
    give_back(arrival.cost);
  } else {
    std::ranges::copy(arrival.copy, receive.data);
    receive.finish(arrival.bytes);
    give_back(arrival.cost);
  }
  pool_.release(arrival);
}

void Peer::pull(Operation& receive, const Arrival& arrival) {
  receive.theirs = arrival.send;
  receive.number = arrival.number;
  receive.expected = arrival.bytes;
  receive.bytes = 0;
  const bool is_too_long = arrival.bytes > receive.room;
  if (is_too_long || arrival.bytes == 0) {
    receive.finish(arrival.bytes);
    if (is_too_long) receive.state = Operation::State::failed;
    return add({.kind = FrameKind::done, .send = arrival.send});
  }
  receive.state = Operation::State::pulling;
  add({.kind = FrameKind::pull, .send = arrival.send, .room = receive.id()});
}

void Peer::give_back(std::uint64_t cost) {
  owed_ += cost;
  if (owed_ < window_bytes / 2 || !socket_) return;
  add({.kind = FrameKind::credit, .bytes = owed_});
  granted_ += std::exchange(owed_, 0);
}

void Peer::keep_announced(const Operation& receive) {
  ++announced_;
  Arrival& arrival = pool_.arrival();
  arrival.number = receive.number;
  arrival.tag = receive.tag;
  arrival.is_announced = true;
  arrivals_.insert_in_order(arrival);
}

void Peer::detach(Operation& receive, bool is_eager) {
  const bool is_being_read = payload_.operation == &receive;
  if (receive.kind == Operation::Kind::read) {
    if (is_being_read) payload_.to = nullptr, payload_.operation = nullptr;
    return;
  }
  Arrival& arrival = pool_.arrival();
  arrival.number = receive.number;
  arrival.tag = receive.tag;
  arrival.cost = 0;
  if (is_eager) {  // the rest still arrives, and only once
    arrival.is_announced = false;
    arrival.bytes = payload_.bytes;
    arrival.copy.resize(payload_.bytes);
    const std::size_t there = payload_.bytes - payload_.left;
    std::copy_n(receive.data, there, arrival.copy.data());
    payload_.to = arrival.copy.data() + there;
    payload_.operation = nullptr;
    payload_.arrival = &arrival;
    return;
  }
  if (is_being_read) payload_.to = nullptr, payload_.operation = nullptr;
  ++announced_;
  arrival.is_announced = true;
  arrival.bytes = receive.expected;
  arrival.send = receive.theirs;
  deliver(arrival);
}

}  // namespace tremula::transport::tcp
