// SPDX-License-Identifier: Apache-2.0
// Bounds on the cost of a message to the server, checked before anything is allocated for it. A bound on bytes alone
// is not enough: an empty submessage takes two bytes on the wire, but a hundred in memory.
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <array>
#include <limits>

#include "proto/check.hpp"

namespace tremula::proto {

namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using Message = wire::ToServer;

constexpr std::size_t small = 64 << 10;

struct Bound {
  Message::BodyCase body;
  std::size_t bytes;
  std::int64_t parts;  // fields that are set, at any depth
};
/// Bounds of messages that may be large; all others are small.
constexpr std::array large{
    Bound{Message::kHeartbeat, max_heartbeat_bytes, max_heartbeat_parts},
    Bound{Message::kAnnounce, max_message_bytes, max_parts},
    Bound{Message::kSubscribe, max_message_bytes, max_parts},
    Bound{Message::kResume, max_message_bytes, max_parts},
    Bound{Message::kRedeclare, max_message_bytes, max_parts},
    Bound{Message::kRedeclareLink, max_message_bytes, max_parts},
    Bound{Message::kLinkAddresses, max_message_bytes, max_parts},
    Bound{Message::kShare, max_message_bytes, max_parts},
};

Bound bound_of(int body) {
  for (const Bound& bound : large)
    if (bound.body == body) return bound;
  return {static_cast<Message::BodyCase>(body), small, max_parts};
}

constexpr std::uint32_t request_tag = Message::kRequestFieldNumber << 3;  // a varint

/// Skips a field that the type does not have, or has as another type. Protobuf 3 has no groups; the
/// parser would keep everything inside of one.
/// @throws core::Error protocol if the field is a group
bool skip(CodedInputStream& in, std::uint32_t tag, const Descriptor& type) {
  if (WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_START_GROUP)
    reject(type.name(), "the fields of Protobuf 3", "a group");
  return WireFormatLite::SkipField(&in, tag);
}

/// Decrements `left` for each field that is set, at any depth. Ends early when `left` would fall
/// below 0, or when the bytes are not a message.
/// @pre submessages of the type nest only to a finite depth
/// @throws core::Error protocol if there is a group
void count_parts(std::int64_t& left, CodedInputStream& in, const Descriptor& type) {
  while (const std::uint32_t tag = in.ReadTag()) {
    if (--left < 0) return;
    const FieldDescriptor* const field =
        type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
    const bool is_long =
        WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
    std::uint32_t bytes = 0;
    if (field != nullptr && is_long && field->type() == FieldDescriptor::TYPE_MESSAGE) {
      if (!in.ReadVarint32(&bytes)) return;
      const auto outer = in.PushLimit(static_cast<int>(bytes));
      count_parts(left, in, *field->message_type());
      if (left < 0 || in.BytesUntilLimit() != 0) return;
      in.PopLimit(outer);
    } else if (field != nullptr && is_long && field->is_packable()) {  // numbers of 1 byte or more
      if (!in.ReadVarint32(&bytes) || (left -= bytes) < 0 || !in.Skip(static_cast<int>(bytes)))
        return;
    } else if (!skip(in, tag, type)) {
      return;
    }
  }
}

}  // namespace

std::int64_t count_parts(const google::protobuf::Message& message) {
  const std::string bytes = message.SerializeAsString();
  CodedInputStream in(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                      static_cast<int>(bytes.size()));
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  std::int64_t left = most;
  count_parts(left, in, *message.GetDescriptor());
  return most - left;
}

void check_bounds(core::BytesView bytes) {
  CodedInputStream in(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                      static_cast<int>(bytes.size()));
  const Descriptor& type = *Message::descriptor();
  const auto reject_parts = [](const std::string& name, std::int64_t most) {
    reject(name, fmt::format("at most {} parts, i.e. fields that are set", most), "more");
  };
  std::int64_t used = 0;  // by all bodies together, because the parser merges equal ones
  while (const std::uint32_t tag = in.ReadTag()) {
    const int number = WireFormatLite::GetTagFieldNumber(tag);
    const FieldDescriptor* const field = type.FindFieldByNumber(number);
    if (field == nullptr || field->type() != FieldDescriptor::TYPE_MESSAGE ||
        WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (tag != request_tag && ++used > max_parts) reject_parts(type.name(), max_parts);
      if (!skip(in, tag, type)) return;
      continue;
    }
    const Bound bound = bound_of(number);
    const std::string& name = field->message_type()->name();
    if (bytes.size() > bound.bytes)
      reject(name, fmt::format("at most {} bytes", bound.bytes), fmt::format("{}", bytes.size()));
    std::uint32_t body_bytes = 0;
    if (!in.ReadVarint32(&body_bytes)) return;
    const auto outer = in.PushLimit(static_cast<int>(body_bytes));
    std::int64_t left = bound.parts - used;
    count_parts(left, in, *field->message_type());
    if (left < 0) reject_parts(name, bound.parts);
    used = bound.parts - left;
    if (in.BytesUntilLimit() != 0) return;
    in.PopLimit(outer);
  }
}

std::uint64_t request_number(core::BytesView bytes) noexcept {
  if (bytes.size() > max_message_bytes) return 0;
  CodedInputStream in(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                      static_cast<int>(bytes.size()));
  std::uint64_t request = 0;
  while (const std::uint32_t tag = in.ReadTag()) {
    const bool is_whole =
        tag == request_tag ? in.ReadVarint64(&request) : WireFormatLite::SkipField(&in, tag);
    if (!is_whole) return 0;
  }
  return in.ConsumedEntireMessage() ? request : 0;
}

}  // namespace tremula::proto
