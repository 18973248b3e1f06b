// SPDX-License-Identifier: Apache-2.0
#pragma once
// Locators, by which endpoints find each other's inboxes. Private to this folder.
#include "transport/local/shared_memory.hpp"
#include "transport/transport.hpp"

namespace tremula::transport::local {

/// Memory in which an endpoint publishes the place of its inbox. It exists before the peers are
/// known, and so before the inbox, which has one lane per peer: an address contains the place of the
/// locator, and the locator contains the place of the inbox. No longer needed once all peers are
/// connected.
class Locator {
public:
  explicit Locator(Side side);
  Address address() const;
  /// Returns a number that identifies this endpoint among all others.
  std::uint64_t region() const noexcept { return memory_.place().region; }
  /// Publishes the place of the inbox to the peers.
  void publish(const MemoryPlace& inbox) noexcept;

private:
  Side side_;
  SharedMemory memory_;
};

/// The locator of a peer.
class PeerLocator {
public:
  /// @param side  the side of this endpoint
  /// @throws core::Error transport if `address` is not that of a rank on the other side, or cannot
  /// be mapped; peer_lost if its process has ended
  PeerLocator(const Address& address, Side side);
  /// Returns the place of the peer's inbox; nullopt until the peer has published it.
  /// @throws core::Error peer_lost
  std::optional<MemoryPlace> inbox() const;
  std::uint64_t region() const noexcept { return memory_.region(); }

private:
  Mapping memory_;
};

/// Checks that the owner of `memory` is alive and has not closed its end.
/// @throws core::Error peer_lost otherwise
void expect_alive(const Mapping& memory);

}  // namespace tremula::transport::local
