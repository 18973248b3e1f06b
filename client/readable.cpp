// SPDX-License-Identifier: Apache-2.0
#include "client/readable.hpp"

#include <algorithm>

namespace tremula::client {

const transport::MemoryRegion* Readable::offer(transport::Endpoint& endpoint,
                                               std::span<const std::byte> local,
                                               const std::optional<transport::local::Loan>& loan) {
  const std::uint64_t allocation = loan ? loan->place.region : 0;
  const auto known = std::ranges::find_if(regions_, [&](const Region& r) {
    return allocation != 0 && r.allocation == allocation && r.bytes.data() == local.data() &&
           r.bytes.size() == local.size();
  });
  if (known != regions_.end()) {
    std::rotate(known, known + 1, regions_.end());  // the latest one is the last
    return regions_.back().region.get();
  }
  if (regions_.size() == kept_at_most) regions_.erase(regions_.begin());
  // Nobody writes to it: the region is only for reading.
  const std::span<std::byte> bytes(const_cast<std::byte*>(local.data()), local.size());
  auto region = endpoint.register_memory(bytes, transport::Access::peers_read);
  if (region == nullptr) return nullptr;
  regions_.push_back({local, allocation, std::move(region)});
  return regions_.back().region.get();
}

void Readable::end_step() noexcept {
  std::erase_if(regions_, [](const Region& r) { return r.allocation == 0; });
}

}  // namespace tremula::client
