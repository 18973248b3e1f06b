// SPDX-License-Identifier: Apache-2.0
#pragma once
// The 64 bytes in front of everything that goes from rank to rank (WIRE_FORMAT.md).
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/types.hpp"

namespace tremula::proto {

/// What a package says.
enum class PackageKind : std::uint16_t {
  data = 1,  ///< producer to consumer: the payload is one step (of no bytes where the ranks share
             ///< nothing)
  end_of_stream = 2,  ///< producer to consumer: `step` steps were sent, no step follows
  credit = 3,         ///< consumer to producer: `step` was consumed, its place in the queue is free
  leaving = 4,        ///< consumer to producer: wants no step from `step` on
  placed = 5,     ///< producer to consumer, instead of data: the payload tells where each part lies
  ask = 6,        ///< consumer to producer: send that part now; the payload is a place of one's own
  delivered = 7,  ///< producer to consumer: the part asked for lies in the place that came with it
};

struct PackageHeader {
  PackageKind kind = PackageKind::data;
  std::uint64_t link = 0;  ///< Matched.link
  std::uint64_t step = 0;  ///< 0, 1, 2, ... counted by the producer
  std::uint64_t payload_bytes =
      0;  ///< that follow the header; 0 unless kind is data, placed or ask
  std::uint64_t fingerprint =
      0;  ///< of the plan, equal on both sides; 0 where the kind carries none
  friend bool operator==(const PackageHeader&, const PackageHeader&) = default;
};

inline constexpr std::size_t package_header_bytes = 64;

/// Writes the header in front of a package. Allocates nothing.
void encode(const PackageHeader& header, std::span<std::byte, package_header_bytes> out) noexcept;
std::array<std::byte, package_header_bytes> encode(const PackageHeader& header) noexcept;

/// @param bytes  a received package; its first package_header_bytes are read
/// @throws core::Error protocol naming the part, what was expected and what was found: too short,
/// wrong magic or
///         version, unknown kind, payload where none may be, reserved bytes that are not zero
PackageHeader decode_package_header(core::BytesView bytes);

}  // namespace tremula::proto
