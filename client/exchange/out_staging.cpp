// SPDX-License-Identifier: Apache-2.0
// Memory of a producer, sized once for all steps.
#include <algorithm>

#include "client/exchange/out_exchange.hpp"

namespace tremula::client {

using transport::local::ChunkRing, transport::local::SharedMemory;

void OutExchange::make_staging() {
  std::size_t shared = 0;
  for (Slot& slot : slots_) {
    std::size_t own = 0;
    for (std::size_t m = 0; m < peers_.size(); ++m) {
      const Message& message = plan_.messages[m];
      own += line_aligned(is_sent(m) ? message.bytes : places_bytes(message));
      if (!is_direct_ && peers_[m].is_near) shared += line_aligned(message.bytes);
    }
    slot.staging = core::Buffer(own);
    slot.region = endpoint_.register_memory(slot.staging.span(), transport::Access::own);
    slot.lent.resize(plan_.fields.size());
    slot.loans.resize(plan_.fields.size());
  }
  if (shared > 0) shared_ = std::make_unique<SharedMemory>(shared);
  shared = 0;
  for (Slot& slot : slots_) {
    std::size_t own = 0;
    for (std::size_t m = 0; m < peers_.size(); ++m) {
      const Message& message = plan_.messages[m];
      const std::size_t bytes = is_sent(m) ? message.bytes : places_bytes(message);
      Outgoing& out = slot.outgoing.emplace_back();
      out.bytes = slot.staging.span().subspan(own, bytes);
      out.is_put.resize(message.parts.size());
      out.requests.resize(segments(bytes));
      own += line_aligned(bytes);
      if (is_sent(m)) {
        out.packed = out.bytes;
      } else if (!is_direct_) {
        out.packed = shared_->bytes().subspan(shared, message.bytes);
        shared += line_aligned(message.bytes);
      }
    }
  }
}

void OutExchange::make_rings() {
  std::size_t rings = 0, bounce = 0;
  for (std::size_t m = 0; m < peers_.size(); ++m) {
    if (peers_[m].is_near)
      ++rings;
    else if (!plan_.messages[m].is_contiguous())
      ++bounce;
  }
  const bool is_transposed =
      std::ranges::any_of(plan_.fields, [](const auto& field) { return field.is_transposed; });
  const std::size_t slot_bytes =
      is_transposed ? plan_.piece_bytes : std::min(plan_.piece_bytes, ring_slot_bytes);
  const std::size_t ring_bytes = line_aligned(ChunkRing::bytes_of(ring_slots, slot_bytes));
  if (rings > 0) shared_ = std::make_unique<SharedMemory>(rings * ring_bytes);
  bounce_ = core::Buffer(bounce * pieces_under_way * plan_.piece_bytes);
  bounce_region_ = endpoint_.register_memory(bounce_.span(), transport::Access::own);
  rings = bounce = 0;
  for (std::size_t m = 0; m < peers_.size(); ++m) {
    Peer& peer = peers_[m];
    if (peer.is_near) {
      peer.ring = ChunkRing(shared_->bytes().subspan(rings++ * ring_bytes, ring_bytes), ring_slots,
                            slot_bytes);
      continue;
    }
    if (plan_.messages[m].is_contiguous()) continue;
    for (std::size_t i = 0; i < pieces_under_way; ++i) {
      peer.bounce.push_back(bounce_.span().subspan(bounce, plan_.piece_bytes));
      bounce += plan_.piece_bytes;
    }
  }
}

}  // namespace tremula::client
