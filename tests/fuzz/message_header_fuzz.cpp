// SPDX-License-Identifier: Apache-2.0
// Reads the headers of messages between ranks.
#include <algorithm>

#include "core/error.hpp"
#include "proto/message_header.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace tremula;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = fuzz::view(data, size);
  proto::MessageHeader header;
  try {
    header = proto::decode_message_header(bytes);
  } catch (const core::Error&) {
    return 0;
  }
  fuzz::require(std::ranges::equal(proto::encode(header), bytes.first(proto::message_header_bytes)),
                "a header that is accepted has one encoding");
  return 0;
}
