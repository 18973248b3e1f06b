// SPDX-License-Identifier: Apache-2.0
#include "client/redistribute/near_rings.hpp"

#include <algorithm>
#include <cstring>
#include <span>

#include "client/exchange/memory/staging.hpp"
#include "core/error.hpp"

namespace tremula::client::redistribute {

using core::Bytes, core::Rank;
using transport::local::Mapping, transport::local::MemoryPlace, transport::local::SharedMemory;

namespace {

/// Of a ring: one is filled while the other is emptied. With many peers there are others to be
/// filled, and to touch a page for the first time costs some copies of it.
std::size_t slots_of_a_ring(std::size_t ranks) { return ranks > 8 ? 1 : 2; }

}  // namespace

NearRings::NearRings(Rank me, ChunkBytes chunk_bytes, std::span<const Bytes> machines,
                     const Allgather& allgather) {
  constexpr std::size_t page = 4096;
  for (const Bytes& machine : machines)
    machines_.push_back(
        static_cast<std::uint32_t>(std::ranges::find(machines, machine) - machines.begin()));
  std::vector<Rank> near;
  for (const Rank rank : core::all_ranks(static_cast<core::RankCount>(machines.size())))
    if (machines_[core::at(rank)] == machines_[core::at(me)]) near.push_back(rank);
  near_ranks_ = static_cast<core::RankCount>(near.size());
  const std::size_t slots = slots_of_a_ring(near.size()),
                    slot_bytes = chunk_head_bytes + line_aligned(chunk_bytes(near_ranks_)),
                    ring_bytes = (Ring::bytes_of(slots, slot_bytes) + page - 1) / page * page;
  Bytes mine;
  if (near.size() > 1) try {
      memory_ = std::make_unique<SharedMemory>((near.size() - 1) * ring_bytes);
      const MemoryPlace place = memory_->place();
      const auto bytes = std::as_bytes(std::span(&place, 1));
      mine.assign(bytes.begin(), bytes.end());
    } catch (const core::Error&) {  // no file descriptor: then without
    }
  // A rank has no ring to itself.
  const auto ring = [&](std::span<std::byte> memory, std::size_t from, std::size_t to) {
    const std::size_t number = to < from ? to : to - 1;
    return Ring(memory.subspan(number * ring_bytes, ring_bytes), slots, slot_bytes);
  };
  const bool is_mapped = map(me, near, ring, allgather(std::move(mine)));
  const auto all = allgather({std::byte{is_mapped}});
  if (std::ranges::all_of(all, [](const Bytes& b) { return !b.empty() && b[0] != std::byte{0}; }))
    return;
  to_.clear(), from_.clear(), mappings_.clear();
  memory_.reset();
  near_ranks_ = 0;
}

bool NearRings::map(Rank me, std::span<const Rank> near, const RingIn& ring,
                    const std::vector<Bytes>& places) {
  to_.resize(places.size()), from_.resize(places.size());
  if (near.size() == 1) return true;
  if (!memory_) return false;
  const auto own = static_cast<std::size_t>(std::ranges::find(near, me) - near.begin());
  try {
    for (std::size_t number = 0; number < near.size(); ++number) {
      const Rank rank = near[number];
      if (rank == me) continue;
      MemoryPlace place;
      if (places[at(rank)].size() != sizeof place) return false;
      std::memcpy(&place, places[at(rank)].data(), sizeof place);
      const auto theirs = mappings_.emplace_back(place, true).bytes();
      if (theirs.size() != memory_->bytes().size()) return false;
      from_[at(rank)] = ring(theirs, number, own);
      to_[at(rank)] = ring(memory_->bytes(), own, number);
    }
  } catch (const core::Error&) {
    return false;
  }
  return true;
}

}  // namespace tremula::client::redistribute
