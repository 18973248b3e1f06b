// SPDX-License-Identifier: Apache-2.0
#pragma once
// Doors, by which endpoints find each other's inboxes. Private to this folder.
#include "transport/local/shared_memory.hpp"
#include "transport/transport.hpp"

namespace tremula::transport::local {

/// Memory that exists before the peers are known, and so before the inbox, which has a lane for
/// each of them: an address holds the place of the door, and the door that of the inbox. No longer
/// needed once all peers are connected.
class Door {
public:
  explicit Door(Side side);
  Address address() const;
  /// Returns a number that identifies this endpoint among all others.
  std::uint64_t region() const noexcept { return memory_.place().region; }
  /// Shows the place of the inbox to the peers.
  void open(const MemoryPlace& inbox) noexcept;

private:
  Side side_;
  SharedMemory memory_;
};

/// The door of a peer.
class PeerDoor {
public:
  /// @param side  the side of this endpoint
  /// @throws core::Error transport if `address` is not that of a rank of the other side, or cannot
  /// be mapped; peer_lost if its process has ended
  PeerDoor(const Address& address, Side side);
  /// Returns the place of the peer's inbox; nullopt until the peer has opened its door.
  /// @throws core::Error peer_lost
  std::optional<MemoryPlace> inbox() const;
  std::uint64_t region() const noexcept { return memory_.region(); }

private:
  Mapping memory_;
};

/// Checks that the owner of `memory` is there.
/// @throws core::Error peer_lost if the owner of `memory` has closed its end or has died
void expect_alive(const Mapping& memory);

}  // namespace tremula::transport::local
