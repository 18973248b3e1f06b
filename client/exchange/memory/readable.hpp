// SPDX-License-Identifier: Apache-2.0
#pragma once
// Local buffers that far peers read while a step is lent to them (RMA).
#include <memory>
#include <optional>
#include <vector>

#include "transport/local/shared_memory.hpp"
#include "transport/transport.hpp"

namespace tremula::client {

/// The memory regions of one field's local buffers. A region is kept for the next step only if its
/// memory came from allocate(): this class cannot notice that other memory has been freed. Where
/// registering is expensive, the provider, which can notice, caches registrations itself.
class Readable {
public:
  /// Returns the region by which peers read `local`; null if they cannot, or if registering fails.
  /// Keeps at most `kept_at_most` regions, the most recent ones, and none whose memory was freed.
  /// @param loan  loan of `local`; nullopt if it did not come from allocate()
  const transport::MemoryRegion* offer(transport::Endpoint& endpoint,
                                       std::span<const std::byte> local,
                                       const std::optional<transport::local::Loan>& loan);
  /// Drops, at the end of a step, the regions whose memory did not come from allocate() or was
  /// freed.
  void end_step() noexcept;
  void forget() noexcept { regions_.clear(); }

private:
  static constexpr std::size_t kept_at_most = 4;  // arrays that take turns
  struct Region {
    std::span<const std::byte> bytes;
    std::weak_ptr<const transport::local::SharedFile> allocation;  // none for other memory
    std::unique_ptr<transport::MemoryRegion> region;
  };
  std::vector<Region> regions_;
};

}  // namespace tremula::client
