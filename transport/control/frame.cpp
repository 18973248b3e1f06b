// SPDX-License-Identifier: Apache-2.0
#include "transport/control/frame.hpp"

#include <fmt/format.h>

#include "core/error.hpp"

namespace tremula::transport {

FramePrefix frame_prefix(std::size_t payload_bytes) {
  if (payload_bytes > max_frame_payload_bytes)
    throw core::Error(core::Errc::invalid_argument,
                      fmt::format("control frame: expected at most {} bytes, found {}",
                                  max_frame_payload_bytes, payload_bytes));
  FramePrefix prefix;
  for (std::size_t i = 0; i < prefix.size(); ++i)
    prefix[i] = static_cast<std::byte>(payload_bytes >> (8 * i));
  return prefix;
}

std::size_t frame_payload_bytes(const FramePrefix& prefix, std::size_t most) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < prefix.size(); ++i)
    bytes |= std::to_integer<std::size_t>(prefix[i]) << (8 * i);
  if (bytes > max_frame_payload_bytes)
    throw core::Error(core::Errc::protocol,
                      fmt::format("control frame: expected a length of at most {} bytes, found {}; "
                                  "the other side does not speak this protocol",
                                  max_frame_payload_bytes, bytes));
  if (bytes > most)
    throw core::Error(core::Errc::refused,
                      fmt::format("control frame: expected at most {} bytes from this connection "
                                  "at this moment, found {}",
                                  most, bytes));
  return bytes;
}

}  // namespace tremula::transport
