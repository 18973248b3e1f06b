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

/// Rings in shared memory between the ranks of one job that are on one machine: what one rank packs
/// into a slot another unpacks out of it, and nothing in between copies or waits for a handshake.
/// Data pushed stays readable as long as the peer's NearRings lives.
class NearRings {
public:
  /// Every rank gets what every rank passed. Shape: [rank]
  using Allgather = std::function<std::vector<core::Bytes>(core::Bytes)>;
  using Ring = transport::local::ChunkRing;

  /// None.
  NearRings() = default;
  /// Bytes that a slot holds behind its head, where so many ranks of the job are on one machine.
  using ChunkBytes = std::size_t (*)(core::Rank near_ranks);

  /// Collective. There are rings between all ranks of a machine, or none at all where memory cannot
  /// be shared.
  /// @param machines  identities, shape: [rank]; ranks with equal ones can map each other's memory
  NearRings(core::Rank me, ChunkBytes chunk_bytes, std::span<const core::Bytes> machines,
            const Allgather& allgather);
  NearRings(NearRings&&) = default;
  NearRings& operator=(NearRings&&) = default;
  ~NearRings() { close(); }
  /// Tells the others that this rank sends and takes no more.
  void close() noexcept {
    for (Ring& ring : to_)
      if (ring) ring.close();
  }

  /// Counts runs, also those that this rank refuses: ranks that are not at the same one are
  /// noticed.
  void begin_run() noexcept { ++runs_; }
  std::uint64_t runs() const noexcept { return runs_; }

  /// Ranks on this machine, this one included; 0: without rings.
  core::Rank near_ranks() const noexcept { return near_ranks_; }
  /// Of each rank of the job; ranks of one machine have one number. The same on all ranks.
  std::span<const std::uint32_t> machines() const noexcept { return machines_; }
  /// What this rank shares with them.
  std::size_t memory_bytes() const noexcept { return memory_ ? memory_->bytes().size() : 0; }

  /// Of what this rank sends to `peer`; null if that is not near.
  Ring* to(core::Rank peer) noexcept { return find(to_, peer); }
  /// Of what `peer` sends to this rank.
  Ring* from(core::Rank peer) noexcept { return find(from_, peer); }

private:
  static Ring* find(std::vector<Ring>& rings, core::Rank peer) noexcept {
    const auto at = static_cast<std::size_t>(peer);
    return at < rings.size() && rings[at] ? &rings[at] : nullptr;
  }
  /// The ring from one rank of the machine to another in the memory of the first; numbers among the
  /// ranks of the machine.
  using RingIn = std::function<Ring(std::span<std::byte> memory, std::size_t from, std::size_t to)>;
  /// @param near    the ranks of this machine
  /// @param places  of their memory, shape: [rank of the job]
  bool map(std::size_t me, std::span<const std::size_t> near, const RingIn& ring,
           const std::vector<core::Bytes>& places);

  std::unique_ptr<transport::local::SharedMemory> memory_;  // what this rank sends: [near peer]
  std::vector<transport::local::Mapping> mappings_;
  std::vector<Ring> to_, from_;  // shape: [rank]
  core::Rank near_ranks_ = 0;
  std::vector<std::uint32_t> machines_;
  std::uint64_t runs_ = 0;
};

}  // namespace tremula::client::redistribute
