// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "transport/local/shared_memory.hpp"

namespace tremula::transport::local {

/// Memory of peers, mapped for as long as its owner needs it. Not thread-safe.
class Mappings {
public:
  /// `bytes` bytes of a peer at `place`. Valid until forget_abandoned().
  /// @throws core::Error as Mapping; transport if the memory ends before them
  std::span<std::byte> find(const MemoryPlace& place, std::size_t bytes, bool is_writable);
  /// Unmaps memory that its owner needs no longer.
  /// @return whether there was any
  bool forget_abandoned();

private:
  struct Mapped {
    Mapping mapping;
    bool is_writable;
  };
  std::vector<Mapped> mapped_;
};

}  // namespace tremula::transport::local
