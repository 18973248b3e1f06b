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
/// memory came from allocate(): of other memory nobody would know that it had been given back, and
/// where registering costs much, the provider keeps registrations itself, for it sees that.
class Readable {
public:
  /// Null if peers cannot read it, or it cannot be registered. At most `kept_at_most` regions are
  /// kept, the latest ones, and none of memory that is no more.
  /// @param loan  of `local`, if it came from allocate()
  const transport::MemoryRegion* offer(transport::Endpoint& endpoint,
                                       std::span<const std::byte> local,
                                       const std::optional<transport::local::Loan>& loan);
  /// The step is over: what is the application's alone is not read any more.
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
