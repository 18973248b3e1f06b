// SPDX-License-Identifier: Apache-2.0
#include "client/exchange/memory/staging.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <system_error>
#include <utility>

#include "core/thread.hpp"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // since Linux 5.14
#endif

namespace tremula::client {

using transport::local::MemoryPlace, transport::local::SharedMemory;

Populating::Populating(std::span<std::byte> memory) {
  static constexpr std::size_t least = std::size_t{16} << 20, at_once = std::size_t{4} << 20,
                               page = 4096;
  if (memory.size() < least) return;
  try {
    thread_ = core::start_thread<std::jthread>([memory](const std::stop_token& stop) {
      const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
      const std::size_t first = (page - begin % page) % page;
      for (std::size_t at = first; at + page <= memory.size() && !stop.stop_requested();
           at += at_once) {
        const std::size_t bytes = std::min(at_once, memory.size() - at) / page * page;
        // Where the system does not know it, the first steps touch the pages.
        if (madvise(memory.data() + at, bytes, MADV_POPULATE_WRITE) != 0) return;
      }
    });
  } catch (const std::system_error&) {  // no thread: the first steps touch the pages
  }
}

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
    populating_near_ = Populating(near_->bytes());
    return;
  }
  far_ = core::Buffer(slots_ * far_bytes_);
  region_ = endpoint_.register_memory(far_.span(), transport::Access::own);
  populating_far_ = Populating(far_.span());
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
  idle_.reserve(++made_);  // so that none is lost when it is given back
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
