// SPDX-License-Identifier: Apache-2.0
#include "transport/local/mappings.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"

namespace tremula::transport::local {

std::span<std::byte> Mappings::find(const MemoryPlace& place, std::size_t bytes, bool is_writable) {
  auto found = std::find_if(mapped_.begin(), mapped_.end(), [&](const Mapped& m) {
    return m.mapping.region() == place.region && m.is_writable == is_writable;
  });
  if (found == mapped_.end()) {
    mapped_.push_back({Mapping(place, is_writable), is_writable});
    found = std::prev(mapped_.end());
  }
  const auto all = found->mapping.bytes();
  if (place.offset > all.size() || bytes > all.size() - place.offset)
    throw core::Error(
        core::Errc::transport,
        fmt::format("shared memory of process {}: expected {} bytes at offset {}, found "
                    "{} bytes of memory",
                    place.process, bytes, place.offset, all.size()));
  return all.subspan(place.offset, bytes);
}

bool Mappings::forget_abandoned(std::uint64_t turn, std::uint64_t keep) {
  return std::erase_if(mapped_, [&](Mapped& m) {
           if (!m.abandoned_at && m.mapping.is_abandoned()) m.abandoned_at = turn;
           return m.abandoned_at && turn - *m.abandoned_at >= keep;
         }) > 0;
}

}  // namespace tremula::transport::local
