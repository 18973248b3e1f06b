// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory of the engine's own: steps that are packed, and chunks on their way.
#include <cstddef>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "client/exchange/plan/exchange_plan.hpp"
#include "core/buffer.hpp"
#include "transport/local/chunk_ring.hpp"
#include "transport/local/shared_memory.hpp"
#include "transport/transport.hpp"

namespace tremula::client {

/// Before the bytes of a chunk in shared memory.
inline constexpr std::size_t chunk_head_bytes = 64;

/// Parts of staging begin on a cache line.
constexpr std::size_t line_aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

/// Touches memory for the first time in the background, since that takes longer than to copy it.
class Populating {
public:
  Populating() = default;
  /// @param memory  outlives this object; short memory is left as it is
  explicit Populating(std::span<std::byte> memory);
  Populating(Populating&&) = default;
  /// What was populated before stays so.
  Populating& operator=(Populating&&) = default;

private:
  std::jthread thread_;
};

/// Room for the messages of some steps, of one end of an exchange. Near peers map theirs. Each kind
/// is made once, when it is needed first; no later step allocates.
class StepStaging {
public:
  /// @param is_near  of each message
  StepStaging(const ExchangePlan& plan, transport::Endpoint& endpoint, std::size_t slots,
              std::vector<bool> is_near);

  /// Where a message of the step in a slot is packed, counted as in the plan. Peers can map it if the
  /// message is near.
  std::span<std::byte> message(std::size_t slot, std::size_t message);
  /// A ring for the chunks of a near message, zeroed at first; ring_slots of ring_slot_bytes each.
  std::span<std::byte> ring(std::size_t message);
  /// What peers find a byte of a near message, or of a ring, by.
  transport::local::MemoryPlace place(const std::byte* at) const;

  static constexpr std::size_t ring_slots = 4;
  static std::size_t ring_slot_bytes(const Message& message) {
    return chunk_head_bytes + line_aligned(message.near_chunk_bytes);
  }

private:
  void make(bool near);

  const ExchangePlan& plan_;
  transport::Endpoint& endpoint_;
  std::size_t slots_;
  std::vector<bool> is_near_;
  std::vector<std::size_t> offsets_;            // of messages, in a slot of their kind
  std::size_t near_bytes_ = 0, far_bytes_ = 0;  // of a slot
  std::vector<std::size_t> ring_offsets_;
  std::size_t rings_bytes_ = 0;
  std::unique_ptr<transport::local::SharedMemory> near_, rings_;
  core::Buffer far_;
  std::unique_ptr<transport::MemoryRegion> region_;  // of far_
  Populating populating_near_, populating_far_;      // last: their threads use the above
};

/// Buffers for chunks between hosts, lent to one message at a time: as many as were under way at
/// most, however many plans share the pool.
class ChunkPool {
public:
  struct Chunk {
    core::Buffer buffer;
    std::unique_ptr<transport::MemoryRegion> region;
  };
  Chunk take(transport::Endpoint& endpoint, std::size_t bytes);
  void give_back(Chunk chunk) noexcept {
    if (chunk.buffer.bytes() > 0) idle_.push_back(std::move(chunk));
  }
  /// Of what is not in use.
  std::size_t bytes() const noexcept;
  /// For a transport that may still touch what was given back: nothing of it is freed ever.
  void keep_for_ever();

private:
  std::vector<Chunk> idle_;
  std::size_t made_ = 0;  // chunks
};

}  // namespace tremula::client
