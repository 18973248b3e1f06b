// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one message plan: which parts of which arrays a rank sends to, or receives from, each peer, in which
// order and in how many bytes. Streams make one for each link, a redistribution one as source and one
// as sink. Pure: no transport, no memory moved.
//
// One message for each pair of ranks and step. Its bytes, counted from its beginning:
//
//     header (64)  part 0  pad  part 1  pad ...      each part on a 16-byte boundary
//
// A path may send something other than these bytes, but both sides know from the plan alone where
// each part is in them and where each chunk of them ends.
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

using core::Index, core::Rank, core::RankCount;

/// The elements of one field in a message. Fits into one cache line: for the many small parts of a
/// short message, a step reads nothing else.
struct Part {
  std::size_t field = 0;
  std::size_t offset = 0;  ///< bytes from the beginning of the message
  std::size_t bytes = 0;
  /// Byte at which the part begins in the local array; nullopt if it is not contiguous there, in
  /// the order of the message.
  std::optional<std::size_t> contiguous_at{};
  /// Range of entries in Message::copies; empty if the part has many runs, is long or is
  /// transformed.
  std::uint32_t first_copy = 0, end_copy = 0;
  std::shared_ptr<const index_calc::Package> package;  ///< valid as long as the field's plan
  bool has_copies() const noexcept { return first_copy != end_copy; }
};

/// Everything that one rank sends to, or receives from, one peer in one step.
struct Message {
  Rank peer{};
  std::vector<Part> parts;      ///< in the order of the fields; empty if it only announces the step
  std::size_t bytes = 0;        ///< header and padding included
  std::size_t parts_bytes = 0;  ///< of all parts
  std::size_t near_chunk_bytes = 0;  ///< of a chunk that goes through shared memory
  bool is_to_listener = false;       ///< sent in any case, with the attributes of the step
  index_calc::CopyList copies;       ///< of all short parts; array numbers are fields
  std::size_t payload_bytes() const noexcept;
};

/// All messages of one rank in one role, in the order in which they are served.
struct ExchangePlan {
  /// Layouts, without the extent, of a field whose extent varies from step to step.
  struct Changing {
    index_calc::Layout source, sink;
    /// Number of the field that holds the keys, if the sink takes rows by key.
    std::size_t key = 0;
    bool has_key() const noexcept { return !sink.changing()->key.empty(); }
  };
  struct Field {
    std::shared_ptr<const index_calc::Plan> plan{};         ///< null for a changing field
    index_calc::LocalPart part{};                           ///< in the dimensions of the source
    index_calc::Order wire_order = index_calc::Order::row;  ///< that of the source's memory
    /// Order in which writing the sink's array is fastest, and the dimension whose elements are
    /// closest in its memory.
    index_calc::Order write_order = index_calc::Order::row;
    std::size_t closest = 0;
    std::size_t element_bytes = 0;                ///< on the wire: of the source's type
    index_calc::Transformation transformation{};  ///< applied by the sink
    bool is_needed = true;                        ///< if false, no side moves any of it
    /// Hash of the contents of this rank's array; null if nothing is proved, or the sink transforms
    /// it.
    std::shared_ptr<const index_calc::ContentHash> hash{};
    /// Set for a changing field, which has no parts: it is planned once the counts of a step are
    /// known (changing.hpp). Null for other fields.
    std::shared_ptr<const Changing> changing{};
  };
  /// Position of a part of a field.
  struct PartNumber {
    std::size_t message = 0, part = 0;
  };
  std::vector<Field> fields;
  std::vector<Message> messages;  ///< by peer, from the one opposite this rank, wrapping around
  std::vector<std::vector<PartNumber>> parts_of;  ///< shape: [field]
  std::vector<std::size_t> changing;              ///< numbers of the changing fields
  Rank me{};
  std::uint64_t fingerprint = 0;    ///< equal on both sides
  bool is_proved = false;           ///< a step carries a hash of each part; same on both sides
  std::size_t payload_bytes = 0;    ///< of one step
  std::size_t far_chunk_bytes = 0;  ///< of a chunk that is sent; same on both sides
  std::size_t inlined_bytes = 0;    ///< largest payload that a message carries itself
  double seconds = 0;               ///< spent on the plan
};

/// Bytes of the chunks of a plan; the same on both sides.
struct ChunkSizes {
  std::size_t near = 0;     ///< through shared memory; short enough to stay in the cache
  std::size_t longest = 0;  ///< through shared memory, of a transposed array
  std::size_t far = 0;
};

/// Bytes of the header of every message, and the boundary on which parts begin.
inline constexpr std::size_t message_header_bytes = 64, part_alignment = 16;

/// Plans all messages of one rank in one role.
/// @param fields      with their plans, in the same order on both sides
/// @param is_source   whether this rank's side sends
/// @param listeners   peers that get a message in any case; for a sink, peers that send it one in
///                    any case. With a changing field, all peers have a message
ExchangePlan plan_messages(std::vector<ExchangePlan::Field> fields, bool is_source, Rank me,
                           RankCount my_size, RankCount peer_size, std::span<const Rank> listeners,
                           const ChunkSizes& chunks);

}  // namespace tremula::client
