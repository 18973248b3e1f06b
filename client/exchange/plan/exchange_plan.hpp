// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one message plan: which parts of which arrays a rank sends to, or receives from, each peer, in which
// order and in how many bytes. Streams make one for each link, a redistribution one as source and one
// as sink. Pure: no transport, no memory moved.
//
// One message for each pair of ranks and step. Its bytes, counted from its begin:
//
//     header (64)  part 0  pad  part 1  pad ...      each part on a 16-byte boundary
//
// A path may send other things than these bytes, but where a part lies in them, and where a chunk of
// them ends, is known on both sides from the plan alone.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "index_calc/pack/copy_list.hpp"
#include "index_calc/plan/plan_cache.hpp"
#include "index_calc/proof/content_hash.hpp"
#include "index_calc/transform/transform.hpp"

namespace tremula::client {

using core::Index, core::Rank;

/// The elements of one field in a message. In one line of the cache: of many small parts, as short
/// messages have them, nothing else is read in a step.
struct Part {
  std::size_t field = 0;
  std::size_t offset = 0;  ///< bytes from the begin of the message
  std::size_t bytes = 0;
  /// Byte of the local array where it begins if it lies there in one piece as in the message.
  std::optional<std::size_t> contiguous_at{};
  /// Entries of Message::copies; none if it has many runs, is long or is transformed.
  std::uint32_t first_copy = 0, end_copy = 0;
  std::shared_ptr<const index_calc::Package> package;  ///< valid as long as the field's plan
  bool has_copies() const noexcept { return first_copy != end_copy; }
};

/// What one rank sends to, or receives from, one peer in one step.
struct Message {
  Rank peer = 0;
  std::vector<Part> parts;      ///< in the order of the fields; empty: it only tells of the step
  std::size_t bytes = 0;        ///< header and padding included
  std::size_t parts_bytes = 0;  ///< of all parts
  std::size_t near_chunk_bytes = 0;  ///< of a chunk that goes through shared memory
  bool is_to_listener = false;  ///< the peer gets it in any case, and the attributes of the step
  index_calc::CopyList copies;  ///< of all short parts; array numbers are fields
  std::size_t payload_bytes() const noexcept;
};

/// All messages of one rank in one role, in the order in which they are served.
struct ExchangePlan {
  /// Of a field whose extent is another one in every step: the layouts without it.
  struct Changing {
    index_calc::Layout source, sink;
    /// Number of the field that holds the keys, where the sink takes rows by them.
    std::size_t key = 0;
    bool has_key() const noexcept { return !sink.changing->key.empty(); }
  };
  struct Field {
    std::shared_ptr<const index_calc::Plan> plan{};         ///< null of a field that changes
    index_calc::LocalPart part{};                           ///< in the dimensions of the source
    index_calc::Order wire_order = index_calc::Order::row;  ///< that of the source's memory
    /// In which the sink's array is written best, and the dimension that is closest in it.
    index_calc::Order write_order = index_calc::Order::row;
    std::size_t closest = 0;
    std::size_t element_bytes = 0;                ///< on the wire: of the source's type
    index_calc::Transformation transformation{};  ///< what the sink makes of it
    bool is_needed = true;                        ///< else nothing of it is moved; on both sides
    /// Of what the rank's array holds. Null if nothing is proved, or the sink transforms it.
    std::shared_ptr<const index_calc::ContentHash> hash{};
    /// It has no parts: it is planned as the counts of a step come (changing.hpp).
    std::shared_ptr<const Changing> changing{};
  };
  /// Where a field has a part.
  struct PartNumber {
    std::size_t message = 0, part = 0;
  };
  std::vector<Field> fields;
  std::vector<Message> messages;  ///< begins with the peer opposite this rank and goes round
  std::vector<std::vector<PartNumber>> parts_of;  ///< shape: [field]
  std::vector<std::size_t> changing;              ///< numbers of the fields that change
  Rank me = 0;
  std::uint64_t fingerprint = 0;    ///< equal on both sides
  bool is_proved = false;           ///< a step tells a hash of each part; both sides
  std::size_t payload_bytes = 0;    ///< of one step
  std::size_t far_chunk_bytes = 0;  ///< of a chunk that is sent; same on both sides
  std::size_t inlined_bytes = 0;    ///< a message with no more payload carries it itself
  double seconds = 0;               ///< spent on the plan
};

/// How long the chunks of a plan are; the same on both sides.
struct ChunkSizes {
  std::size_t near = 0;     ///< through shared memory, so that it stays in the cache
  std::size_t longest = 0;  ///< through shared memory, of a transposed array
  std::size_t far = 0;
};

/// Header of every message, and the boundary on which parts lie.
inline constexpr std::size_t message_header_bytes = 64, part_alignment = 16;

/// @param fields      with their plans; all but fingerprint-relevant ones in the order of both sides
/// @param is_source   whether this rank's side sends
/// @param listeners   peers that get a message in any case; of a sink, those that send it one. Where a
///                    field changes, all peers have a message
ExchangePlan plan_messages(std::vector<ExchangePlan::Field> fields, bool is_source, Rank me,
                           Rank my_size, Rank peer_size, std::span<const Rank> listeners,
                           const ChunkSizes& chunks);

}  // namespace tremula::client
