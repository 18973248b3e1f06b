// SPDX-License-Identifier: Apache-2.0
// Reads attributes, both those of a step, which ranks send to each other, and those of streams and
// fields, which control messages contain.
#include <algorithm>

#include "core/error.hpp"
#include "proto/attributes.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace tremula;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = fuzz::view(data, size);
  proto::Attributes attributes;
  try {
    attributes = proto::decode_attributes(bytes);
  } catch (const core::Error& error) {
    fuzz::require(error.code() == core::Errc::protocol, "refused bytes are not a mistake of ours");
    return 0;
  }
  fuzz::require(std::ranges::equal(proto::encode(attributes), bytes),
                "attributes that are accepted have one encoding");
  fuzz::require(attributes.encoded_bytes() == size && attributes.all().size() <= 1024,
                "attributes are inside their bounds");
  proto::to_json(attributes);
  return 0;
}
