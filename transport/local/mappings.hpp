// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "transport/local/shared_memory.hpp"

namespace tremula::transport::local {

/// Memory of peers, which stays mapped until its owner has abandoned it. Not thread-safe.
class Mappings {
public:
  /// Returns `bytes` bytes of a peer at `place`. Valid until forget_abandoned() unmaps them.
  /// @throws core::Error as Mapping; transport if the memory is too short
  std::span<std::byte> find(const MemoryPlace& place, std::size_t bytes, bool is_writable);
  /// Unmaps memory that its owner has abandoned, `keep` turns after a call has found it abandoned:
  /// until then, parts that the owner has announced may still be read.
  /// @param turn  never less than in the previous call
  /// @return whether anything was unmapped
  bool forget_abandoned(std::uint64_t turn = 0, std::uint64_t keep = 0);

private:
  struct Mapped {
    Mapping mapping;
    bool is_writable;
    std::optional<std::uint64_t> abandoned_at{};  // turn
  };
  std::vector<Mapped> mapped_;
};

}  // namespace tremula::transport::local
