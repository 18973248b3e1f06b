// SPDX-License-Identifier: Apache-2.0
#include "client/exchange/exchange.hpp"

#include <fmt/format.h>

#include <limits>

namespace tremula::client {

PeerBuffer buffer_of(const proto::PartPlace& place, std::size_t dimensions,
                     std::size_t element_bytes, transport::local::Mappings& mappings,
                     bool is_writable) {
  const auto limit = std::numeric_limits<std::int64_t>::max() / static_cast<Index>(element_bytes);
  if (place.kind != proto::PartPlace::Kind::local || place.allocated < 1 || place.allocated > limit)
    throw core::Error(core::Errc::protocol,
                      fmt::format("place of a part: expected a local buffer, found kind {} with {} "
                                  "elements",
                                  static_cast<int>(place.kind), place.allocated));
  PeerBuffer buffer;
  buffer.part.dimensions = dimensions;
  buffer.part.stride = place.stride;
  buffer.part.first = place.first;
  buffer.part.allocated = buffer.part.elements = place.allocated;
  buffer.bytes =
      mappings.find(place_from(place.memory),
                    static_cast<std::size_t>(place.allocated) * element_bytes, is_writable);
  return buffer;
}

proto::PackageHeader decode_from(Rank peer, std::uint64_t link, core::BytesView bytes) {
  const auto header = proto::decode_package_header(bytes);
  if (header.link != link)
    throw protocol_error(peer, fmt::format("link {}", link), fmt::format("link {}", header.link));
  return header;
}

}  // namespace tremula::client
