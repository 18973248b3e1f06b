// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/types.hpp"
#include "transport/local/chunk_ring.hpp"
#include "transport/local/shared_memory.hpp"

namespace tremula::client::redistribute {

/// Rings in shared memory between the ranks of one job that are on one machine: another rank
/// unpacks what one has packed into a slot, and nothing in between copies or waits for a handshake.
/// Data pushed stays readable as long as the peer's NearRings lives.
class NearRings {
public:
  /// Returns on every rank what every rank passed. Shape of the result: [rank]
  using Allgather = std::function<std::vector<core::Bytes>(core::Bytes)>;
  using Ring = transport::local::ChunkRing;

  /// Makes an object without rings.
  NearRings() = default;
  /// Returns the bytes that a slot holds after its head, for the number of ranks of the job on one
  /// machine.
  using ChunkBytes = std::size_t (*)(core::RankCount near_ranks);

  /// Makes rings between all ranks of a machine, or none at all if memory cannot be shared.
  /// Collective.
  /// @param machines  identities, shape: [rank]; ranks with equal ones can map each other's memory
  NearRings(core::Rank me, ChunkBytes chunk_bytes, std::span<const core::Bytes> machines,
            const Allgather& allgather);
  NearRings(NearRings&&) = default;
  NearRings& operator=(NearRings&&) = default;
  ~NearRings() { close(); }
  /// Closes the rings: the other ranks see that this rank sends and takes no more.
  void close() noexcept {
    for (Ring& ring : to_)
      if (ring) ring.close();
  }

  /// Counts a run, even one that this rank refuses, so that ranks in different runs are detected.
  void begin_run() noexcept { ++runs_; }
  std::uint64_t runs() const noexcept { return runs_; }

  /// Returns the number of ranks on this machine, including this one; 0 without rings.
  core::RankCount near_ranks() const noexcept { return near_ranks_; }
  /// Returns the machine of each rank of the job; ranks of one machine have one number. The same on
  /// all ranks.
  std::span<const std::uint32_t> machines() const noexcept { return machines_; }
  /// Returns the bytes of memory that this rank shares with others.
  std::size_t memory_bytes() const noexcept { return memory_ ? memory_->bytes().size() : 0; }

  /// Returns the ring for what this rank sends to `peer`; null if `peer` is not near.
  Ring* to(core::Rank peer) noexcept { return find(to_, peer); }
  /// Returns the ring for what `peer` sends to this rank; null if `peer` is not near.
  Ring* from(core::Rank peer) noexcept { return find(from_, peer); }

private:
  static Ring* find(std::vector<Ring>& rings, core::Rank peer) noexcept {
    const auto at = core::at(peer);
    return at < rings.size() && rings[at] ? &rings[at] : nullptr;
  }
  /// The ring from one rank of the machine to another in the memory of the first; numbers among the
  /// ranks of the machine.
  using RingIn = std::function<Ring(std::span<std::byte> memory, std::size_t from, std::size_t to)>;
  /// @param near    the ranks of this machine
  /// @param places  of their memory, shape: [rank of the job]
  bool map(core::Rank me, std::span<const core::Rank> near, const RingIn& ring,
           const std::vector<core::Bytes>& places);

  std::unique_ptr<transport::local::SharedMemory> memory_;  // what this rank sends: [near peer]
  std::vector<transport::local::Mapping> mappings_;
  std::vector<Ring> to_, from_;  // shape: [rank]
  core::RankCount near_ranks_ = 0;
  std::vector<std::uint32_t> machines_;
  std::uint64_t runs_ = 0;
};

}  // namespace tremula::client::redistribute
