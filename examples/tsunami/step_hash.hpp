// SPDX-License-Identifier: Apache-2.0
#pragma once
// A hash of one step of a distributed field, independent of the distribution. Both jobs compute it
// over the elements in their own memory, and equal hashes mean equal fields.
#include <mpi.h>

#include <bit>
#include <cstdint>
#include <vector>

#include "grid.hpp"

namespace tsunami {

/// Mixes bits one to one; every bit of the input changes half of the bits of the output. Source:
/// splitmix64 by S. Vigna (public domain).
inline std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/// The sum modulo 2^64, over the added elements, of mixed(step, global index, bits of the value).
class StepHash {
public:
  explicit StepHash(Index step) : start_(mixed(static_cast<std::uint64_t>(step) + 1)) {}

  /// Adds `count` elements that are consecutive in the global order, the first with number `first`.
  void add(Index first, const float* values, Index count) {
    // Multiples of the golden ratio are more than 2^32 apart; if they were closer, two different
    // pairs (index, value) could coincide.
    constexpr std::uint64_t golden = 0x9e3779b97f4a7c15U;
    std::uint64_t place = start_ + golden * static_cast<std::uint64_t>(first);
    for (Index i = 0; i < count; ++i, place += golden) {
      sum_ += mixed(place + std::bit_cast<std::uint32_t>(values[i]));
    }
  }
  std::uint64_t sum() const { return sum_; }

private:
  std::uint64_t start_, sum_ = 0;
};

/// Adds up the hashes of all ranks' parts, which gives those of the whole field. Collective.
inline void add_over_ranks(std::vector<std::uint64_t>& hashes, MPI_Comm comm) {
  static_assert(sizeof(unsigned long) == sizeof(std::uint64_t));
  MPI_Allreduce(MPI_IN_PLACE, hashes.data(), static_cast<int>(hashes.size()), MPI_UNSIGNED_LONG,
                MPI_SUM, comm);
}

}  // namespace tsunami
