// SPDX-License-Identifier: Apache-2.0
#pragma once
// A frame: 4 bytes, the payload's length, least significant byte first; then the payload.
#include <array>
#include <cstddef>
#include <span>

namespace tremula::transport {

inline constexpr std::size_t frame_prefix_bytes = 4;
inline constexpr std::size_t max_frame_payload_bytes = std::size_t{16} << 20;

using FramePrefix = std::array<std::byte, frame_prefix_bytes>;

/// @throws core::Error invalid_argument if the payload is too long for a frame
FramePrefix frame_prefix(std::size_t payload_bytes);
/// @param most  that this frame may have
/// @return bytes of the payload that follows
/// @throws core::Error protocol if they are more than that
std::size_t frame_payload_bytes(const FramePrefix& prefix,
                                std::size_t most = max_frame_payload_bytes);

}  // namespace tremula::transport
