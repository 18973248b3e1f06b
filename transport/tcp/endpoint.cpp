// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/endpoint.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tremula::transport::tcp {

using core::Errc, core::Error;

namespace {

/// Shortest time between two polls by test(): a caller that tests many requests in turn pays for
/// one poll only.
constexpr auto look_every = std::chrono::microseconds(1);
constexpr auto shortest_pause = std::chrono::milliseconds(5),
               longest_pause = std::chrono::milliseconds(500);

class Region final : public MemoryRegion {
public:
  Region(const RegionKey& key, std::shared_ptr<Regions> regions)
      : MemoryRegion(key), regions_(std::move(regions)) {}
  ~Region() override { regions_->end(key()); }

private:
  std::shared_ptr<Regions> regions_;  // of an endpoint that may end first
};

}  // namespace

RegionKey Regions::add(std::span<std::byte> bytes) {
  RegionKey key{};
  core::fill_with_secret_bytes(std::as_writable_bytes(std::span(key)));
  all_[key[0]] = {key[1], bytes};
  return key;
}

void Regions::end(const RegionKey& key) noexcept {
  all_.erase(key[0]);
  if (endpoint != nullptr) endpoint->end_serving(key[0]);
}

std::optional<std::span<std::byte>> Regions::find(const RegionKey& key, std::uint64_t offset,
                                                  std::uint64_t bytes) const noexcept {
  const auto found = all_.find(key[0]);
  if (found == all_.end() || found->second.first != key[1]) return std::nullopt;
  const auto region = found->second.second;
  if (offset > region.size() || bytes > region.size() - offset) return std::nullopt;
  return region.subspan(offset, bytes);
}

Endpoint::Endpoint(Side side, const HostPort& host_port)
    : side_(side), epoll_(epoll_create1(EPOLL_CLOEXEC)), regions_(std::make_shared<Regions>()) {
  if (!epoll_) throw_system("epoll_create1");
  own_.host_port = host_port;
  core::fill_with_secret_bytes(std::as_writable_bytes(std::span(&own_.id, 1)));
  core::fill_with_secret_bytes(own_.secret);
  if (side_ == Side::producer) listener_ = std::make_unique<Listener>(own_, epoll_.get());
  regions_->endpoint = this;
}

Endpoint::~Endpoint() {
  regions_->endpoint = nullptr;
  ::explicit_bzero(own_.secret.data(), own_.secret.size());
}

void Endpoint::connect(std::span<const Address> peers, Deadline) {
  core::expects(connections_.empty(), "tcp: an endpoint is connected once");
  std::vector<RankAddress> addresses;
  for (const Address& peer : peers)
    addresses.push_back(RankAddress::decode(peer, core::to_rank(addresses.size())));
  for (const RankAddress& peer : addresses)
    connections_.push_back({.peer = Peer(core::to_rank(connections_.size()), peer.host_port.text(),
                                         epoll_.get(), pool_, *regions_, limits_),
                            .address = peer});
  limits_ = limits_per_peer(connections_.size());
  if (listener_ && peers.empty()) listener_.reset();
  if (listener_) listener_->expect(std::move(addresses));
}

void Endpoint::expect_only(std::span<const Rank> peers) {
  std::vector<bool> is_expected(connections_.size());
  for (const Rank peer : peers) {
    core::expects(is_rank(peer), "tcp: the peer must be a rank of the connected group");
    is_expected[core::at(peer)] = true;
  }
  for (Connection& connection : connections_) {
    if (is_expected[core::at(connection.peer.rank())]) continue;
    if (listener_) listener_->stop_expecting(connection.peer.rank());
    end_connecting(connection);
    connection.peer.lose(Errc::transport,
                         "this rank has declared that it exchanges no data with it");
  }
  limits_ = limits_per_peer(peers.size());
  if (listener_ && listener_->has_all()) close_listener();
}

Request Endpoint::send(Rank peer, Tag tag, BytesView bytes) {
  return start(Operation::Kind::send, peer, tag,
               {const_cast<std::byte*>(bytes.data()), bytes.size()});
}

Request Endpoint::receive(Rank peer, Tag tag, std::span<std::byte> bytes) {
  return start(Operation::Kind::receive, peer, tag, bytes);
}

Request Endpoint::read(Rank peer, const RegionKey& region, std::size_t offset,
                       std::span<std::byte> bytes) {
  return start(Operation::Kind::read, peer, 0, bytes, region, offset);
}

Request Endpoint::start(Operation::Kind kind, Rank peer, Tag tag, std::span<std::byte> bytes,
                        const RegionKey& region, std::uint64_t offset) {
  core::expects(is_rank(peer), "tcp: the peer must be a rank of the connected group");
  Connection& connection = connections_[core::at(peer)];
  Operation& operation = pool_.operation();
  operation.kind = kind;
  operation.peer = &connection.peer;
  operation.tag = kind == Operation::Kind::read ? region[0] : tag;
  operation.region = region[1];
  operation.theirs = offset;
  operation.data = bytes.data();
  operation.room = bytes.size();
  operation.bytes = operation.expected = 0;
  operation.why = {};
  Request request(&operation);
  if (side_ == Side::consumer && !connection.has_begun_connecting) begin_attempt(connection);
  connection.peer.start(operation);
  return request;
}

std::unique_ptr<MemoryRegion> Endpoint::register_memory(std::span<std::byte> bytes, Access access) {
  if (access == Access::own) return nullptr;
  return std::make_unique<Region>(regions_->add(bytes), regions_);
}

// Over any socket, a read costs both processors as much as a message: see transport/ofi.
std::size_t Endpoint::shortest_read() const noexcept { return std::size_t{512} << 10; }

void Endpoint::give_up() noexcept {
  close_listener();
  for (Connection& connection : connections_) {
    end_connecting(connection);
    connection.peer.lose(Errc::transport, "this side gave the link up");
  }
}

void Endpoint::progress() {
  std::array<epoll_event, 64> events;
  const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  if (count < 0 && errno != EINTR) throw_system("epoll_wait");
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    const std::uint64_t key = event.data.u64;
    if ((key & Listener::event_bit) != 0) {
      if (listener_) listener_->move(key);
      continue;
    }
    Connection& connection = connections_[key];
    if (connection.attempt)
      continue_attempt(connection);
    else
      connection.peer.move((event.events & ~EPOLLOUT) != 0, (event.events & EPOLLOUT) != 0);
  }
  if (listener_) handle_listener();
  if (connecting_ > 0) retry_connecting();
  looked_ = Clock::now();
  if (count > 0) moved_ = looked_;
}

void Endpoint::handle_listener() {
  for (Listener::Connection& accepted : listener_->take_accepted()) {
    connect_to(connections_[core::at(accepted.rank)], std::move(accepted.socket), {});
  }
  listener_->close_late();
  if (!connections_.empty() && listener_->has_all()) close_listener();
}

void Endpoint::close_listener() noexcept {
  rejected_ = rejected();
  listener_.reset();
}

void Endpoint::connect_to(Connection& connection, Descriptor socket, std::string text) noexcept {
  try {
    if (text.empty()) text = HostPort::far_end_of(socket).text();
    connection.peer.connect(std::move(socket), std::move(text));
  } catch (const std::exception& error) {
    connection.peer.lose(Errc::peer_lost, error.what());
  }
}

void Endpoint::begin_attempt(Connection& connection) noexcept {
  if (!std::exchange(connection.has_begun_connecting, true)) {
    connection.is_connecting = true;
    ++connecting_;
  }
  try {
    connection.attempt = std::make_unique<ConnectionAttempt>(
        own_, connection.address, begin_connecting(own_.host_port, connection.address.host_port),
        epoll_.get(), core::at(connection.peer.rank()));
  } catch (const std::exception& error) {
    end_connecting(connection);
    connection.peer.lose(Errc::peer_lost, error.what());
  }
}

void Endpoint::continue_attempt(Connection& connection) noexcept {
  try {
    advance_attempt(connection);
  } catch (const std::exception& error) {
    end_connecting(connection);
    connection.peer.lose(Errc::peer_lost, error.what());
  }
}

void Endpoint::advance_attempt(Connection& connection) {
  switch (connection.attempt->move()) {
    case ConnectionAttempt::State::under_way:
      return;
    case ConnectionAttempt::State::proved: {
      Descriptor socket = connection.attempt->take();
      end_connecting(connection);
      return connect_to(connection, std::move(socket), connection.address.host_port.text());
    }
    case ConnectionAttempt::State::closed:
      connection.attempt.reset();
      connection.pause =
          std::clamp<Clock::duration>(2 * connection.pause, shortest_pause, longest_pause);
      connection.next_attempt = Clock::now() + connection.pause;
      return;
    case ConnectionAttempt::State::refused: {
      const int error = connection.attempt->error();
      end_connecting(connection);
      return connection.peer.lose(Errc::peer_lost,
                                  "connecting to it failed: " + system_text(error));
    }
    case ConnectionAttempt::State::impostor:
      end_connecting(connection);
      return connection.peer.lose(Errc::peer_lost,
                                  "expected a rank of this link, found another program listening "
                                  "on its port");
  }
}

void Endpoint::retry_connecting() noexcept {
  const auto now = Clock::now();
  for (Connection& connection : connections_)
    if (connection.is_connecting && !connection.attempt && connection.next_attempt < now)
      begin_attempt(connection);
}

void Endpoint::end_connecting(Connection& connection) noexcept {
  connection.attempt.reset();
  if (std::exchange(connection.is_connecting, false)) --connecting_;
}

void Endpoint::end_serving(std::uint64_t region) noexcept {
  for (Connection& connection : connections_) connection.peer.end_serving(region);
}

std::optional<std::size_t> Endpoint::test(Operation& operation) {
  using State = Operation::State;
  if (!operation.has_ended() && Clock::now() - looked_ >= look_every) progress();
  if (operation.state == State::finished) return operation.bytes;
  if (operation.state == State::failed) throw error_of(operation);
  if (!operation.peer->is_lost()) return std::nullopt;
  give_up(operation);
  const Error loss = operation.peer->loss();
  throw Error(loss.code(), describe(operation) + " ended: " + loss.what());
}

void Endpoint::give_up(Operation& operation) noexcept { operation.peer->give_up(operation); }

Error Endpoint::error_of(const Operation& operation) const {
  if (!operation.why.empty())
    return {Errc::transport, describe(operation) + " failed: " + std::string(operation.why)};
  return {Errc::transport, describe(operation) +
                               ": expected a message of at most the length posted, found one of " +
                               std::to_string(operation.bytes) + " bytes"};
}

std::string Endpoint::describe(const Operation& operation) const {
  const std::string bytes = std::to_string(operation.room) + " bytes ";
  const std::string rest =
      "rank " + std::to_string(operation.peer->rank().value) + " at " + operation.peer->text();
  switch (operation.kind) {
    case Operation::Kind::send:
      return "tcp: send of " + bytes + "to " + rest;
    case Operation::Kind::receive:
      return "tcp: receive of up to " + bytes + "from " + rest;
    default:
      return "tcp: read of " + bytes + "of the memory of " + rest;
  }
}

}  // namespace tremula::transport::tcp
