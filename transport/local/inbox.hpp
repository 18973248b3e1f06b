// SPDX-License-Identifier: Apache-2.0
#pragma once
// What two processes share. Private to this folder.
//
// An endpoint has one inbox, in memory that its peers map (shared_memory.hpp), with a lane for each
// of them: all that comes from this peer, and nothing else. A lane has one writer and one reader,
// and neither waits for the other inside a call, so a process that stops or dies holds up nobody.
//
//   inbox:  head | owners of the lanes | bells | lane 0 | lane 1 | ...
//   lane:   counters | ring of commands and small messages | ring of large messages' bytes
//
// Memory is taken where it was written to: a lane takes 4 KiB when it is connected, 40 KiB when
// small messages have gone round its ring, and 296 KiB when large ones have.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "transport/transport.hpp"

namespace tremula::transport::local {

/// Longest message that goes through the ring of commands.
inline constexpr std::size_t eager_bytes = 4096;
inline constexpr std::size_t data_bytes = std::size_t{256} << 10;

enum class Kind : std::uint8_t {
  none,      ///< not written yet
  eager,     ///< a small message, whole
  announce,  ///< a large message, to be pulled
  pull,      ///< to the sender: write its bytes
  refuse,    ///< to the sender: it will not be pulled, for its receive was too short
  rewind,    ///< to the sender: its receive was given up; stop, it may be pulled again
  cut,       ///< answer to rewind: so many of its bytes have been written
  revoke,    ///< its send was given up when so many of its bytes had been written
};

/// Which of the sender's operations a large message is.
struct Id {
  std::uint64_t operation, number;
  friend bool operator==(const Id&, const Id&) = default;
};
/// Payload of every command but eager.
struct Body {
  Id id;
  std::uint64_t bytes;
};

/// A command begins in a slot and goes on through the following ones.
struct alignas(64) Slot {
  std::atomic<std::uint64_t> word;  ///< written last: Kind + 256 * bytes of the payload
  Tag tag;
};
inline constexpr std::size_t slots = 512, payload_at = 16;
constexpr std::size_t slots_of(std::size_t payload_bytes) {
  return (payload_at + payload_bytes + sizeof(Slot) - 1) / sizeof(Slot);
}

struct alignas(4096) Lane {
  // written by the sender
  alignas(64) std::atomic<std::uint64_t> is_connected;
  alignas(64) std::atomic<std::uint64_t> data_written;  ///< bytes ever
  // written by the receiver
  alignas(64) std::atomic<std::uint64_t> slots_read;  ///< ever
  std::atomic<std::uint64_t> eager_slots_freed;       ///< of small messages that met their receives
  alignas(64) std::atomic<std::uint64_t> data_read;   ///< bytes ever

  /// The last ones are behind the end of the ring, so that no command is split.
  alignas(64) std::array<Slot, slots + slots_of(eager_bytes) - 1> commands;
  alignas(4096) std::array<std::byte, data_bytes> data;

  std::byte* payload(std::size_t slot) noexcept {
    return reinterpret_cast<std::byte*>(commands.data()) + slot * sizeof(Slot) + payload_at;
  }
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(Slot) == 64);
static_assert(sizeof(Lane) == (40u << 10) + data_bytes);

/// An endpoint with more peers does not look into all lanes: a peer then rings its bell.
inline constexpr std::size_t lanes_without_bells = 8;

/// The view of an inbox, the same for its owner and for the peers.
class Inbox {
public:
  /// @param memory  of `bytes_for` bytes or more, zeroed
  /// @param owners  region of the door of who writes into it, index = lane
  static Inbox make(std::span<std::byte> memory, std::span<const std::uint64_t> owners);
  static std::size_t bytes_for(std::size_t lanes);
  /// Of a peer.
  /// @throws core::Error transport if that is no inbox
  explicit Inbox(std::span<std::byte> memory);

  std::size_t lanes() const noexcept;
  bool has_bells() const noexcept { return lanes() > lanes_without_bells; }
  Lane& lane(std::size_t index) const noexcept;
  /// 64 lanes each, a bit that is set by the peer: commands may have come.
  std::span<std::atomic<std::uint64_t>> bells() const noexcept;
  std::optional<std::size_t> lane_of(std::uint64_t owner) const noexcept;

private:
  struct Head;
  Head& head() const noexcept;
  std::span<std::uint64_t> owners() const noexcept;

  std::span<std::byte> memory_;
};

}  // namespace tremula::transport::local
