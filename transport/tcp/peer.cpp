// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/peer.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <utility>

namespace tremula::transport::tcp {

using core::Errc;

namespace {
constexpr std::size_t input_bytes = std::size_t{16} << 10;
}

Peer::Peer(Rank rank, std::string text, int epoll, Pool& pool, const Regions& regions,
           const PeerLimits& limits)
    : rank_(rank),
      text_(std::move(text)),
      epoll_(epoll),
      pool_(pool),
      regions_(regions),
      limits_(limits) {}

void Peer::connect(Descriptor socket, std::string text) {
  socket_ = std::move(socket);
  text_ = std::move(text);
  input_.resize(input_bytes);
  set_options(socket_);
  watch(epoll_, socket_, core::at(rank_), EPOLLIN);
  flush();
}

void Peer::start(Operation& operation) noexcept {
  try {
    begin(operation);
    flush();
  } catch (const std::exception& error) {
    lose(Errc::transport, error.what());
  }
}

void Peer::begin(Operation& operation) {
  using Kind = Operation::Kind;
  using State = Operation::State;
  if (operation.kind == Kind::receive) {
    operation.state = State::posted;
    const auto has_its_tag = [&](const Arrival& a) { return a.tag == operation.tag; };
    Arrival* const arrival = arrivals_.find(has_its_tag);
    // Once the peer is lost, the bytes of an announced message never arrive, and no later message
    // of its tag overtakes it.
    if (arrival == nullptr || (is_lost() && arrival->is_announced)) {
      posted_.push(operation);
    } else {
      arrivals_.remove(*arrival);
      deliver_to(operation, *arrival);
    }
  } else if (operation.kind == Kind::send) {
    operation.state = State::queued;
    queued_.push(operation);
  } else if (operation.room == 0) {
    operation.finish(0);
  } else {
    operation.state = State::pulling;
    operation.expected = operation.room;
    if (is_lost()) return;
    add({.kind = FrameKind::fetch,
         .bytes = operation.room,
         .tag = operation.tag,
         .send = operation.region,
         .room = operation.id(),
         .offset = operation.theirs});
  }
}

void Peer::give_up(Operation& operation) noexcept {
  using Kind = Operation::Kind;
  using State = Operation::State;
  if (operation.has_ended()) return;
  const State state = std::exchange(operation.state, State::finished);
  if (operation.kind == Kind::send) {
    queued_.remove(operation);
    if (is_lost()) return;
    if (chunk_.operation == &operation)
      return lose(Errc::transport, "a send was given up while its bytes were in flight");
    if (state != State::streaming) return;
    streaming_.remove(operation);
  } else {
    posted_.remove(operation);
  }
  try {
    if (is_lost()) {
      if (operation.kind == Kind::receive && state == State::pulling) keep_announced(operation);
      return;
    }
    if (state == State::streaming)
      add({.kind = FrameKind::gone, .room = operation.theirs});
    else if (state == State::arriving || state == State::pulling)
      detach(operation, state == State::arriving);
    flush();
  } catch (const std::exception& error) {
    lose(Errc::transport, error.what());
  }
}

void Peer::move(bool can_read, bool can_write) noexcept {
  if (can_write) awaits_room_ = false;
  if (can_read) read();
  try {
    flush();
  } catch (const std::exception& error) {
    lose(Errc::transport, error.what());
  }
}

void Peer::end_serving(std::uint64_t region) noexcept {
  using Kind = Operation::Kind;
  const auto is_of_it = [&](const Operation& operation) {
    return operation.kind == Kind::serve && operation.region == region;
  };
  if (chunk_.operation != nullptr && is_of_it(*chunk_.operation))
    return lose(Errc::transport, "memory that it was reading no longer exists");
  try {
    while (Operation* const serve = streaming_.take(is_of_it)) {
      const std::uint64_t room = serve->theirs;
      serve->finish(0);
      release_serve(*serve);
      add({.kind = FrameKind::gone, .room = room});
    }
    flush();
  } catch (const std::exception& error) {
    lose(Errc::transport, error.what());
  }
}

void Peer::lose(Errc code, std::string_view why) noexcept {
  using Kind = Operation::Kind;
  if (is_lost()) return;
  lost_code_ = code;
  try {
    lost_why_ = why.empty() ? "unknown" : why;
  } catch (const std::bad_alloc&) {
    lost_why_ = "out of memory";  // short enough to need no memory
  }
  forget(epoll_, socket_);
  socket_.reset();
  const auto end_serve = [this](Operation* operation) {
    if (operation == nullptr || operation->kind != Kind::serve) return;
    operation->finish(0);
    release_serve(*operation);
  };
  end_serve(chunk_.operation);
  while (!streaming_.is_empty()) end_serve(streaming_.pop());
  chunk_ = {};
  before_ = Bytes(), after_ = Bytes(), input_ = Bytes();
  written_ = input_begin_ = input_end_ = 0;
  if (payload_.arrival != nullptr) pool_.release(*payload_.arrival);
  payload_ = {};
}

void Peer::release_serve(Operation& serve) noexcept {
  --serves_;
  pool_.release(serve);
}

}  // namespace tremula::transport::tcp
