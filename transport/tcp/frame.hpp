// SPDX-License-Identifier: Apache-2.0
#pragma once
// Frames of a connection whose two ends have proved themselves, and their limits. Private to this
// folder.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tremula::transport::tcp {

/// Kinds of frames. Each comment names the end that sends the frame, then the fields that it uses.
enum class FrameKind : std::uint32_t {
  message = 1,  ///< sender: tag, bytes; the bytes follow
  announce,     ///< sender: tag, bytes, send; the bytes are sent when they are pulled
  pull,         ///< receiver: send, room
  fetch,        ///< reader: tag and send are the key of the region; offset, bytes, room
  data,         ///< answers pull or fetch: bytes, room; the bytes follow
  done,         ///< receiver: send; no more of its bytes are needed
  gone,         ///< answers pull or fetch: room; there is nothing to send
  credit,       ///< receiver: bytes that messages may use again
};

/// `send` and `room` number operations of the end that issued the number. Numbers are in the byte
/// order of the host: the first frame from a host with the other order breaks the protocol
/// (Peer::take).
struct Frame {
  FrameKind kind{};
  std::uint32_t unused = 0;
  std::uint64_t bytes = 0, tag = 0, send = 0, room = 0, offset = 0;
};
static_assert(sizeof(Frame) == 48 && std::is_trivially_copyable_v<Frame>);

/// Bytes of the longest message that is sent without being announced.
inline constexpr std::size_t longest_eager = std::size_t{64} << 10;
/// Bytes of the longest message that is copied together with others; longer ones are written
/// straight from the caller's bytes.
inline constexpr std::size_t longest_copied = std::size_t{8} << 10;
/// Bytes of messages without a receive that an end keeps for one peer.
inline constexpr std::uint64_t window_bytes = std::uint64_t{256} << 10;
/// Returns how many bytes of the window a message takes.
constexpr std::uint64_t cost_of(std::uint64_t bytes) { return bytes + 64; }
/// Bytes per chunk of a large message; other messages have their turn between two chunks.
inline constexpr std::size_t chunk_bytes = std::size_t{1} << 20;
/// Limits on what an endpoint keeps for one of its peers; a peer that exceeds one of them is lost.
struct PeerLimits {
  std::size_t announced = 0;  ///< messages without a receive
  std::size_t serves = 0;     ///< reads that are served at a time
  std::size_t unwritten = 0;  ///< bytes of frames that wait until the peer reads them
};
/// Returns the limits of one peer: those of the endpoint, split equally among the `peers` that it
/// expects, but at least `least`. With many peers, the total grows with their number, as the
/// number of sockets does.
constexpr PeerLimits limits_per_peer(std::size_t peers) {
  constexpr PeerLimits all{
      .announced = std::size_t{1} << 20, .serves = 1 << 16, .unwritten = std::size_t{64} << 20};
  constexpr PeerLimits least{.announced = 256, .serves = 256, .unwritten = std::size_t{1} << 20};
  const std::size_t among = std::max<std::size_t>(peers, 1);
  return {.announced = std::max(all.announced / among, least.announced),
          .serves = std::max(all.serves / among, least.serves),
          .unwritten = std::max(all.unwritten / among, least.unwritten)};
}

}  // namespace tremula::transport::tcp
