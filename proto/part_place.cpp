// SPDX-License-Identifier: Apache-2.0
#include "proto/part_place.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "core/error.hpp"

namespace tremula::proto {

namespace {

using EncodedPlace = std::array<std::uint64_t, part_place_bytes / 8>;

constexpr std::uint64_t little(std::uint64_t word) {
  return std::endian::native == std::endian::little ? word : __builtin_bswap64(word);
}

}  // namespace

void encode(const PartPlace& place, std::span<std::byte, part_place_bytes> out) noexcept {
  EncodedPlace words{static_cast<std::uint64_t>(place.kind) | place.count << 32,
                     place.part,
                     place.memory[0],
                     place.memory[1],
                     place.memory[2],
                     place.memory[3],
                     static_cast<std::uint64_t>(place.first),
                     static_cast<std::uint64_t>(place.allocated)};
  for (std::size_t d = 0; d < place.stride.size(); ++d)
    words[8 + d] = static_cast<std::uint64_t>(place.stride[d]);
  for (auto& word : words) word = little(word);
  std::memcpy(out.data(), words.data(), part_place_bytes);
}

PartPlace decode_part_place(core::BytesView bytes) {
  if (bytes.size() < part_place_bytes)
    throw core::Error(core::Errc::protocol,
                      fmt::format("place of a part: expected {} bytes, found {}", part_place_bytes,
                                  bytes.size()));
  EncodedPlace words;
  std::memcpy(words.data(), bytes.data(), part_place_bytes);
  for (auto& word : words) word = little(word);
  constexpr std::uint64_t largest_kind = 0xffff;
  if ((words[0] & 0xffffffff) > largest_kind || words[0] >> 32 == 0)
    throw core::Error(core::Errc::protocol,
                      fmt::format("place of a part: expected a path's number up to {} and at least "
                                  "one part, found {} and {}; do both sides run the same Tremula?",
                                  largest_kind, words[0] & 0xffffffff, words[0] >> 32));
  PartPlace place{.kind = static_cast<PartPlace::Kind>(words[0] & largest_kind),
                  .part = words[1],
                  .count = words[0] >> 32,
                  .memory = {words[2], words[3], words[4], words[5]},
                  .first = static_cast<core::Index>(words[6]),
                  .allocated = static_cast<core::Index>(words[7]),
                  .stride = {}};
  for (std::size_t d = 0; d < place.stride.size(); ++d)
    place.stride[d] = static_cast<core::Index>(words[8 + d]);
  return place;
}

}  // namespace tremula::proto
