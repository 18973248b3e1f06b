// SPDX-License-Identifier: Apache-2.0
#include "client/exchange/memory/staging.hpp"

#include <mutex>
#include <utility>

namespace tremula::client {

using transport::local::MemoryPlace, transport::local::SharedMemory;

StepStaging::StepStaging(const ExchangePlan& plan, transport::Endpoint& endpoint, std::size_t slots,
                         std::vector<bool> is_near)
    : plan_(plan), endpoint_(endpoint), slots_(slots), is_near_(std::move(is_near)) {
  for (std::size_t m = 0; m < plan_.messages.size(); ++m) {
    auto& bytes = is_near_[m] ? near_bytes_ : far_bytes_;
    offsets_.push_back(bytes);
    bytes += line_aligned(plan_.messages[m].bytes);
    ring_offsets_.push_back(rings_bytes_);
    if (is_near_[m])
      rings_bytes_ += line_aligned(
          transport::local::ChunkRing::bytes_of(ring_slots, ring_slot_bytes(plan_.messages[m])));
  }
}

void StepStaging::make(bool near) {
  if (near) {
    near_ = std::make_unique<SharedMemory>(slots_ * near_bytes_);
    return;
  }
  far_ = core::Buffer(slots_ * far_bytes_);
  region_ = endpoint_.register_memory(far_.span(), transport::Access::own);
}

std::span<std::byte> StepStaging::message(std::size_t slot, std::size_t message) {
  const bool near = is_near_[message];
  if (near ? near_ == nullptr : far_.bytes() == 0) make(near);
  const auto all = near ? near_->bytes() : far_.span();
  return all.subspan(slot * (near ? near_bytes_ : far_bytes_) + offsets_[message],
                     plan_.messages[message].bytes);
}

std::span<std::byte> StepStaging::ring(std::size_t message) {
  if (rings_ == nullptr) rings_ = std::make_unique<SharedMemory>(rings_bytes_);
  return rings_->bytes().subspan(
      ring_offsets_[message],
      transport::local::ChunkRing::bytes_of(ring_slots, ring_slot_bytes(plan_.messages[message])));
}

MemoryPlace StepStaging::place(const std::byte* at) const {
  const auto holds = [&](const auto& memory) {
    return memory != nullptr && at >= memory->bytes().data() &&
           at < memory->bytes().data() + memory->bytes().size();
  };
  const auto& memory = holds(near_) ? near_ : rings_;
  MemoryPlace place = memory->place();
  place.offset = static_cast<std::size_t>(at - memory->bytes().data());
  return place;
}

ChunkPool::Chunk ChunkPool::take(transport::Endpoint& endpoint, std::size_t bytes) {
  while (!idle_.empty()) {
    Chunk chunk = std::move(idle_.back());
    idle_.pop_back();
    if (chunk.buffer.bytes() >= bytes) return chunk;
  }
  Chunk chunk{core::Buffer(bytes), nullptr};
  chunk.region = endpoint.register_memory(chunk.buffer.span(), transport::Access::own);
  return chunk;
}

std::size_t ChunkPool::bytes() const noexcept {
  std::size_t sum = 0;
  for (const Chunk& chunk : idle_) sum += chunk.buffer.bytes();
  return sum;
}

void ChunkPool::keep_for_ever() {
  static std::mutex mutex;
  static auto* const kept = new std::vector<Chunk>;
  const std::scoped_lock lock(mutex);
  for (Chunk& chunk : idle_) kept->push_back(std::move(chunk));
  idle_.clear();
}

}  // namespace tremula::client
