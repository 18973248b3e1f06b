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

// Process-wide, like descriptors: no object sees all doors.
std::atomic<std::size_t> seats_taken = 0;

/// Connections that are accepted per turn; the link continues between two turns.
constexpr int most_accepted = 16;

Seat take_seat() noexcept {
  Seat seat(true);
  if (seats_taken.fetch_add(1) >= seats_of_process) seat.reset();
  return seat;
}

}  // namespace

void SeatTraits::close(Handle) noexcept { --seats_taken; }

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

Door::Door(RankAddress& own, int epoll)
    : own_(own), epoll_(epoll), socket_(listen_at(own.host_port)) {
  own.host_port = HostPort::near_end_of(socket_);
}

Door::~Door() {
  forget(epoll_, socket_);
  for (const Guest& guest : guests_) forget(epoll_, guest.socket);
}

void Door::expect(std::vector<RankAddress> peers) {
  peers_ = std::move(peers);
  is_here_.assign(peers_.size(), false);
  missing_ = peers_.size();
  watch(epoll_, socket_, event_bit, EPOLLIN);
}

void Door::excuse(Rank rank) noexcept {
  const auto index = static_cast<std::size_t>(rank);
  if (is_here_[index]) return;
  is_here_[index] = true;
  --missing_;
}

void Door::accept() {
  for (int i = 0; i < most_accepted; ++i) {
    Descriptor socket =
        own_socket(accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) return;  // no connection waits, or there is no room for one at the moment
    take_in(std::move(socket));
  }
}

void Door::take_in(Descriptor socket) {
  Seat seat = make_room();
  const std::uint64_t number = ++numbers_;
  try {
    watch(epoll_, socket, event_bit | number, EPOLLIN);
    guests_.push_back({.number = number,
                       .until = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                   std::chrono::duration<double>(exchange_seconds)),
                       .socket = std::move(socket),
                       .seat = std::move(seat)});
  } catch (const std::exception&) {  // no memory for it at the moment
    return;
  }
  attend(guests_.end() - 1);  // so that a rank names itself before the next connection
}

Seat Door::make_room() {
  Seat seat = take_seat();
  const auto has_none = [](const Guest& guest) { return !guest.seat; };
  if (seat || std::ranges::count_if(guests_, has_none) < std::ptrdiff_t{seats_of_door}) return seat;
  const auto unnamed =
      std::ranges::find_if(guests_, [](const Guest& guest) { return !guest.rank; });
  const auto worst = unnamed == guests_.end() ? guests_.begin() : unnamed;
  seat = std::move(worst->seat);
  dismiss(worst);
  ++strangers_;
  return seat;
}

void Door::move(std::uint64_t event) {
  if (event == event_bit) return accept();
  const auto is_meant = [&](const Guest& guest) { return (event_bit | guest.number) == event; };
  const auto guest = std::ranges::find_if(guests_, is_meant);
  if (guest != guests_.end()) attend(guest);
}

void Door::attend(Guests::iterator guest) {
  Verdict verdict = Verdict::leaves;
  try {
    verdict = receive_from(*guest);
    if (verdict == Verdict::enters) verdict = admit(*guest);
  } catch (const std::exception&) {  // concerns this guest alone
    verdict = Verdict::leaves;
  }
  if (verdict == Verdict::stays) return;
  if (verdict == Verdict::leaves) ++strangers_;
  dismiss(guest);
}

void Door::dismiss(Guests::iterator guest) noexcept {
  forget(epoll_, guest->socket);  // empty if it has entered
  guests_.erase(guest);
}

Door::Verdict Door::receive_from(Guest& guest) {
  for (;;) {
    const std::size_t id_bytes = guest.rank ? 0 : sizeof(RankAddress::Id);
    switch (guest.reader.receive(guest.socket, id_bytes + exchange_payload_bytes)) {
      case PayloadReader::Received::less:
        return Verdict::stays;
      case PayloadReader::Received::end:
        return Verdict::leaves;
      case PayloadReader::Received::all:
        break;
    }
    BytesView received = guest.reader.bytes();
    if (!guest.rank) {
      RankAddress::Id id = 0;
      std::memcpy(&id, received.data(), sizeof id);
      received = received.subspan(sizeof id);
      const auto peer = std::ranges::find(peers_, id, &RankAddress::id);
      if (peer == peers_.end()) return Verdict::leaves;
      guest.rank = static_cast<Rank>(peer - peers_.begin());
      guest.exchange.emplace(key_of(own_, *peer));
    }
    const ExchangeTurn turn = guest.exchange->receive(received);
    guest.reader.clear();
    if (turn.failure || !send_at_once(guest.socket, turn.reply)) return Verdict::leaves;
    if (turn.is_done) return Verdict::enters;
  }
}

Door::Verdict Door::admit(Guest& guest) {
  const auto rank = static_cast<std::size_t>(*guest.rank);
  if (is_here_[rank]) return Verdict::leaves;
  entrants_.reserve(entrants_.size() + 1);
  forget(epoll_, guest.socket);
  entrants_.push_back({*guest.rank, std::move(guest.socket)});
  is_here_[rank] = true;
  --missing_;
  return Verdict::enters;
}

void Door::close_late() {
  if (guests_.empty()) return;
  const auto now = Clock::now();
  strangers_ += std::erase_if(guests_, [&](const Guest& guest) {
    if (guest.until >= now) return false;
    forget(epoll_, guest.socket);
    return true;
  });
}

std::vector<Door::Entrant> Door::take_entrants() { return std::exchange(entrants_, {}); }

}  // namespace tremula::transport::tcp
