// SPDX-License-Identifier: Apache-2.0
#pragma once
// The message plan of one link: its fields as both sides have declared them. Pure.
#include <span>

#include "client/exchange/plan/exchange_plan.hpp"
#include "proto/convert.hpp"
#include "transport/transport.hpp"

namespace tremula::client {

/// ExchangePlan::inlined_bytes of every link: what a transport sends at once.
inline constexpr std::size_t inlined_bytes = std::size_t{2} << 10;

/// Where and how a consumer rank takes a field.
struct Target {
  index_calc::LocalPart part;                 ///< in the dimensions of the producer
  index_calc::Transformation transformation;  ///< `from` is taken from the producer's field
  /// The consumer's ranks hold partial sums: of those layers one alone gets what comes.
  bool has_layers = false;
};

/// What goes from a producer's array to that of a consumer: two layouts of one shape.
struct Shared {
  index_calc::Layout from, to;
};
/// @throws core::Error invalid_argument if what is wanted does not lie in the array
Shared shared(const proto::Field& offered, const proto::Field& wanted);

/// A field of which a side lists what its ranks own, as it was matched; empty for another one.
struct ListedField {
  std::shared_ptr<const index_calc::Plan> plan{};
  std::shared_ptr<const index_calc::IndexList> list{};  ///< of this rank's array
};
bool has_lists(std::span<const proto::Field> mine, std::span<const proto::Field> theirs);
/// Matches the lists of all such fields. Collective over both groups. Parameters as for plan_exchange.
/// @return parallel to mine
std::vector<ListedField> match_fields(std::span<const proto::Field> mine,
                                      std::span<const proto::Field> theirs, transport::Side side,
                                      Rank me, Rank my_size, Rank peer_size,
                                      std::span<const Target> targets,
                                      index_calc::ListMover& mover);

/// Consumer rank q has at least an empty message from producer rank q mod M, so that every rank sees
/// every step and the end.
/// @param mine, theirs  the link's fields in the same order on both sides
/// @param targets       parallel to mine, for a consumer; empty: local_part of its layouts, and copies
/// @param is_proved     the producer tells a hash of each part
/// @param listed        of match_fields; empty if no side has lists
/// @param cache         of the session: the same layouts cost a look-up
/// @throws core::Error mismatch if shapes differ
ExchangePlan plan_exchange(std::span<const proto::Field> mine, std::span<const proto::Field> theirs,
                           transport::Side side, Rank me, Rank my_size, Rank peer_size,
                           index_calc::PlanCache& cache, const index_calc::PlanOptions& options,
                           std::span<const Target> targets = {}, bool is_proved = false,
                           std::span<const ListedField> listed = {});

}  // namespace tremula::client
