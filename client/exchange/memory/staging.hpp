// SPDX-License-Identifier: Apache-2.0
#pragma once
// The engine's own memory, for packed steps and for chunks in flight.
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

/// Bytes reserved before each chunk in shared memory, for its ChunkHead.
inline constexpr std::size_t chunk_head_bytes = 64;

/// Rounds up to whole cache lines, so that each part of staging begins on one.
constexpr std::size_t line_aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

/// Touches memory for the first time in the background, since that takes longer than copying it.
class Populating {
public:
  Populating() = default;
  /// @param memory  must outlive this object; not touched if it is short
  explicit Populating(std::span<std::byte> memory);
  Populating(Populating&&) = default;
  /// Stops this object's thread and takes over the other's; pages populated so far stay populated.
  Populating& operator=(Populating&&) = default;

private:
  std::jthread thread_;
};

/// Memory for the messages of several steps, at one end of an exchange. Near peers map theirs. Each
/// kind of memory is allocated once, when first needed; no later step allocates.
class StepStaging {
public:
  /// @param is_near  whether the peer of each message is near; parallel to the plan's messages
  StepStaging(const ExchangePlan& plan, transport::Endpoint& endpoint, std::size_t slots,
              std::vector<bool> is_near);

  /// Returns the memory into which a message of the step in `slot` is packed, with the offsets of
  /// the plan. The peer can map it if it is near.
  std::span<std::byte> message(std::size_t slot, std::size_t message);
  /// Returns the memory of a ring for the chunks of a near message: ring_slots slots of
  /// ring_slot_bytes each, initially zero.
  std::span<std::byte> ring(std::size_t message);
  /// Address by which a peer locates a byte of a shared-memory message or ring.
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

/// Buffers for chunks between hosts, each lent to one message at a time. There are as many as were
/// ever in use at one time, however many plans share the pool.
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
  /// Returns the bytes of the buffers that are not in use.
  std::size_t bytes() const noexcept;
  /// Leaks the buffers that are not in use, because a transport may still access them.
  void keep_for_ever();

private:
  std::vector<Chunk> idle_;
  std::size_t made_ = 0;  // chunks
};

}  // namespace tremula::client
