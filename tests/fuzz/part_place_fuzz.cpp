// SPDX-License-Identifier: Apache-2.0
// Reads the places of the parts in the message of a step.
#include "core/error.hpp"
#include "proto/part_place.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace tremula;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  proto::PartPlace place;
  try {
    place = proto::decode_part_place(fuzz::view(data, size));
  } catch (const core::Error&) {
    return 0;
  }
  std::array<std::byte, proto::part_place_bytes> again{};
  proto::encode(place, again);
  fuzz::require(proto::decode_part_place(again) == place, "a place is read back");
  return 0;
}
