// SPDX-License-Identifier: Apache-2.0
#include "proto/message_header.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <limits>

#include "core/error.hpp"
#include "proto/attributes.hpp"

namespace tremula::proto {

namespace {

constexpr std::uint32_t magic = 0x4C4D5254;  // "TRML" in the order of the bytes
constexpr std::uint16_t version = 1;
// Flags. 2 marked attributes that were not compared with those of other messages.
constexpr std::uint32_t has_time = 1, has_attributes = 4, has_hash = 8;

namespace at {  // byte offsets, as drawn in WIRE_FORMAT.md
constexpr std::size_t magic = 0, version = 4, kind = 6, link = 8, step = 16, payload_bytes = 24,
                      fingerprint = 32, dropped = 40, time = 48, attributes = 56, flags = 60;
}

template <std::unsigned_integral T>
void put(std::span<std::byte, message_header_bytes> out, std::size_t offset, T value) noexcept {
  for (std::size_t i = 0; i < sizeof(T); ++i)
    out[offset + i] = static_cast<std::byte>(value >> (8 * i));
}

template <std::unsigned_integral T>
T take(core::BytesView bytes, std::size_t offset) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value |= std::to_integer<std::uint64_t>(bytes[offset + i]) << (8 * i);
  return static_cast<T>(value);
}

[[noreturn]] void reject(std::string_view part, const std::string& expected,
                         const std::string& found) {
  throw core::Error(
      core::Errc::protocol,
      fmt::format("message header, {}: expected {}, found {}; do both sides run the same Tremula?",
                  part, expected, found));
}

/// Reads the time and the attributes of a step; other messages have neither.
void take_metadata(core::BytesView bytes, MessageHeader& header) {
  const bool is_step = header.kind == MessageKind::step;
  const auto flags = take<std::uint32_t>(bytes, at::flags);
  const std::uint32_t of_attributes = flags & ~has_time;
  const bool is_known =
      of_attributes == 0 || of_attributes == has_attributes || of_attributes == has_hash;
  if (is_step ? !is_known : flags != 0)
    reject("flags", is_step ? "0, 1, 4, 5, 8 or 9" : "0", fmt::format("{}", flags));
  const auto time = static_cast<std::int64_t>(take<std::uint64_t>(bytes, at::time));
  if (flags & has_time)
    header.time = time;
  else if (time != 0)
    reject("time", "0, because the flags mark none", fmt::format("{}", time));
  const auto attributes = take<std::uint32_t>(bytes, at::attributes);
  if (of_attributes == has_hash) {
    if (attributes == 0) reject("hash of attributes", "a number above 0", "0");
    header.attribute_hash = attributes;
    return;
  }
  const std::size_t least = of_attributes == has_attributes ? 1 : 0;
  const std::size_t most = of_attributes == has_attributes ? max_attributes_bytes : 0;
  if (attributes < least || attributes > most)
    reject("bytes of attributes", fmt::format("{} to {}", least, most),
           fmt::format("{}", attributes));
  header.attribute_bytes = attributes;
}

}  // namespace

void encode(const MessageHeader& header, std::span<std::byte, message_header_bytes> out) noexcept {
  put(out, at::magic, magic);
  put(out, at::version, version);
  put(out, at::kind, static_cast<std::uint16_t>(header.kind));
  put(out, at::link, header.link);
  put(out, at::step, header.step);
  put(out, at::payload_bytes, header.payload_bytes);
  put(out, at::fingerprint, header.fingerprint);
  put(out, at::dropped, header.dropped);
  put(out, at::time, static_cast<std::uint64_t>(header.time.value_or(0)));
  const bool is_hashed = header.attribute_hash > 0;
  put(out, at::attributes, is_hashed ? header.attribute_hash : header.attribute_bytes);
  put(out, at::flags,
      (header.time ? has_time : 0u) | (is_hashed ? has_hash : 0u) |
          (header.attribute_bytes > 0 && !is_hashed ? has_attributes : 0u));
}

std::array<std::byte, message_header_bytes> encode(const MessageHeader& header) noexcept {
  std::array<std::byte, message_header_bytes> bytes;
  encode(header, bytes);
  return bytes;
}

MessageHeader decode_message_header(core::BytesView bytes) {
  if (bytes.size() < message_header_bytes)
    reject("length", fmt::format("at least {} bytes", message_header_bytes),
           fmt::format("{}", bytes.size()));
  if (const auto found = take<std::uint32_t>(bytes, at::magic); found != magic)
    reject("magic", fmt::format("{:#010x}", magic), fmt::format("{:#010x}", found));
  if (const auto found = take<std::uint16_t>(bytes, at::version); found != version)
    reject("version", fmt::format("{}", version), fmt::format("{}", found));
  const auto kind = take<std::uint16_t>(bytes, at::kind);
  if (kind < 1 || kind > 10) reject("kind", "1 to 10", fmt::format("{}", kind));
  MessageHeader header{.kind = static_cast<MessageKind>(kind),
                       .link = take<std::uint64_t>(bytes, at::link),
                       .step = take<std::uint64_t>(bytes, at::step),
                       .payload_bytes = take<std::uint64_t>(bytes, at::payload_bytes),
                       .fingerprint = take<std::uint64_t>(bytes, at::fingerprint),
                       .dropped = take<std::uint64_t>(bytes, at::dropped)};
  if (header.link == 0) reject("link", "a number above 0", "0");
  const bool may_have_payload =
      header.kind == MessageKind::step || header.kind == MessageKind::wish;
  if (!may_have_payload && header.payload_bytes != 0)
    reject("payload bytes", fmt::format("0 with kind {}", kind),
           fmt::format("{}", header.payload_bytes));
  const bool may_have_dropped = header.kind == MessageKind::step ||
                                header.kind == MessageKind::end_of_stream ||
                                header.kind == MessageKind::redeclared;
  if (!may_have_dropped && header.dropped != 0)
    reject("dropped steps", fmt::format("0 with kind {}", kind), fmt::format("{}", header.dropped));
  if (header.payload_bytes > std::numeric_limits<std::int64_t>::max())
    reject("payload bytes", "less than 2^63", fmt::format("{}", header.payload_bytes));
  take_metadata(bytes, header);
  return header;
}

}  // namespace tremula::proto
