// SPDX-License-Identifier: Apache-2.0
#include "transport/loopback/loopback.hpp"

#include <algorithm>
#include <deque>

#include "core/error.hpp"
#include "transport/loopback/operation.hpp"

namespace tremula::transport {

void LoopbackOperation::start(const Network::Key& key, std::span<std::byte> room) {
  key_ = key;
  room_ = room;
  state_ = State::pending;
}

void LoopbackOperation::finish(std::size_t bytes) {
  state_ = State::finished;
  bytes_ = bytes;
}

void LoopbackOperation::fail(core::Errc code, std::string text) {
  state_ = State::failed;
  code_ = code;
  text_ = std::move(text);
}

std::optional<std::size_t> LoopbackOperation::test() {
  const std::lock_guard lock(network_.mutex_);
  if (state_ == State::pending) network_.settle(key_);
  if (state_ == State::failed) throw core::Error(code_, text_);
  return state_ == State::finished ? std::optional(bytes_) : std::nullopt;
}

void LoopbackOperation::cancel() noexcept { network_.withdraw(*this); }

/// Memory that peers in the network can read.
class LoopbackRegion final : public MemoryRegion {
public:
  LoopbackRegion(Network& network, Network::Id owner, BytesView bytes)
      : MemoryRegion({0, network.add_region(owner, bytes)}), network_(network) {}
  ~LoopbackRegion() override { network_.remove_region(key()[1]); }

private:
  Network& network_;
};

class LoopbackEndpoint final : public Endpoint {
public:
  LoopbackEndpoint(Network& network, Side side)
      : network_(network), side_(side), me_(network.open(side)) {}
  ~LoopbackEndpoint() override { network_.close(me_); }

  Address address() const override { return Network::address_of(me_); }

  void connect(std::span<const Address> peers, Deadline) override {
    const std::lock_guard lock(network_.mutex_);
    std::vector<Network::Id> ids;
    for (const Address& peer : peers) {
      ids.push_back(network_.id_of(peer));
      if (network_.members_[ids.back()].side == side_)
        throw core::Error(
            core::Errc::transport,
            "loopback: expected the address of a rank on the other side, found one of this "
            "side at position " +
                std::to_string(ids.size() - 1));
    }
    peers_ = std::move(ids);
  }

  Request send(Rank peer, Tag tag, BytesView bytes) override {
    auto& operation = next();
    operation.start({me_, id_of(peer), tag}, {});
    Request request(&operation);
    network_.post_send(operation, bytes);
    return request;
  }
  Request receive(Rank peer, Tag tag, std::span<std::byte> bytes) override {
    auto& operation = next();
    operation.start({id_of(peer), me_, tag}, bytes);
    Request request(&operation);
    network_.post_receive(operation);
    return request;
  }
  std::unique_ptr<MemoryRegion> register_memory(std::span<std::byte> bytes,
                                                Access access) override {
    if (access == Access::own) return nullptr;
    return std::make_unique<LoopbackRegion>(network_, me_, bytes);
  }
  Request read(Rank peer, const RegionKey& region, std::size_t offset,
               std::span<std::byte> bytes) override {
    auto& operation = next();
    operation.start({id_of(peer), me_, 0}, bytes);
    Request request(&operation);
    network_.read(operation, region, offset);
    return request;
  }
  void give_up() noexcept override { network_.close(me_); }
  void progress() override {}  // the network delivers in every send, receive and test

private:
  Network::Id id_of(Rank peer) const {
    core::expects(peer >= Rank{0} && core::at(peer) < peers_.size(),
                  "loopback: the peer must be a rank of the connected group");
    return peers_[core::at(peer)];
  }
  LoopbackOperation& next() {
    if (idle_.empty()) {
      idle_.reserve(operations_.size() + 1);  // so that no release allocates
      idle_.push_back(&operations_.emplace_back(network_, idle_));
    }
    auto& operation = *idle_.back();
    idle_.pop_back();
    return operation;
  }

  Network& network_;
  Side side_;
  Network::Id me_;
  std::vector<Network::Id> peers_;
  std::deque<LoopbackOperation> operations_;  // a deque, so that operations never move
  std::vector<LoopbackOperation*> idle_;
};

std::unique_ptr<Endpoint> Loopback::open(std::string_view offer, Side side) {
  if (offer != "loopback")
    throw core::Error(core::Errc::unsupported, "loopback: expected the offer 'loopback', found '" +
                                                   std::string(offer) + "'");
  return std::make_unique<LoopbackEndpoint>(network_, side);
}

}  // namespace tremula::transport
