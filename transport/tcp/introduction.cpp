// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/introduction.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tremula::transport::tcp {

namespace {

// Process-wide, like descriptors: no object sees all listeners.
std::atomic<std::size_t> slots_taken = 0;

/// The most connections that are accepted per turn; the link continues between two turns.
constexpr int most_accepted = 16;

ConnectionSlot take_slot() noexcept {
  ConnectionSlot slot(true);
  if (slots_taken.fetch_add(1) >= slots_of_process) slot.reset();
  return slot;
}

}  // namespace

void SlotTraits::close(Handle) noexcept { --slots_taken; }

core::Key key_of(const RankAddress& accepting, const RankAddress& connecting) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const auto* secret : {&accepting.secret, &connecting.secret})
    for (const std::byte byte : *secret) {
      text += digits[std::to_integer<std::size_t>(byte) >> 4];
      text += digits[std::to_integer<std::size_t>(byte) & 15];
    }
  core::Key key(text, "tcp");
  ::explicit_bzero(text.data(), text.size());
  return key;
}

PayloadReader::Received PayloadReader::receive(const Descriptor& socket, std::size_t bytes) {
  while (count_ < bytes) {
    const auto count = recv(socket.get(), bytes_.data() + count_, bytes - count_, MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Received::less;
    if (count <= 0) return Received::end;
    count_ += static_cast<std::size_t>(count);
  }
  return Received::all;
}

bool send_at_once(const Descriptor& socket, BytesView bytes) noexcept {
  errno = 0;  // send() does not set errno if it sends a part
  return send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(bytes.size());
}

ConnectionAttempt::ConnectionAttempt(const RankAddress& own, const RankAddress& peer,
                                     Descriptor socket, int epoll, std::uint64_t event)
    : epoll_(epoll),
      own_id_(own.id),
      socket_(std::move(socket)),
      exchange_(key_of(peer, own)),
      event_(event) {
  watch(epoll_, socket_, event_, EPOLLIN | EPOLLOUT);
}

ConnectionAttempt::State ConnectionAttempt::move() {
  if (!has_opened_) {
    socklen_t bytes = sizeof error_;
    if (getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error_, &bytes) != 0) error_ = errno;
    if (error_ != 0) return State::refused;
    Bytes opening(sizeof own_id_);
    std::memcpy(opening.data(), &own_id_, sizeof own_id_);
    const Bytes payload = exchange_.opening();
    opening.insert(opening.end(), payload.begin(), payload.end());
    if (!send_at_once(socket_, opening)) return errno == EAGAIN ? State::under_way : State::closed;
    has_opened_ = true;
    epoll_event event{.events = EPOLLIN, .data = {.u64 = event_}};
    epoll_ctl(epoll_, EPOLL_CTL_MOD, socket_.get(), &event);
  }
  for (;;) {
    switch (reader_.receive(socket_, exchange_payload_bytes)) {
      case PayloadReader::Received::less:
        return State::under_way;
      case PayloadReader::Received::end:
        return State::closed;
      case PayloadReader::Received::all:
        break;
    }
    const ExchangeTurn turn = exchange_.receive(reader_.bytes());
    reader_.clear();
    if (turn.failure) return State::impostor;
    if (!turn.reply.empty() && !send_at_once(socket_, turn.reply)) return State::closed;
    if (turn.is_done) return State::proved;
  }
}

ConnectionAttempt::~ConnectionAttempt() { forget(epoll_, socket_); }

Descriptor ConnectionAttempt::take() {
  forget(epoll_, socket_);
  return std::move(socket_);
}

Listener::Listener(RankAddress& own, int epoll)
    : own_(own), epoll_(epoll), socket_(listen_at(own.host_port)) {
  own.host_port = HostPort::near_end_of(socket_);
}

Listener::~Listener() {
  forget(epoll_, socket_);
  for (const PendingConnection& connection : pending_) forget(epoll_, connection.socket);
}

void Listener::expect(std::vector<RankAddress> peers) {
  peers_ = std::move(peers);
  is_settled_.assign(peers_.size(), false);
  missing_ = peers_.size();
  watch(epoll_, socket_, event_bit, EPOLLIN);
}

void Listener::stop_expecting(Rank rank) noexcept {
  const auto index = core::at(rank);
  if (is_settled_[index]) return;
  is_settled_[index] = true;
  --missing_;
}

void Listener::accept() {
  for (int i = 0; i < most_accepted; ++i) {
    Descriptor socket =
        own_socket(accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) return;  // no connection waits, or there is no room for one at the moment
    add(std::move(socket));
  }
}

void Listener::add(Descriptor socket) {
  ConnectionSlot slot = make_room();
  const std::uint64_t number = ++numbers_;
  try {
    watch(epoll_, socket, event_bit | number, EPOLLIN);
    pending_.push_back(
        {.number = number,
         .until = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                     std::chrono::duration<double>(exchange_seconds)),
         .socket = std::move(socket),
         .slot = std::move(slot)});
  } catch (const std::exception&) {  // no memory for it at the moment
    return;
  }
  process(pending_.end() - 1);  // so that a rank names itself before the next connection
}

ConnectionSlot Listener::make_room() {
  ConnectionSlot slot = take_slot();
  const auto has_none = [](const PendingConnection& connection) { return !connection.slot; };
  if (slot || std::ranges::count_if(pending_, has_none) < std::ptrdiff_t{slots_of_listener})
    return slot;
  const auto unnamed = std::ranges::find_if(
      pending_, [](const PendingConnection& connection) { return !connection.rank; });
  const auto worst = unnamed == pending_.end() ? pending_.begin() : unnamed;
  slot = std::move(worst->slot);
  remove(worst);
  ++rejected_;
  return slot;
}

void Listener::move(std::uint64_t event) {
  if (event == event_bit) return accept();
  const auto is_meant = [&](const PendingConnection& connection) {
    return (event_bit | connection.number) == event;
  };
  const auto connection = std::ranges::find_if(pending_, is_meant);
  if (connection != pending_.end()) process(connection);
}

void Listener::process(PendingConnections::iterator connection) {
  Verdict verdict = Verdict::rejected;
  try {
    verdict = continue_exchange(*connection);
    if (verdict == Verdict::accepted) verdict = admit(*connection);
  } catch (const std::exception&) {  // concerns only this connection
    verdict = Verdict::rejected;
  }
  if (verdict == Verdict::pending) return;
  if (verdict == Verdict::rejected) ++rejected_;
  remove(connection);
}

void Listener::remove(PendingConnections::iterator connection) noexcept {
  forget(epoll_, connection->socket);  // empty if it was accepted
  pending_.erase(connection);
}

Listener::Verdict Listener::continue_exchange(PendingConnection& connection) {
  for (;;) {
    const std::size_t id_bytes = connection.rank ? 0 : sizeof(RankAddress::Id);
    switch (connection.reader.receive(connection.socket, id_bytes + exchange_payload_bytes)) {
      case PayloadReader::Received::less:
        return Verdict::pending;
      case PayloadReader::Received::end:
        return Verdict::rejected;
      case PayloadReader::Received::all:
        break;
    }
    BytesView received = connection.reader.bytes();
    if (!connection.rank) {
      RankAddress::Id id = 0;
      std::memcpy(&id, received.data(), sizeof id);
      received = received.subspan(sizeof id);
      const auto peer = std::ranges::find(peers_, id, &RankAddress::id);
      if (peer == peers_.end()) return Verdict::rejected;
      connection.exchange.emplace(key_of(own_, *peer));
      connection.rank = Rank{static_cast<std::int32_t>(peer - peers_.begin())};
    }
    const ExchangeTurn turn = connection.exchange->receive(received);
    connection.reader.clear();
    if (turn.failure || !send_at_once(connection.socket, turn.reply)) return Verdict::rejected;
    if (turn.is_done) return Verdict::accepted;
  }
}

Listener::Verdict Listener::admit(PendingConnection& connection) {
  const auto rank = core::at(*connection.rank);
  if (is_settled_[rank]) return Verdict::rejected;
  accepted_.reserve(accepted_.size() + 1);
  forget(epoll_, connection.socket);
  accepted_.push_back({*connection.rank, std::move(connection.socket)});
  is_settled_[rank] = true;
  --missing_;
  return Verdict::accepted;
}

void Listener::close_late() {
  if (pending_.empty()) return;
  const auto now = Clock::now();
  rejected_ += std::erase_if(pending_, [&](const PendingConnection& connection) {
    if (connection.until >= now) return false;
    forget(epoll_, connection.socket);
    return true;
  });
}

std::vector<Listener::Connection> Listener::take_accepted() { return std::exchange(accepted_, {}); }

}  // namespace tremula::transport::tcp
