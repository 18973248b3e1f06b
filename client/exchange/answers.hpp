// SPDX-License-Identifier: Apache-2.0
#pragma once
// Messages between both ends of an exchange, in addition to the bytes of the paths.
//
//   source -> sink   step: the paths of its parts, with what is inlined; or the end of the stream
//                    attributes of the step, if it has any
//                    the elements of the fields that change, if the two ranks share any
//   sink -> source   answers: credit, wish for a part, claim of a step, leaving
//   both ways        signs of life (signs_of_life.hpp)
#include <algorithm>
#include <array>

#include "client/exchange/path/paths.hpp"
#include "client/exchange/queue.hpp"
#include "proto/message_header.hpp"

namespace tremula::client {

static_assert(message_header_bytes == proto::message_header_bytes);

using HeaderBytes = std::array<std::byte, proto::message_header_bytes>;
/// The longest answer.
using AnswerBytes = std::array<std::byte, proto::message_header_bytes + proto::part_place_bytes>;

namespace tags {
inline constexpr transport::Tag step = 1;        ///< source to sink
inline constexpr transport::Tag answer = 2;      ///< sink to source
inline constexpr transport::Tag sign = 3;        ///< both ways
inline constexpr transport::Tag attributes = 4;  ///< source to sink
inline constexpr transport::Tag lists = 5;       ///< both ways, before the others
inline constexpr transport::Tag changing = 6;    ///< source to sink
}  // namespace tags

/// Where the bytes of an inlined message begin in what is told of a step, counted as in the plan: its
/// header stands elsewhere, and one place is before the rest.
inline constexpr std::size_t inlined_at = proto::part_place_bytes;

/// A number of 64 bits for each part, behind all else that is told of a step.
inline std::size_t hash_bytes(const ExchangePlan& plan, const Message& message) {
  return plan.is_proved ? message.parts.size() * sizeof(std::uint64_t) : 0;
}

/// Of fields that change: how many elements the source rank has along each, and the bytes that follow in
/// a message of their own; 64 bits each, little-endian, behind the hashes.
inline std::size_t count_bytes(const ExchangePlan& plan) {
  return plan.changing.empty() ? 0 : (plan.changing.size() + 1) * sizeof(std::uint64_t);
}

/// Room for what is told of a step: header, a place for each part at most, or one and inlined bytes.
inline std::size_t told_bytes_at_most(const ExchangePlan& plan, const Message& message) {
  const std::size_t places =
      proto::message_header_bytes + message.parts.size() * proto::part_place_bytes;
  const bool is_short = !message.parts.empty() && message.payload_bytes() <= plan.inlined_bytes;
  return (is_short ? std::max(places, inlined_at + message.bytes) : places) +
         hash_bytes(plan, message) + count_bytes(plan);
}

/// @throws core::Error protocol if the bytes are no header of this link
inline proto::MessageHeader decode_from(Rank peer, std::uint64_t link, core::BytesView bytes) {
  const auto header = proto::decode_message_header(bytes);
  if (header.link != link)
    throw protocol_error(peer, "link " + std::to_string(link),
                         "link " + std::to_string(header.link));
  return header;
}

}  // namespace tremula::client
