// SPDX-License-Identifier: Apache-2.0
#pragma once
// One rank's end of a link through memory. Private to this folder.
#include <atomic>

#include "transport/local/locator.hpp"
#include "transport/local/peer.hpp"

namespace tremula::transport::local {

class Endpoint final : public transport::Endpoint {
public:
  explicit Endpoint(Side side) : side_(side), locator_(std::make_unique<Locator>(side)) {}

  Address address() const override { return address_; }
  void connect(std::span<const Address> peers, Deadline deadline) override;
  void stop_connecting() noexcept override { connecting_stops_ = true; }
  Request send(Rank peer, Tag tag, BytesView bytes) override;
  Request receive(Rank peer, Tag tag, std::span<std::byte> bytes) override;
  void progress() override;
  bool is_near(Rank peer) const noexcept override { return find(peer) != nullptr; }
  bool needs_calls(Rank) const noexcept override { return false; }  // large data is mapped instead
  bool has_ended(Rank peer) const noexcept override {
    const auto* found = find(peer);
    return found != nullptr && found->has_died();
  }
  bool is_stopped(Rank peer) const noexcept override {
    const auto* found = find(peer);
    return found != nullptr && found->is_stopped();
  }

  struct Neighbour {
    Rank rank;
    const Address& address;
  };
  /// Connects as connect() does, but only to these ranks on the other side.
  void connect_some(std::span<const Neighbour> peers, Deadline deadline);

private:
  friend class Operation;
  using Clock = std::chrono::steady_clock;

  Peer* find(Rank peer) const noexcept {
    const auto index = core::at(peer);
    return peer >= Rank{0} && index < by_rank_.size() ? by_rank_[index] : nullptr;
  }
  Operation& start(Rank peer, Tag tag, std::byte* data, std::size_t bytes);
  std::optional<std::size_t> test(Operation& operation);
  using transport::Endpoint::give_up;
  void give_up(Operation& operation) noexcept;
  void answer_bells();
  /// Makes progress() call this peer while it is busy.
  void watch(Peer& peer);
  /// Finds peers that have closed their end or died, every 20 ms or so; makes system calls.
  void detect_lost_peers();

  Side side_;
  std::unique_ptr<Locator> locator_;  // until connected
  Address address_ = locator_->address();
  std::unique_ptr<SharedMemory> memory_;  // the inbox
  std::atomic<bool> connecting_stops_ = false;
  std::span<std::atomic<std::uint64_t>> bells_;  // in the inbox; empty for few peers
  Pool pool_;
  std::deque<Peer> peers_;      // index = lane
  std::vector<Peer*> by_rank_;  // null for ranks that are not near
  std::vector<Peer*> watched_;  // all peers if there are no bells
  std::uint32_t looks_ = 0;
  Clock::time_point last_look_{};
  std::size_t next_to_check_ = 0;  // index into peers_
};

}  // namespace tremula::transport::local
