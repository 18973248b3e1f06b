// SPDX-License-Identifier: Apache-2.0
#pragma once
// What goes over a connection once both ends are proved, and how much of it. Private to this folder.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tremula::transport::tcp {

enum class FrameKind : std::uint32_t {
  message = 1,  ///< sender: tag, bytes; the bytes follow
  announce,     ///< sender: tag, bytes, send; they are sent when they are pulled
  pull,         ///< receiver: send, room
  fetch,        ///< reader: tag and send are the key of the region; offset, bytes, room
  data,         ///< answers pull or fetch: bytes, room; the bytes follow
  done,         ///< receiver: send; it needs nothing of it any more
  gone,         ///< answers pull or fetch: room; there is nothing to send
  credit,       ///< receiver: bytes, that messages may take again
};

/// A send and a room are operations of the end that made the number. In memory order: the magic of the
/// opening is a number, so that ends with different orders refuse each other.
struct Frame {
  FrameKind kind{};
  std::uint32_t unused = 0;
  std::uint64_t bytes = 0, tag = 0, send = 0, room = 0, offset = 0;
};
static_assert(sizeof(Frame) == 48 && std::is_trivially_copyable_v<Frame>);

/// Longer messages are announced.
inline constexpr std::size_t longest_eager = std::size_t{64} << 10;
/// Longer ones are written out of the caller's bytes, shorter ones are copied together.
inline constexpr std::size_t longest_copied = std::size_t{8} << 10;
/// What an end keeps of one peer's messages that have no receive yet.
inline constexpr std::uint64_t window_bytes = std::uint64_t{256} << 10;
/// What a message takes of it.
constexpr std::uint64_t cost_of(std::uint64_t bytes) { return bytes + 64; }
/// Between two chunks of a large message others have their turn.
inline constexpr std::size_t chunk_bytes = std::size_t{1} << 20;
/// What an endpoint keeps at most for one of its peers, which is lost when it wants more.
struct Share {
  std::size_t announced = 0;  ///< messages without a receive
  std::size_t serves = 0;     ///< reads that it serves at a time
  std::size_t unwritten = 0;  ///< bytes of frames that wait until the peer reads them
};
/// What it keeps for all of them is dealt equally among those that it expects. Beyond some thousands of
/// peers each costs a little more, as its socket does.
constexpr Share share_of(std::size_t peers) {
  constexpr Share all{
      .announced = std::size_t{1} << 20, .serves = 1 << 16, .unwritten = std::size_t{64} << 20};
  constexpr Share least{.announced = 256, .serves = 256, .unwritten = std::size_t{1} << 20};
  const std::size_t among = std::max<std::size_t>(peers, 1);
  return {.announced = std::max(all.announced / among, least.announced),
          .serves = std::max(all.serves / among, least.serves),
          .unwritten = std::max(all.unwritten / among, least.unwritten)};
}

}  // namespace tremula::transport::tcp
