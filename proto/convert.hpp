// SPDX-License-Identifier: Apache-2.0
#pragma once
// Between bytes, messages and the values of the house. The only place where foreign bytes are
// validated: what comes out of parse_to_server and parse_to_client needs no further check of form,
// but for the layouts of fields: decode() is the only way to them, and parses each once. What a
// message means is judged by its receiver.
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
inline constexpr std::size_t max_message_bytes = std::size_t{16} << 20;  ///< of one frame's payload
/// Of an Announce, Subscribe, Redeclare or RedeclareLink: the server tells the other side of them, and of more.
inline constexpr std::size_t max_declaration_bytes = max_message_bytes - (std::size_t{1} << 20);
inline constexpr std::size_t max_heartbeat_bytes = std::size_t{4} << 20;  ///< of a Heartbeat
/// Parts of a message, i.e. fields that are set at any depth, and of a Heartbeat.
inline constexpr std::int64_t max_parts = std::int64_t{1} << 20,
                              max_heartbeat_parts = max_parts / 8;
inline constexpr std::size_t max_text_bytes = 16384;      ///< texts for people
inline constexpr std::size_t max_layout_bytes = 1 << 20;  ///< text form of one layout
inline constexpr std::size_t max_address_bytes = 4096;    ///< of one rank (transport::Address)
inline constexpr std::size_t max_ranks_bytes = std::size_t{4}
                                               << 20;  ///< of all RankStatus of a page of a Status
inline constexpr std::size_t max_shown_fields_bytes = max_ranks_bytes;    ///< as much of its fields
inline constexpr int max_kept_steps = 1024;                               ///< of one stream
inline constexpr std::uint64_t max_epoch = (std::uint64_t{1} << 32) - 1;  ///< the last one
inline constexpr std::size_t max_token_bytes = 64;
inline constexpr int max_lost_streams = 65536;  ///< parts of one array that a consumer has lost
/// Ranks of a producer times those of a consumer: with more, rank 0 alone is told the addresses of the
/// consumer, and tells the others. So 256 MiB go out at most, which the server holds once.
inline constexpr std::int64_t max_addresses_to_all = std::int64_t{1} << 16;
inline constexpr int max_fields = 65536;  ///< of one stream
inline constexpr int max_offers = 64;     ///< of one side
inline constexpr core::Rank max_group_size = 10'000'000;
inline constexpr int max_wait_ranks = 64;    ///< in one Wait
inline constexpr int max_wait_turns = 1024;  ///< in one Wait; also limits Wait.said

using core::is_name, core::name_rule;

/// A named, typed, laid-out global array: the validated form of wire::Field.
struct Field {
  std::string name;
  core::ElementType type = core::ElementType::f64;
  index_calc::Layout layout;
  /// Of a part of the array that is exchanged: global index where it begins there; as large as
  /// `layout`. Shape: [dimension]; empty: all of it.
  std::vector<core::Index> origin{};
  core::Bytes attributes{};  ///< encoded (attributes.hpp); of a producer's field
  /// Of a part that a producer offers: extents of the array, which several groups produce together.
  /// Shape: [dimension]; empty: those of `layout`.
  std::vector<core::Index> whole{};
  friend bool operator==(const Field&, const Field&) = default;
};

/// Ghost and leading stay at home: only the owner's memory knows them.
wire::Field encode(const Field& field);

using WireFields = google::protobuf::RepeatedPtrField<wire::Field>;
/// One after the other, in the order given.
WireFields encode(std::span<const Field> fields);
/// @throws core::Error protocol naming the part, what was expected and what was found: also for a
/// name that comes twice or more than max_fields
std::vector<Field> decode(const WireFields& fields);

/// Of the array that is exchanged. Shape: [dimension].
std::vector<core::Index> whole_shape(const Field& field);

/// Every wanted field must be offered with a type that can become the wanted one, and with the same
/// shape, or one that holds the wanted part; distributions may differ.
/// @throws core::Error mismatch naming stream, field, both groups, what each has and what to do
void check_compatible(std::span<const Field> wanted, std::span<const Field> offered,
                      std::string_view stream, std::string_view consumer,
                      std::string_view producer);
/// Every layout must fit a group of `group_size` ranks (index_calc::validate_for_group).
/// @throws core::Error mismatch naming stream, field, group and what to do
void check_fits_group(std::span<const Field> fields, core::Rank group_size, std::string_view stream,
                      std::string_view group);

/// Bytes of the elements of all ranks that a step brings from a producer to a consumer, at least 1;
/// 2^63 - 1 if there are more.  @pre check_compatible(wanted, offered, ...)
std::int64_t step_bytes(std::span<const Field> wanted, std::span<const Field> offered);

/// Has a field of a consumer copies on both sides? By the layouts alone; of one producer.
/// @pre check_compatible(wanted, offered, ...)
bool are_copied(std::span<const Field> wanted, std::span<const Field> offered);

/// The payload of one frame. Texts for people in it are cut to what a message may hold.
/// @throws core::Error invalid_argument if it would exceed max_message_bytes, what it declares
///         max_declaration_bytes, or its parts what the server takes
core::Bytes serialise(const wire::ToServer& message);
core::Bytes serialise(const wire::ToClient& message);

/// The inverse of serialise, for foreign bytes: every name, number, text and count
/// of the message is inside its bounds; texts for people that are too long are cut. The layouts of its fields are texts until decode() makes
/// values of them; only those of a Status, which is shown and not decoded, are parsed.
/// @throws core::Error protocol naming message and part, what was expected and what was found
wire::ToServer parse_to_server(core::BytesView bytes);
wire::ToClient parse_to_client(core::BytesView bytes);
/// Counts the parts of a message: see max_parts.
std::int64_t count_parts(const google::protobuf::Message& message);
/// ToServer.request of a message that parse_to_server has rejected, so that the refusal can be told
/// apart; 0 if it cannot be read.
std::uint64_t request_number(core::BytesView bytes) noexcept;

/// Returns a text for people as a message may hold it: at most `most_bytes`, whole characters, with '?' for each byte
/// that is not UTF-8.
std::string cut(std::string_view text, std::size_t most_bytes = max_text_bytes);
/// An error as the message that tells it to the other side.
wire::Refused encode(const core::Error& error);
/// The error that a refusal stands for; a code that this version does not know becomes
/// Errc::refused.
core::Error decode(const wire::Refused& refused);

}  // namespace tremula::proto
