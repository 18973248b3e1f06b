// SPDX-License-Identifier: Apache-2.0
// What a message to the server may cost before anything is allocated for it. Bytes alone say
// little: two of them make an empty submessage of a hundred.
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <array>

#include "proto/check.hpp"

namespace tremula::proto {

namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::io::CodedInputStream;
using google::protobuf::internal::WireFormatLite;
using Message = wire::ToServer;

constexpr std::int64_t all_parts = 1 << 20;
constexpr std::size_t small = 64 << 10;

struct Bound {
  Message::BodyCase body;
  std::size_t bytes;
  std::int64_t parts;  // fields that are set, at any depth
};
/// Of messages that may be large; all others are small.
constexpr std::array large{
    Bound{Message::kHeartbeat, max_heartbeat_bytes, all_parts / 8},
    Bound{Message::kAnnounce, max_message_bytes, all_parts},
    Bound{Message::kSubscribe, max_message_bytes, all_parts},
    Bound{Message::kResume, max_message_bytes, all_parts},
    Bound{Message::kLinkAddresses, max_message_bytes, all_parts},
    Bound{Message::kShare, max_message_bytes, all_parts},
};

Bound bound_of(Message::BodyCase body) {
  for (const Bound& bound : large)
    if (bound.body == body) return bound;
  return {body, small, small};
}

/// Counts down `left` for each field that is set; false when none is left, or for no message.
bool has_at_most(std::int64_t& left, CodedInputStream& in, const Descriptor& type) {
  while (const std::uint32_t tag = in.ReadTag()) {
    if (--left < 0) return false;
    const FieldDescriptor* const field =
        type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
    const bool is_long =
        WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
    if (field == nullptr || !is_long || field->type() == FieldDescriptor::TYPE_STRING ||
        field->type() == FieldDescriptor::TYPE_BYTES) {
      if (!WireFormatLite::SkipField(&in, tag)) return false;
      continue;
    }
    std::uint32_t bytes = 0;
    if (!in.ReadVarint32(&bytes)) return false;
    if (field->type() != FieldDescriptor::TYPE_MESSAGE) {  // packed numbers
      if ((left -= bytes) < 0 || !in.Skip(static_cast<int>(bytes))) return false;
      continue;
    }
    const auto limit = in.PushLimit(static_cast<int>(bytes));
    if (!has_at_most(left, in, *field->message_type()) || in.BytesUntilLimit() > 0) return false;
    in.PopLimit(limit);
  }
  return true;
}

CodedInputStream stream_of(core::BytesView bytes) {
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), static_cast<int>(bytes.size())};
}

}  // namespace

void check_bounds(core::BytesView bytes) {
  Message::BodyCase body = Message::BODY_NOT_SET;
  CodedInputStream top(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                       static_cast<int>(bytes.size()));
  while (const std::uint32_t tag = top.ReadTag()) {
    const int number = WireFormatLite::GetTagFieldNumber(tag);
    if (number != Message::kRequestFieldNumber) body = static_cast<Message::BodyCase>(number);
    if (!WireFormatLite::SkipField(&top, tag)) return;  // no message: the parser says so
  }
}

}  // namespace tremula::proto
