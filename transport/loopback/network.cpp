// SPDX-License-Identifier: Apache-2.0
#include "transport/loopback/network.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "core/error.hpp"
#include "transport/loopback/operation.hpp"

namespace tremula::transport {

void Network::inject_faults(FaultInjector injector) {
  const std::lock_guard lock(mutex_);
  injector_ = std::move(injector);
}

Network::Counters Network::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

Address Network::address_of(Id id) {
  Address address(sizeof id);
  std::memcpy(address.data(), &id, sizeof id);
  return address;
}

Network::Id Network::id_of(const Address& address) const {
  Id id = 0;
  if (address.size() == sizeof id) std::memcpy(&id, address.data(), sizeof id);
  if (address.size() != sizeof id || id >= members_.size())
    throw core::Error(core::Errc::transport,
                      "loopback: expected the address of an endpoint of this network, found " +
                          std::to_string(address.size()) + " other bytes");
  return id;
}

Network::Id Network::open(Side side) {
  const std::lock_guard lock(mutex_);
  members_.push_back({side, State::open});
  return members_.size() - 1;
}

void Network::close(Id id) {
  const std::lock_guard lock(mutex_);
  if (members_[id].state == State::open) members_[id].state = State::closed;
}

void Network::lose(const Address& address, Loss loss) {
  const std::lock_guard lock(mutex_);
  members_[id_of(address)].state = loss == Loss::silent ? State::lost_silently : State::lost;
}

void Network::post_send(LoopbackOperation& send, BytesView bytes) {
  const std::lock_guard lock(mutex_);
  const Key& key = send.key_;
  if (members_[key.from].state != State::open) return;  // a dead rank sends nothing
  const Fault fault = injector_ ? injector_({counters_.messages_sent, key.tag}) : Fault{};
  ++counters_.messages_sent;
  counters_.messages_harmed += fault == Fault{} ? 0 : 1;
  if (fault.fail)
    return send.fail(core::Errc::transport, "loopback: an injected fault ended this send");
  if (fault.drop) return send.finish(bytes.size());

  Message message{bytes, {}, &send, Deadline::after(fault.delay_seconds).at()};
  if (fault.arrives_as || fault.flipped_byte || bytes.size() <= eager_bytes_) {
    message.copy.assign(bytes.begin(), bytes.end());
    if (fault.arrives_as) message.copy.resize(*fault.arrives_as);
    if (fault.flipped_byte) message.copy.at(*fault.flipped_byte) ^= std::byte{0xff};
    message.bytes = message.copy;
    message.sender = nullptr;
    send.finish(bytes.size());
  }
  channels_[key].messages.push_back(std::move(message));
  settle(key);
}

void Network::post_receive(LoopbackOperation& receive) {
  const std::lock_guard lock(mutex_);
  channels_[receive.key_].receives.push_back(&receive);
  settle(receive.key_);
}

void Network::settle(const Key& key) {
  const auto at = channels_.find(key);
  if (at == channels_.end()) return;
  auto& [messages, receives] = at->second;
  const State from = members_[key.from].state, to = members_[key.to].state;

  if (from != State::open)  // unfinished sends of a dead rank never arrive
    std::erase_if(messages, [](const Message& message) { return message.sender != nullptr; });
  if (to == State::open) {
    const auto now = Deadline::Clock::now();
    while (!messages.empty() && !receives.empty() && messages.front().due <= now) {
      deliver(messages.front(), *receives.front());
      messages.pop_front();
      receives.pop_front();
    }
    if (messages.empty() && is_known_gone(from))
      for (auto* receive : std::exchange(receives, {}))
        receive->fail(core::Errc::peer_lost, "loopback: the peer of this receive is gone");
  }
  if (from == State::open && is_known_gone(to))
    for (auto& message : std::exchange(messages, {}))
      if (message.sender != nullptr)
        message.sender->fail(core::Errc::peer_lost, "loopback: the peer of this send is gone");
  if (messages.empty() && receives.empty()) channels_.erase(at);
}

void Network::deliver(const Message& message, LoopbackOperation& receive) {
  const std::size_t bytes = message.bytes.size(), posted = receive.room_.size();
  if (bytes > posted) {
    receive.fail(core::Errc::transport, "loopback: expected a message of at most " +
                                            std::to_string(posted) +
                                            " bytes (the length posted), found one of " +
                                            std::to_string(bytes) + " bytes");
  } else {
    std::copy(message.bytes.begin(), message.bytes.end(), receive.room_.begin());
    receive.finish(bytes);
    ++counters_.messages_delivered;
    counters_.bytes_delivered += static_cast<std::int64_t>(bytes);
  }
  if (message.sender != nullptr) message.sender->finish(bytes);
}

void Network::withdraw(LoopbackOperation& operation) {
  const std::lock_guard lock(mutex_);
  const auto at = channels_.find(operation.key_);
  if (at == channels_.end()) return;
  std::erase_if(at->second.messages,
                [&](const Message& message) { return message.sender == &operation; });
  std::erase(at->second.receives, &operation);
}

std::uint64_t Network::add_region(Id owner, BytesView bytes) {
  const std::lock_guard lock(mutex_);
  regions_[++last_region_] = {owner, bytes};
  return last_region_;
}

void Network::remove_region(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  regions_.erase(number);
}

void Network::read(LoopbackOperation& operation, const RegionKey& region, std::size_t offset) {
  const std::lock_guard lock(mutex_);
  const auto room = operation.room_;
  const State from = members_[operation.key_.from].state;
  if (is_known_gone(from))
    return operation.fail(core::Errc::peer_lost, "loopback: the peer of this read is gone");
  if (from != State::open) return;
  const auto at = regions_.find(region[1]);
  if (at == regions_.end() || at->second.owner != operation.key_.from ||
      room.size() > at->second.bytes.size() || offset > at->second.bytes.size() - room.size())
    return operation.fail(core::Errc::transport,
                          "loopback: expected to read from a region of the peer, found none");
  const auto bytes = at->second.bytes.subspan(offset, room.size());
  std::copy(bytes.begin(), bytes.end(), room.begin());
  operation.finish(room.size());
  ++counters_.reads;
  counters_.bytes_read += static_cast<std::int64_t>(room.size());
}

}  // namespace tremula::transport
