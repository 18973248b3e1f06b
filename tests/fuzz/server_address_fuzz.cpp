// SPDX-License-Identifier: Apache-2.0
// Reads the address of a server, as a user writes it and as a port file contains it.
#include "core/error.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "transport/control/address.hpp"

using namespace tremula;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  transport::HostPort address;
  try {
    address = transport::parse_host_port(fuzz::text(data, size));
  } catch (const core::Error&) {
    return 0;
  }
  fuzz::require(transport::parse_host_port(transport::to_string(address)) == address,
                "the text of an address is read back");
  return 0;
}
