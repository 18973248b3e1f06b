// SPDX-License-Identifier: Apache-2.0
#include "client/exchange/memory/readable.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace tremula::client {

const transport::MemoryRegion* Readable::offer(transport::Endpoint& endpoint,
                                               std::span<const std::byte> local,
                                               const std::optional<transport::local::Loan>& loan) {
  const auto file = loan ? loan->file : nullptr;
  const auto overlaps = [&](const Region& r) {
    return r.bytes.data() < local.data() + local.size() &&
           local.data() < r.bytes.data() + r.bytes.size();
  };
  // The same addresses may have come back as other memory.
  std::erase_if(regions_, [&](const Region& r) {
    const auto allocation = r.allocation.lock();
    return allocation == nullptr || (overlaps(r) && allocation != file);
  });
  const auto known = std::ranges::find_if(regions_, [&](const Region& r) {
    return r.bytes.data() == local.data() && r.bytes.size() == local.size();
  });
  if (known != regions_.end()) {
    std::rotate(known, known + 1, regions_.end());  // the latest one is the last
    return regions_.back().region.get();
  }
  if (regions_.size() == kept_at_most) regions_.erase(regions_.begin());
  // Nobody writes to it: the region is only for reading.
  const std::span<std::byte> bytes(const_cast<std::byte*>(local.data()), local.size());
  std::unique_ptr<transport::MemoryRegion> region;
  try {
    region = endpoint.register_memory(bytes, transport::Access::peers_read);
  } catch (const core::Error&) {  // too much of it is locked, say: it goes in messages
  }
  if (region == nullptr) return nullptr;
  regions_.push_back({local, file, std::move(region)});
  return regions_.back().region.get();
}

void Readable::end_step() noexcept {
  std::erase_if(regions_, [](const Region& r) { return r.allocation.expired(); });
}

}  // namespace tremula::client
