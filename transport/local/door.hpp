// SPDX-License-Identifier: Apache-2.0
#pragma once
// How endpoints find each other's inboxes. Private to this folder.
#include "transport/local/shared_memory.hpp"
#include "transport/transport.hpp"

namespace tremula::transport::local {

/// Memory that exists before the peers are known, and so before the inbox, which has a lane for
/// each of them: an address tells where the door is, the door tells where the inbox is. No longer
/// needed once all peers are connected.
class Door {
public:
  explicit Door(Side side);
  Address address() const;
  /// Identifies this endpoint among all others.
  std::uint64_t region() const noexcept { return memory_.place().region; }
  void open(const MemoryPlace& inbox) noexcept;

private:
  Side side_;
  SharedMemory memory_;
};

/// The door of a peer.
class PeerDoor {
public:
  /// @param side  of this endpoint
  /// @throws core::Error transport if `address` is not that of a rank of the other side, or cannot
  /// be mapped; peer_lost
  PeerDoor(const Address& address, Side side);
  /// Empty until the peer has opened it.
  /// @throws core::Error peer_lost
  std::optional<MemoryPlace> inbox() const;
  std::uint64_t region() const noexcept { return memory_.region(); }

private:
  Mapping memory_;
};

/// @throws core::Error peer_lost if the owner of `memory` has closed its end or has died
void expect_alive(const Mapping& memory);

}  // namespace tremula::transport::local
