// SPDX-License-Identifier: Apache-2.0
#include "client/redistribute/near_rings.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>

#include "client/exchange/memory/staging.hpp"
#include "core/error.hpp"

namespace tremula::client::redistribute {

using core::Bytes, core::Rank;
using transport::local::Mapping, transport::local::MemoryPlace, transport::local::SharedMemory;

namespace {

/// Of a ring: one is filled while the other is emptied. With many peers there are others to be
/// filled, and to touch a page for the first time costs some copies of it.
std::size_t slots_of_a_ring(std::size_t ranks) { return ranks > 8 ? 1 : 2; }

/// What a rank tells of itself: where its memory is, and the identity of its machine.
Bytes introduction(const MemoryPlace& place) {
  const std::string identity = transport::local::host_identity();
  Bytes bytes(sizeof place + identity.size());
  std::memcpy(bytes.data(), &place, sizeof place);
  std::memcpy(bytes.data() + sizeof place, identity.data(), identity.size());
  return bytes;
}

}  // namespace

NearRings::NearRings(Rank me, Rank ranks, std::size_t chunk_bytes, const Allgather& allgather) {
  constexpr std::size_t page = 4096;
  const auto count = static_cast<std::size_t>(ranks);
  const std::size_t slots = slots_of_a_ring(count), slot_bytes = chunk_head_bytes + chunk_bytes;
  const std::size_t ring_bytes = (Ring::bytes_of(slots, slot_bytes) + page - 1) / page * page;
  Bytes mine;
  try {
    memory_ = std::make_unique<SharedMemory>(count * ring_bytes);
    mine = introduction(memory_->place());
  } catch (const core::Error&) {  // no file descriptor: then without
  }
  const auto ring = [&](std::span<std::byte> memory, std::size_t peer) {
    return Ring(memory.subspan(peer * ring_bytes, ring_bytes), slots, slot_bytes);
  };
  const bool is_mapped = map(static_cast<std::size_t>(me), ring, allgather(std::move(mine)));
  const auto all = allgather({std::byte{is_mapped}});
  if (std::ranges::all_of(all, [](const Bytes& b) { return b[0] != std::byte{0}; })) return;
  to_.clear(), from_.clear(), mappings_.clear();
  memory_.reset();
}

bool NearRings::map(std::size_t own, const RingIn& ring, const std::vector<Bytes>& all) {
  to_.resize(all.size()), from_.resize(all.size());
  if (all[own].empty()) return false;
  try {
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (rank == own || !std::ranges::equal(std::span(all[rank]).subspan(
                                                 std::min(all[rank].size(), sizeof(MemoryPlace))),
                                             std::span(all[own]).subspan(sizeof(MemoryPlace))))
        continue;
      MemoryPlace place;
      std::memcpy(&place, all[rank].data(), sizeof place);
      from_[rank] = ring(mappings_.emplace_back(place, true).bytes(), own);
      to_[rank] = ring(memory_->bytes(), rank);
    }
  } catch (const core::Error&) {
    return false;
  }
  return true;
}

}  // namespace tremula::client::redistribute
