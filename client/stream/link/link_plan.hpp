// SPDX-License-Identifier: Apache-2.0
#pragma once
// The message plan of one link: its fields as both sides have declared them. Pure.
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "client/exchange/plan/exchange_plan.hpp"
#include "proto/convert.hpp"
#include "transport/transport.hpp"

namespace tremula::client {

/// ExchangePlan::inlined_bytes of every link: short enough for a transport to send at once.
inline constexpr std::size_t inlined_bytes = std::size_t{2} << 10;

/// Where and how a consumer rank stores a field.
struct Target {
  index_calc::LocalPart part;                 ///< in the dimensions of the producer
  index_calc::Transformation transformation;  ///< `from` is taken from the producer's field
  /// Whether the consumer's ranks hold partial sums: only one of their layers receives the
  /// elements.
  bool has_layers = false;
};

/// Layouts, of one shape, of the elements that go from a producer's array to a consumer's.
struct Shared {
  index_calc::Layout from, to;
};
/// Returns the layouts of the elements that both arrays have.
/// @throws core::Error as index_calc::selected
Shared shared(const proto::Field& offered, const proto::Field& wanted);

/// The names of a link's stream and of its two groups, for errors.
struct LinkNames {
  std::string_view stream, consumer, producer;
};
/// The fields of a link, in the order of the consumer.
struct LinkFields {
  /// For each field of the link, its index among the fields that this group declared.
  std::vector<std::size_t> declared;
  /// For each declared field, its index in the link; nullopt if the link lacks it. On a consumer,
  /// none is nullopt.
  std::vector<std::optional<std::size_t>> number_of;
};
/// Matches the fields that this group declared with those that the server sent for the other side.
/// @throws core::Error as proto::check_compatible; protocol if the other side has a field that this
/// group did not declare or, for a consumer, if they are in another order
LinkFields fields_of_link(std::span<const proto::Field> declared,
                          std::span<const proto::Field> theirs, transport::Side side,
                          const LinkNames& names);

/// Result of matching a field for which a side lists what its ranks own; empty for other fields.
struct ListedField {
  std::shared_ptr<const index_calc::Plan> plan{};
  std::shared_ptr<const index_calc::IndexList> list{};  ///< of this rank's array
};
/// Returns whether there is such a field.
bool has_lists(std::span<const proto::Field> mine, std::span<const proto::Field> theirs);
/// Matches the lists of all such fields. Collective over both groups. Parameters as for
/// plan_exchange().
/// @return parallel to mine
std::vector<ListedField> match_fields(std::span<const proto::Field> mine,
                                      std::span<const proto::Field> theirs, transport::Side side,
                                      Rank me, RankCount my_size, RankCount peer_size,
                                      std::span<const Target> targets,
                                      index_calc::ListMover& mover);

/// Plans the messages of a link. Consumer rank q gets at least an empty message from producer rank
/// q mod M, so that every rank sees every step and the end.
/// @param mine, theirs  the link's fields in the same order on both sides
/// @param targets       parallel to mine, for a consumer; empty for local_part of its layouts, and
///                      copies
/// @param is_proved     whether the producer sends a hash of each part
/// @param listed        result of match_fields(); empty if no side has lists
/// @param cache         plans of the session: known layouts cost only a look-up
/// @throws core::Error mismatch if shapes differ
ExchangePlan plan_exchange(std::span<const proto::Field> mine, std::span<const proto::Field> theirs,
                           transport::Side side, Rank me, RankCount my_size, RankCount peer_size,
                           index_calc::PlanCache& cache, const index_calc::PlanOptions& options,
                           std::span<const Target> targets = {}, bool is_proved = false,
                           std::span<const ListedField> listed = {});

}  // namespace tremula::client
