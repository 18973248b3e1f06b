// SPDX-License-Identifier: Apache-2.0
// Reads messages from the server to a session.
#include "proto/convert.hpp"
#include "tests/fuzz/fields.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace tremula;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  wire::ToClient message;
  try {
    message = proto::parse_to_client(fuzz::view(data, size));
  } catch (const core::Error&) {
    return 0;
  }
  const core::Bytes again = proto::serialise(message);
  fuzz::require(proto::serialise(proto::parse_to_client(again)) == again, "a message is read back");
  fuzz::check_fields(message.matched().fields());
  fuzz::check_fields(message.described().fields());
  if (message.has_refused()) proto::decode(message.refused());
  return 0;
}
