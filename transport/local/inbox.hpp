// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory that two processes share. Private to this folder.
//
// An endpoint has one inbox, in memory that its peers map (shared_memory.hpp), with one lane per peer,
// which carries everything from that peer and nothing else. A lane has one writer and one
// reader, and neither waits for the other inside a call, so a process that stops or dies does not
// hold up any other.
//
//   inbox:  head | owners of the lanes | bells | lane 0 | lane 1 | ...
//   lane:   counters | ring of commands and small messages | ring of large messages' bytes
//
// Only written memory takes up room: a lane takes 4 KiB when it is connected, 40 KiB
// once small messages have gone round its ring, and 296 KiB once large ones have.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "transport/transport.hpp"

namespace tremula::transport::local {

/// Bytes of the longest message that the ring of commands carries.
inline constexpr std::size_t eager_bytes = 4096;
/// Bytes of a lane's ring for large messages.
inline constexpr std::size_t data_bytes = std::size_t{256} << 10;

/// Kinds of commands. Each comment says what the command means for its message.
enum class CommandKind : std::uint8_t {
  none,      ///< not written yet
  eager,     ///< a complete small message
  announce,  ///< a large message, to be pulled
  pull,      ///< to the sender: write its bytes
  refuse,    ///< to the sender: its receive was too short, so it will not be pulled
  rewind,    ///< to the sender: its receive was given up; stop writing, it may be pulled again
  cut,       ///< answer to rewind: how many of its bytes have been written
  revoke,    ///< its send was given up; how many of its bytes had been written
};

/// Identifies the sender's operation of a large message.
struct Id {
  std::uint64_t operation, number;
  friend bool operator==(const Id&, const Id&) = default;
};
/// Payload of every command except eager.
struct Body {
  Id id;
  std::uint64_t bytes;
};

/// A cache line of the ring of commands. A command begins at a line and takes as many lines as it needs.
struct alignas(64) CommandLine {
  std::atomic<std::uint64_t> word;  ///< written last: CommandKind + 256 * bytes of the payload
  Tag tag;
};
inline constexpr std::size_t command_lines = 512, payload_at = 16;
constexpr std::size_t lines_of(std::size_t payload_bytes) {
  return (payload_at + payload_bytes + sizeof(CommandLine) - 1) / sizeof(CommandLine);
}

struct alignas(4096) Lane {
  // written by the sender
  alignas(64) std::atomic<std::uint64_t> is_connected;
  alignas(64) std::atomic<std::uint64_t> data_written;  ///< total bytes
  // written by the receiver
  alignas(64) std::atomic<std::uint64_t> lines_read;  ///< total
  std::atomic<std::uint64_t> eager_lines_freed;       ///< of small messages that have been received
  alignas(64) std::atomic<std::uint64_t> data_read;   ///< total bytes

  /// Lines beyond `command_lines` extend the ring, so that no command is split at its end.
  alignas(64) std::array<CommandLine, command_lines + lines_of(eager_bytes) - 1> commands;
  alignas(4096) std::array<std::byte, data_bytes> data;

  std::byte* payload(std::size_t line) noexcept {
    return reinterpret_cast<std::byte*>(commands.data()) + line * sizeof(CommandLine) + payload_at;
  }
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(CommandLine) == 64);
static_assert(sizeof(Lane) == (40u << 10) + data_bytes);

/// The most lanes that an endpoint polls one by one; with more lanes, a peer that has written also
/// rings a bell.
inline constexpr std::size_t lanes_without_bells = 8;

/// A view of an inbox, the same for its owner and for the peers.
class Inbox {
public:
  /// Makes an inbox in `memory`.
  /// @param memory  `bytes_for` bytes or more, zeroed
  /// @param owners  index = lane: region of the locator of the peer that writes to the lane
  static Inbox make(std::span<std::byte> memory, std::span<const std::uint64_t> owners);
  static std::size_t bytes_for(std::size_t lanes);
  /// Views the inbox of a peer.
  /// @throws core::Error transport if `memory` is not an inbox
  explicit Inbox(std::span<std::byte> memory);

  std::size_t lanes() const noexcept;
  bool has_bells() const noexcept { return lanes() > lanes_without_bells; }
  Lane& lane(std::size_t index) const noexcept;
  /// Returns the bells: one bit per lane, 64 lanes per word. The peer that writes to a lane sets
  /// the bit when it has written a command.
  std::span<std::atomic<std::uint64_t>> bells() const noexcept;
  /// Returns the lane to which the peer with this locator writes; nullopt if there is none.
  std::optional<std::size_t> lane_of(std::uint64_t owner) const noexcept;

private:
  struct Head;
  Head& head() const noexcept;
  std::span<std::uint64_t> owners() const noexcept;

  std::span<std::byte> memory_;
};

}  // namespace tremula::transport::local
