// SPDX-License-Identifier: Apache-2.0
// Reads messages from a session to the server.
#include "proto/convert.hpp"
#include "tests/fuzz/fields.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace tremula;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = fuzz::view(data, size);
  wire::ToServer message;
  try {
    message = proto::parse_to_server(bytes);
  } catch (const core::Error&) {
    proto::request_number(bytes);
    return 0;
  }
  fuzz::require(proto::request_number(bytes) == message.request(), "the request has one number");
  const core::Bytes again = proto::serialise(message);
  fuzz::require(proto::serialise(proto::parse_to_server(again)) == again, "a message is read back");
  fuzz::check_fields(message.announce().fields());
  fuzz::check_fields(message.subscribe().fields());
  for (const auto& stream : message.resume().streams()) fuzz::check_fields(stream.fields());
  for (const auto& link : message.resume().links()) fuzz::check_fields(link.fields());
  return 0;
}
