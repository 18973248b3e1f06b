// SPDX-License-Identifier: Apache-2.0
#pragma once
// A frame: the payload's length in 4 bytes, least significant byte first, followed by the payload.
#include <array>
#include <cstddef>
#include <span>

namespace tremula::transport {

inline constexpr std::size_t frame_prefix_bytes = 4;
inline constexpr std::size_t max_frame_payload_bytes = std::size_t{16} << 20;

using FramePrefix = std::array<std::byte, frame_prefix_bytes>;

/// Returns the prefix of a payload of this length.
/// @throws core::Error invalid_argument if the payload is too long for a frame
FramePrefix frame_prefix(std::size_t payload_bytes);
/// Returns how many bytes of payload follow the prefix.
/// @param most  bytes that the payload of this frame may have
/// @throws core::Error protocol if no frame may be that long; refused if the payload exceeds `most`
std::size_t frame_payload_bytes(const FramePrefix& prefix,
                                std::size_t most = max_frame_payload_bytes);

}  // namespace tremula::transport
