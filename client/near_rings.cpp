// SPDX-License-Identifier: Apache-2.0
#include "client/near_rings.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>

#include "core/error.hpp"

namespace tremula::client {

using core::Bytes, core::Rank;
using transport::local::Mapping, transport::local::Place, transport::local::SharedMemory;

namespace {

/// Slots of a ring.
constexpr std::size_t slots = 4;

std::size_t ring_bytes(std::size_t slot_bytes) {
  constexpr std::size_t page = 4096;
  return (NearRings::Ring::bytes_of(slots, slot_bytes) + page - 1) / page * page;
}

/// What a rank tells of itself: where its memory is, and the identity of its machine.
Bytes introduction(const Place& place) {
  const std::string identity = transport::local::host_identity();
  Bytes bytes(sizeof place + identity.size());
  std::memcpy(bytes.data(), &place, sizeof place);
  std::memcpy(bytes.data() + sizeof place, identity.data(), identity.size());
  return bytes;
}

}  // namespace

NearRings::NearRings(Rank me, std::size_t segment_bytes, const Allgather& allgather) {
  const std::size_t slot_bytes = segment_head_bytes + segment_bytes;
  const auto ranks = allgather({}).size();
  Bytes mine;
  try {
    memory_ = std::make_unique<SharedMemory>(ranks * ring_bytes(slot_bytes));
    mine = introduction(memory_->place());
  } catch (const core::Error&) {  // no file descriptor: then without
  }
  const bool is_mapped = map(me, slot_bytes, allgather(std::move(mine)));
  const auto all = allgather({std::byte{is_mapped}});
  if (std::ranges::all_of(all, [](const Bytes& b) { return b[0] != std::byte{0}; })) return;
  to_.clear(), from_.clear(), mappings_.clear();
  memory_.reset();
}

bool NearRings::map(Rank me, std::size_t slot_bytes, const std::vector<Bytes>& all) {
  const std::size_t bytes = ring_bytes(slot_bytes), own = static_cast<std::size_t>(me);
  to_.resize(all.size()), from_.resize(all.size());
  if (all[own].empty()) return false;
  try {
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (rank == own || !std::ranges::equal(std::span(all[rank]).subspan(
                                                 std::min(all[rank].size(), sizeof(Place))),
                                             std::span(all[own]).subspan(sizeof(Place))))
        continue;
      Place place;
      std::memcpy(&place, all[rank].data(), sizeof place);
      const auto& theirs = mappings_.emplace_back(place, true).bytes();
      from_[rank] = Ring(theirs.subspan(own * bytes, bytes), slots, slot_bytes);
      to_[rank] = Ring(memory_->bytes().subspan(rank * bytes, bytes), slots, slot_bytes);
    }
  } catch (const core::Error&) {
    return false;
  }
  return true;
}

}  // namespace tremula::client
