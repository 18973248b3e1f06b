// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where a part of a step lies, or shall go, when it does not travel in the message itself
// (WIRE_FORMAT.md).
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/types.hpp"
#include "index_calc/layout/layout.hpp"

namespace tremula::proto {

struct PartPlace {
  enum class Kind : std::uint64_t {
    messages = 0,  ///< nowhere yet: it is sent in pieces when it is asked for
    packed = 1,    ///< in wire order, in memory that both sides map
    local = 2,     ///< in a rank's local buffer, in memory that both sides map
    ring = 3,      ///< nowhere yet: when it is asked for it comes through a ring in that memory
    readable = 4,  ///< in a rank's local buffer, which the peer can read (RMA)
  };
  Kind kind = Kind::messages;
  std::uint64_t part = 0;                 ///< number in the message
  std::array<std::uint64_t, 4> memory{};  ///< the transport's; 0 for kind messages
  core::Index first = 0;                  ///< local, readable: of the local part; ring: slots
  core::Index allocated = 0;              ///< local, readable: elements; ring: bytes of a slot
  std::array<core::Index, index_calc::max_dimensions> stride{};  ///< local, readable: as first
  friend bool operator==(const PartPlace&, const PartPlace&) = default;
};

inline constexpr std::size_t part_place_bytes = 128;

void encode(const PartPlace& place, std::span<std::byte, part_place_bytes> out) noexcept;
/// @throws core::Error protocol naming what was expected and found: too short, an unknown kind
PartPlace decode_part_place(core::BytesView bytes);

}  // namespace tremula::proto
