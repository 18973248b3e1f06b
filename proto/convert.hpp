// SPDX-License-Identifier: Apache-2.0
#pragma once
// Conversion between bytes, messages and our own values. This is the only place where untrusted bytes are
// validated. The form of messages from parse_to_server and parse_to_client needs no further check, except
// for the layouts of fields: only decode() gives access to these, and it parses each layout once. The
// receiver judges the meaning of a message.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/element_type.hpp"
#include "core/error.hpp"
#include "core/name.hpp"
#include "core/types.hpp"
#include "index_calc/layout/layout.hpp"
#include "proto/control.pb.h"

namespace tremula::proto {

inline constexpr std::uint32_t protocol_version = 2;                     ///< Hello.protocol
inline constexpr std::size_t max_message_bytes = std::size_t{16} << 20;  ///< payload of one frame
/// Largest size in bytes of an Announce, Subscribe, Redeclare or RedeclareLink, which the server
/// forwards with additional data.
inline constexpr std::size_t max_declaration_bytes = max_message_bytes - (std::size_t{1} << 20);
inline constexpr std::size_t max_heartbeat_bytes = std::size_t{4} << 20;  ///< a Heartbeat
/// How many parts, i.e. fields that are set at any depth, a message may have, and how many a
/// Heartbeat may have.
inline constexpr std::int64_t max_parts = std::int64_t{1} << 20,
                              max_heartbeat_parts = max_parts / 8;
inline constexpr std::size_t max_text_bytes = 16384;      ///< texts for people
inline constexpr std::size_t max_layout_bytes = 1 << 20;  ///< text form of one layout
inline constexpr std::size_t max_address_bytes = 4096;    ///< one rank's transport::Address
inline constexpr std::size_t max_ranks_bytes = std::size_t{4}
                                               << 20;  ///< all RankStatus of a page of a Status
inline constexpr std::size_t max_shown_fields_bytes = max_ranks_bytes;    ///< fields of such a page
inline constexpr int max_kept_steps = 1024;                               ///< one stream
inline constexpr std::uint64_t max_epoch = (std::uint64_t{1} << 32) - 1;  ///< the last epoch
inline constexpr std::size_t max_token_bytes = 64;
inline constexpr int max_lost_streams = 65536;  ///< parts of one array that a consumer has lost
/// Largest product of the ranks of a producer and of a consumer for which the server sends the
/// addresses of the consumer to all ranks of the producer. Beyond it, the server sends them only to
/// rank 0 of the producer, which passes them on. So the server sends at most 256 MiB, and holds one
/// copy of the addresses.
inline constexpr std::int64_t max_addresses_to_all = std::int64_t{1} << 16;
inline constexpr int max_fields = 65536;  ///< one stream
inline constexpr int max_offers = 64;     ///< one side
inline constexpr core::RankCount max_group_size = 10'000'000;
inline constexpr int max_wait_ranks = 64;    ///< in one Wait
inline constexpr int max_wait_turns = 1024;  ///< in one Wait; also limits Wait.said

using core::is_name, core::name_rule;

/// A named, typed, laid-out global array: the validated form of wire::Field.
struct Field {
  std::string name;
  core::ElementType type = core::ElementType::f64;
  index_calc::Layout layout;
  /// Global index at which the field begins in the exchanged array, if the field is only a part of that
  /// array, as large as `layout`. Shape: [dimension]; empty: the field is the whole array.
  std::vector<core::Index> origin{};
  core::Bytes attributes{};  ///< attributes of a producer's field, encoded (attributes.hpp)
  /// Extents of the whole array, if a producer offers a part of an array that several groups produce together.
  /// Shape: [dimension]; empty: the extents of `layout`.
  std::vector<core::Index> whole{};
  friend bool operator==(const Field&, const Field&) = default;
};

/// Returns the field as a message, without ghost and leading, which concern only the owner's
/// memory.
wire::Field encode(const Field& field);

using WireFields = google::protobuf::RepeatedPtrField<wire::Field>;
/// Returns the fields as messages, in the order given.
WireFields encode(std::span<const Field> fields);
/// Returns the fields, with their layouts parsed.
/// @throws core::Error protocol naming the part, what was expected and what was found; also for a
/// name that occurs twice, and for more than max_fields
std::vector<Field> decode(const WireFields& fields);

/// Returns the extents of the exchanged array. Shape: [dimension].
std::vector<core::Index> whole_shape(const Field& field);

/// Checks that every wanted field is offered with a type that can be converted to the wanted type, and with the wanted
/// shape or, for a part, a shape that contains it. Distributions may differ.
/// @throws core::Error mismatch naming the stream, the field, both groups, what each has and what to do
void check_compatible(std::span<const Field> wanted, std::span<const Field> offered,
                      std::string_view stream, std::string_view consumer,
                      std::string_view producer);
/// Checks that every layout fits a group of `group_size` ranks (index_calc::validate_for_group).
/// @throws core::Error mismatch naming the stream, the field, the group and what to do
void check_fits_group(std::span<const Field> fields, core::RankCount group_size,
                      std::string_view stream, std::string_view group);

/// Returns how many bytes of elements, of all ranks, a step moves from a producer to a consumer: at least 1
/// and at most 2^63 - 1, even if there are more.  @pre check_compatible(wanted, offered, ...)
std::int64_t step_bytes(std::span<const Field> wanted, std::span<const Field> offered);

/// Returns whether a field of a consumer has copies on both sides, judged by the layouts of one producer.
/// @pre check_compatible(wanted, offered, ...)
bool are_copied(std::span<const Field> wanted, std::span<const Field> offered);

/// Returns the payload of one frame. Texts for people in it are cut to the length that a message may hold.
/// @throws core::Error invalid_argument if the message would exceed max_message_bytes, if a declaration would exceed
///         max_declaration_bytes, or if the message has more parts than the server accepts
core::Bytes serialise(const wire::ToServer& message);
core::Bytes serialise(const wire::ToClient& message);

/// Reverses serialise(). For untrusted bytes. Every name, number, text and count of the result is inside its
/// bounds; texts for people that are too long are cut. The layouts of its fields stay texts until decode()
/// turns them into values. Only the layouts of a Status, which is displayed and not decoded, are parsed.
/// @throws core::Error protocol naming the message, the part, what was expected and what was found
wire::ToServer parse_to_server(core::BytesView bytes);
wire::ToClient parse_to_client(core::BytesView bytes);
/// Counts the parts of a message: see max_parts.
std::int64_t count_parts(const google::protobuf::Message& message);
/// Returns ToServer.request of a message that parse_to_server has rejected, so that the refusal can name its request;
/// 0 if it cannot be read.
std::uint64_t request_number(core::BytesView bytes) noexcept;

/// Returns a text for people in a form that a message may hold: at most `most_bytes`, whole
/// characters, with '?' for each byte that is not UTF-8.
std::string cut(std::string_view text, std::size_t most_bytes = max_text_bytes);
/// Returns an error as the message that reports it to the other side.
wire::Refused encode(const core::Error& error);
/// Returns the error that a refusal reports. A code that this version does not know becomes
/// Errc::refused.
core::Error decode(const wire::Refused& refused);

}  // namespace tremula::proto
