// SPDX-License-Identifier: Apache-2.0
#pragma once
// The place of a part of a step: where it is, or where to write it, if it is not sent in the
// message itself (WIRE_FORMAT.md).
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/types.hpp"
#include "index_calc/layout/layout.hpp"

namespace tremula::proto {

struct PartPlace {
  /// The path of the part; the values are the numbers on the wire.
  enum class Kind : std::uint16_t {
    on_demand = 0,  ///< sent in chunks on request
    shared = 1,     ///< packed, in memory that both sides map
    lent = 2,       ///< in a rank's local array, in memory that both sides map
    ring = 3,       ///< sent on request through a ring in memory that both sides map
    rma = 4,        ///< in a rank's local array, which the peer can read
    staged = 5,     ///< packed and sent
    inlined = 6,    ///< after this place, in the same message
  };
  Kind kind = Kind::on_demand;
  std::uint64_t part = 0;   ///< number of the first part in the message
  std::uint64_t count = 1;  ///< how many parts take this path; the first of them is `part`
  std::array<std::uint64_t, 4> memory{};  ///< memory of the transport; 0 if the path needs none
  core::Index first = 0;      ///< lent, rma: first element of the local part; ring: slots
  core::Index allocated = 0;  ///< lent, rma: elements of the array; ring: bytes of a slot
  std::array<core::Index, index_calc::max_dimensions> stride{};  ///< lent, rma: strides, elements
  friend bool operator==(const PartPlace&, const PartPlace&) = default;
};

inline constexpr std::size_t part_place_bytes = 128;

void encode(const PartPlace& place, std::span<std::byte, part_place_bytes> out) noexcept;
/// Reverses encode(). For untrusted bytes. Does not check whether the kind is known.
/// @throws core::Error protocol naming what was expected and found: too short, a path's number
///         above 65535, or no part
PartPlace decode_part_place(core::BytesView bytes);

}  // namespace tremula::proto
