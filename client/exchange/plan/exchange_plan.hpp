// SPDX-License-Identifier: Apache-2.0
#pragma once
// All messages of one rank and one link, computed once when the link is opened. Pure: no transport,
// no memory moved.
//
// Per step and pair of ranks one message: package header, then the packages of all fields, each on
// a 16-byte boundary (proto/WIRE_FORMAT.md). Consumer rank q has at least an empty package from
// producer rank q mod M, so that every rank sees every step and the end.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "index_calc/pack/pack.hpp"
#include "index_calc/plan/plan_cache.hpp"
#include "index_calc/pack/transform.hpp"
#include "proto/convert.hpp"
#include "transport/transport.hpp"

namespace tremula::client {

using core::Index, core::Rank;

/// Pieces of one part that are on their way to one peer at a time.
inline constexpr std::size_t pieces_under_way = 4;

/// What one rank sends to, or receives from, one peer in one step.
struct Message {
  struct Part {
    std::size_t field = 0;
    index_calc::Package package;  ///< valid as long as the field's plan
    std::size_t offset = 0;       ///< bytes from the beginning of the message
    std::size_t bytes = 0;
    /// Byte of the local buffer where it begins if it lies there in one piece as on the wire.
    std::optional<std::size_t> contiguous_at;
  };
  Rank peer = 0;
  std::vector<Part>
      parts;  ///< in the order of the fields; empty for a package that only tells of the step
  std::size_t bytes = 0;  ///< header included
  std::size_t payload_bytes() const noexcept;
  /// Every part lies in one piece in the local buffer.
  bool is_contiguous() const noexcept;
};

/// All messages of one rank and one link, in the order in which they are posted.
struct ExchangePlan {
  struct Field {
    std::shared_ptr<const index_calc::Plan> plan;
    index_calc::LocalPart part;
    index_calc::Order wire_order = index_calc::Order::row;
    std::size_t element_bytes = 0;                ///< on the wire: of the producer's type
    index_calc::Transformation transformation{};  ///< what the consumer makes of it
    bool is_transposed = false;                   ///< the two sides store it in different orders
  };
  std::vector<Field> fields;
  std::vector<Message> messages;  ///< begins with the peer opposite this rank and goes round
  std::uint64_t fingerprint = 0;  ///< equal on both sides
  std::size_t payload_bytes = 0;  ///< of one step
  std::size_t piece_bytes = 0;  ///< of a part that is sent when it is asked for; same on both sides
  double seconds = 0;           ///< spent on the plan
};

/// Where and how a consumer rank takes a field.
struct Target {
  index_calc::LocalPart part;                 ///< in the dimensions of the producer
  index_calc::Transformation transformation;  ///< `from` is taken from the producer's field
};

/// What a consumer wants of a producer's array: a layout of the wanted shape.
/// @throws core::Error invalid_argument if it does not lie in the array
index_calc::Layout wanted_part(const proto::Field& offered, const proto::Field& wanted);

/// @param mine, theirs  the link's fields in the same order on both sides
/// @param targets       || mine, for a consumer; empty: local_part of its layouts, and copies
/// @param cache         of the session: the same layouts cost a look-up
/// @throws core::Error mismatch if shapes differ
ExchangePlan plan_exchange(std::span<const proto::Field> mine, std::span<const proto::Field> theirs,
                           transport::Side side, Rank me, Rank my_size, Rank peer_size,
                           index_calc::PlanCache& cache, const index_calc::PlanOptions& options,
                           std::span<const Target> targets = {});

}  // namespace tremula::client
