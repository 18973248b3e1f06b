// SPDX-License-Identifier: Apache-2.0
#pragma once
// The 64 bytes at the head of every message from rank to rank (WIRE_FORMAT.md).
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/types.hpp"

namespace tremula::proto {

/// Kind of a message.
enum class MessageKind : std::uint16_t {
  step = 1,           ///< source to sink: the payload gives the place of each part
  end_of_stream = 2,  ///< source to sink: no step follows; the next step would be `step`
  credit = 3,         ///< sink to source: `step` was consumed, so its place in the queue is free
  leaving = 4,        ///< sink to source: the sink wants neither `step` nor any later step
  wish = 5,           ///< sink to source: requests a part of `step` over the path in the payload
  sign_of_life = 6,   ///< both ways: the sender is alive; `step`: how long it may be silent
  claim = 7,          ///< sink to source: requests a step; the sink has taken `step` steps before
  redeclared = 8,     ///< source to sink: as end_of_stream, but steps in other layouts follow
  begins_later = 9,   ///< source to sink: a sign of life; `begins` follows before the first step
  begins = 10,        ///< source to sink: the first step sent over the link is `step`
};

struct MessageHeader {
  MessageKind kind = MessageKind::step;
  std::uint64_t link = 0;              ///< Matched.link
  std::uint64_t step = 0;              ///< 0, 1, 2, ... counted by the producer; in a sign of life:
                                       ///< milliseconds, 0: no limit
  std::uint64_t payload_bytes = 0;     ///< bytes after the header; 0 unless kind is step or wish
  std::uint64_t fingerprint = 0;       ///< fingerprint of the plan, equal on both sides; 0 if none
  std::uint64_t dropped = 0;           ///< steps before this one that are not sent over the link
  std::optional<std::int64_t> time{};  ///< time of the step, in the unit of the stream
  std::uint32_t attribute_bytes = 0;   ///< bytes of the step's attributes, sent in another message
  std::uint32_t attribute_hash = 0;    ///< hash of the step's attributes if they are not sent with
                                       ///< this message, else 0
  friend bool operator==(const MessageHeader&, const MessageHeader&) = default;
};

inline constexpr std::size_t message_header_bytes = 64;

/// Writes the header of a message. Allocates nothing.
void encode(const MessageHeader& header, std::span<std::byte, message_header_bytes> out) noexcept;
std::array<std::byte, message_header_bytes> encode(const MessageHeader& header) noexcept;

/// Returns the header of a message.
/// @param bytes  a received message, of which the first message_header_bytes are read
/// @throws core::Error protocol naming the part, what was expected and what was found: too short, wrong magic or
///         version, unknown kind or flags, link 0, a value that a message of this kind must not
///         have, or a size out of bounds
MessageHeader decode_message_header(core::BytesView bytes);

}  // namespace tremula::proto
