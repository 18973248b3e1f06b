// SPDX-License-Identifier: Apache-2.0
#include "transport/local/endpoint.hpp"

#include <fmt/format.h>

#include <bit>
#include <chrono>
#include <thread>

namespace tremula::transport::local {

using core::Errc, core::Error;

namespace {

/// Time between two searches for lost peers. Each search checks all peers for a closed end, and some
/// of them for a dead process.
constexpr auto look_every = std::chrono::milliseconds(20);
constexpr std::size_t checks_per_look = 16;
/// Calls to progress() per reading of the clock.
constexpr std::uint32_t calls_per_look = 64;
constexpr auto longest_nap = std::chrono::milliseconds(20);  // while connecting

/// Waits until `look` finds that a peer has taken its next step to connect. Between two looks, sleeps
/// for an eighth of the time waited so far, so that a thousand waiting ranks leave the processors to
/// the rank that they wait for.
template <class Look>
auto wait(Look look, Deadline deadline, const std::atomic<bool>& stops) {
  using Clock = Deadline::Clock;
  for (const auto start = Clock::now();;) {
    if (auto found = look()) return found;
    if (deadline.expired()) throw Error(Errc::timed_out, "it did not connect in time");
    if (stops) throw Error(Errc::cancelled, "it did not connect before the link was given up");
    const auto nap = std::min<Clock::duration>((Clock::now() - start) / 8, longest_nap);
    std::this_thread::sleep_for(std::max<Clock::duration>(nap, std::chrono::microseconds(20)));
  }
}

template <class Action>
void with_rank_in_errors(Rank rank, Action action) {
  try {
    action();
  } catch (const Error& error) {
    throw Error(error.code(),
                fmt::format("local: rank {} of the other side: {}", rank.value, error.what()));
  }
}

}  // namespace

std::optional<std::size_t> Operation::test() {
  if (state == State::finished) return bytes;
  return endpoint_.test(*this);
}
void Operation::cancel() noexcept { endpoint_.give_up(*this); }
void Operation::release() noexcept { endpoint_.pool_.idle_operations.push_back(this); }

void Endpoint::connect(std::span<const Address> peers, Deadline deadline) {
  std::vector<Neighbour> all;
  for (const Address& peer : peers) all.push_back({core::to_rank(all.size()), peer});
  connect_some(all, deadline);
}

void Endpoint::connect_some(std::span<const Neighbour> peers, Deadline deadline) {
  core::expects(locator_ != nullptr, "local: an endpoint is connected once");
  std::deque<PeerLocator> locators;
  std::vector<std::uint64_t> regions;
  for (const auto& [rank, address] : peers) {
    with_rank_in_errors(rank, [&] { locators.emplace_back(address, side_); });
    regions.push_back(locators.back().region());
    by_rank_.resize(std::max(by_rank_.size(), core::at(rank) + 1));
  }
  if (peers.empty()) return locator_.reset();
  memory_ = std::make_unique<SharedMemory>(Inbox::bytes_for(peers.size()));
  const Inbox mine = Inbox::make(memory_->bytes(), regions);
  if (mine.has_bells()) bells_ = mine.bells();
  locator_->publish(memory_->place());

  for (std::size_t lane = 0; lane < peers.size(); ++lane)
    with_rank_in_errors(peers[lane].rank, [&] {
      Mapping mapping(*wait([&] { return locators[lane].inbox(); }, deadline, connecting_stops_),
                      true);
      const Inbox inbox(mapping.bytes());
      const auto its_lane = inbox.lane_of(locator_->region());
      if (!its_lane)
        throw Error(Errc::transport, "it was given addresses that do not include this rank's");
      inbox.lane(*its_lane).is_connected = 1;
      peers_.emplace_back(peers[lane].rank, std::move(mapping), *its_lane, mine.lane(lane), pool_);
    });
  for (std::size_t lane = 0; lane < peers.size(); ++lane)
    with_rank_in_errors(peers[lane].rank, [&] {
      wait(
          [&] {
            if (mine.lane(lane).is_connected != 0) return true;
            if (peers_[lane].has_closed() || peers_[lane].has_died())
              throw Error(Errc::peer_lost, "it left before this side connected");
            return false;
          },
          deadline, connecting_stops_);
    });
  watched_.reserve(peers_.size());  // so that giving up an operation allocates nothing here
  for (Peer& peer : peers_) {
    by_rank_[core::at(peer.rank())] = &peer;
    if (bells_.empty()) watched_.push_back(&peer);
  }
  locator_.reset();
}

Operation& Endpoint::start(Rank peer, Tag tag, std::byte* data, std::size_t bytes) {
  Peer* found = find(peer);
  core::expects(found != nullptr, "local: the peer must be a rank of the connected group");
  auto& operation = pool_.operation(*this);
  operation.peer = found;
  operation.tag = tag;
  operation.data = data;
  operation.room = bytes;
  operation.bytes = 0;
  return operation;
}

Request Endpoint::send(Rank peer, Tag tag, BytesView bytes) {
  auto& operation = start(peer, tag, const_cast<std::byte*>(bytes.data()), bytes.size());
  operation.is_send = true;
  Request request(&operation);
  operation.peer->send(operation);
  watch(*operation.peer);
  return request;
}

Request Endpoint::receive(Rank peer, Tag tag, std::span<std::byte> bytes) {
  auto& operation = start(peer, tag, bytes.data(), bytes.size());
  operation.is_send = false;
  Request request(&operation);
  operation.peer->receive(operation);
  watch(*operation.peer);
  return request;
}

void Endpoint::watch(Peer& peer) {
  if (bells_.empty() || peer.is_watched || !peer.is_busy()) return;
  peer.is_watched = true;
  watched_.push_back(&peer);
}

void Endpoint::answer_bells() {
  std::size_t lane = 0;
  for (auto& bells : bells_) {
    std::uint64_t rung = bells.load(std::memory_order_relaxed);
    if (rung != 0)
      rung = bells.exchange(0, std::memory_order_acquire);  // a later command rings again
    for (; rung != 0; rung &= rung - 1) {
      const std::size_t index = lane + static_cast<std::size_t>(std::countr_zero(rung));
      if (index >= peers_.size()) break;
      peers_[index].progress();
      watch(peers_[index]);
    }
    lane += 64;
  }
}

void Endpoint::progress() {
  if (peers_.empty()) return;
  if (!bells_.empty()) {
    answer_bells();
    std::erase_if(watched_, [](Peer* peer) {
      peer->progress();
      peer->is_watched = peer->is_busy() && !peer->is_lost();
      return !peer->is_watched;
    });
  } else {
    for (Peer* peer : watched_) peer->progress();
  }
  if (++looks_ % calls_per_look == 0) detect_lost_peers();
}

void Endpoint::detect_lost_peers() {
  const auto now = Clock::now();
  if (now - last_look_ < look_every) return;
  last_look_ = now;
  const auto mark_lost = [](Peer& peer, const char* why) {
    peer.progress();  // takes everything that the peer has sent
    peer.mark_lost(Errc::peer_lost, fmt::format("rank {} {}", peer.rank().value, why));
  };
  for (Peer& peer : peers_)
    if (!peer.is_lost() && peer.has_closed()) mark_lost(peer, "has closed its end");
  for (std::size_t i = 0; i < std::min(checks_per_look, peers_.size()); ++i) {
    Peer& peer = peers_[next_to_check_++ % peers_.size()];
    if (peer.is_lost() || !peer.has_died()) continue;
    mark_lost(peer, peer.has_closed() ? "has closed its end" : "has died");
  }
}

std::optional<std::size_t> Endpoint::test(Operation& operation) {
  Peer& peer = *operation.peer;
  if (!operation.has_ended())
    peer.progress();  // first the peer of this operation, however many others there are
  if (!operation.has_ended()) progress();
  if (operation.state == Operation::State::finished) return operation.bytes;
  if (operation.state == Operation::State::failed) throw peer.error_of(operation);
  if (!peer.is_lost()) return std::nullopt;
  const Error error = peer.error_of(operation);
  peer.give_up(operation);
  throw error;
}

void Endpoint::give_up(Operation& operation) noexcept {
  operation.peer->give_up(operation);
  watch(*operation.peer);
}

}  // namespace tremula::transport::local
