// SPDX-License-Identifier: Apache-2.0
#include "proto/part_place.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "core/error.hpp"

namespace tremula::proto {

namespace {

using Words = std::array<std::uint64_t, part_place_bytes / 8>;

constexpr std::uint64_t little(std::uint64_t word) {
  return std::endian::native == std::endian::little ? word : __builtin_bswap64(word);
}

}  // namespace

void encode(const PartPlace& place, std::span<std::byte, part_place_bytes> out) noexcept {
  Words words{static_cast<std::uint64_t>(place.kind),
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
  Words words;
  std::memcpy(words.data(), bytes.data(), part_place_bytes);
  for (auto& word : words) word = little(word);
  if (words[0] > 4)
    throw core::Error(core::Errc::protocol,
                      fmt::format("place of a part: expected a kind from 0 to 4, found {}; do both "
                                  "sides run the same Tremula?",
                                  words[0]));
  PartPlace place{.kind = static_cast<PartPlace::Kind>(words[0]),
                  .part = words[1],
                  .memory = {words[2], words[3], words[4], words[5]},
                  .first = static_cast<core::Index>(words[6]),
                  .allocated = static_cast<core::Index>(words[7]),
                  .stride = {}};
  for (std::size_t d = 0; d < place.stride.size(); ++d)
    place.stride[d] = static_cast<core::Index>(words[8 + d]);
  return place;
}

}  // namespace tremula::proto
