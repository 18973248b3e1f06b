// SPDX-License-Identifier: Apache-2.0
#pragma once
// The 64 bytes in front of everything that goes from rank to rank (WIRE_FORMAT.md).
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/types.hpp"

namespace tremula::proto {

/// What a message says.
enum class MessageKind : std::uint16_t {
  step = 1,           ///< source to sink: the payload tells the place of each part
  end_of_stream = 2,  ///< source to sink: `step` steps were sent, no step follows
  credit = 3,         ///< sink to source: `step` was consumed, its place in the queue is free
  leaving = 4,        ///< sink to source: wants no step from `step` on
  wish = 5,           ///< sink to source: a part of `step`, on the path of the place in the payload
  sign_of_life = 6,   ///< both ways: the sender is there; `step` is for how long it may be silent
  claim = 7,          ///< sink to source: asks for a step, having taken `step` of them
  redeclared = 8,     ///< source to sink: as end_of_stream, but steps follow, in other layouts
  begins_later =
      9,        ///< source to sink: a sign of life of one that sends `begins` before its first step
  begins = 10,  ///< source to sink: the steps that go over the link begin with `step`
};

struct MessageHeader {
  MessageKind kind = MessageKind::step;
  std::uint64_t link = 0;              ///< Matched.link
  std::uint64_t step = 0;              ///< 0, 1, 2, ... counted by the producer; of a sign of life:
                                       ///< milliseconds, 0 for ever
  std::uint64_t payload_bytes = 0;     ///< that follow the header; 0 unless kind is step or wish
  std::uint64_t fingerprint = 0;       ///< of the plan, equal on both sides; 0 where there is none
  std::uint64_t dropped = 0;           ///< steps before this one that do not go over the link
  std::optional<std::int64_t> time{};  ///< of the step, in the unit of the stream
  std::uint32_t attribute_bytes = 0;   ///< of the step, in a message of their own
  std::uint32_t attribute_hash = 0;    ///< of the step's attributes where they are not sent with
                                       ///< this message, else 0
  friend bool operator==(const MessageHeader&, const MessageHeader&) = default;
};

inline constexpr std::size_t message_header_bytes = 64;

/// Writes the header in front of a message. Allocates nothing.
void encode(const MessageHeader& header, std::span<std::byte, message_header_bytes> out) noexcept;
std::array<std::byte, message_header_bytes> encode(const MessageHeader& header) noexcept;

/// @param bytes  a received message; its first message_header_bytes are read
/// @throws core::Error protocol naming the part, what was expected and what was found: too short,
/// wrong magic or
///         version, unknown kind, payload where none may be, reserved bytes that are not zero
MessageHeader decode_message_header(core::BytesView bytes);

}  // namespace tremula::proto
