// SPDX-License-Identifier: Apache-2.0
#pragma once
// How an array is updated when it goes from one layout to another. Pure.
//
// The dimensions are those of the producer's layout, and the consumer's layout is viewed in them. A
// transposition therefore does not change the plan: unpacking a part does it, by the strides of the
// consumer's part.
//
// Source: COSTA paper, Eq. (14).
#include <complex>
#include <cstddef>
#include <optional>
#include <vector>

#include "index_calc/transform/transform.hpp"
#include "index_calc/view/view.hpp"

namespace tremula::client {

using core::Index, core::Rank, core::RankCount;

/// Update of an array in layout `to` by an array in layout `from`:
/// to = alpha * op(from) + beta * to, with alpha, beta and op of `transformation`.
struct Update {
  index_calc::Layout from, to;
  index_calc::Transformation transformation{};
  /// Dimension d of `to` is dimension axes[d] of `from`; empty if the order is the same.
  std::vector<std::size_t> axes{};
  /// Parts of the arrays that are read and written; nullopt for a whole array.
  std::optional<index_calc::Selection> of_from{}, of_to{};
  friend bool operator==(const Update&, const Update&) = default;
};

/// How a consumer updates its data from a field: data = alpha * op(field) + beta * data.
struct FieldUpdate {
  std::complex<double> alpha = 1, beta = 0;
  bool conjugates = false;
  /// Dimension d of the data is dimension axes[d] of the field; empty if the order is the same.
  std::vector<std::size_t> axes{};
  /// Part of the data that is written; nullopt if all of it is.
  std::optional<index_calc::Selection> of_data{};
  std::vector<Index> from_origin{};  ///< where that part begins in the field, in its dimensions
  /// Returns whether the data is a copy of the field.
  bool is_none() const {
    return alpha == 1.0 && beta == 0.0 && !conjugates && axes.empty() && !of_data &&
           from_origin.empty();
  }
};

/// Returns the number of passes of an update. Each pass adds one layer of partial sums to the
/// result of the passes before it, in the order of the layers, so that the result is bit for bit
/// the same however the source is distributed.
RankCount pass_count(const Update& update) noexcept;
/// Returns the update of one pass: from one layer of `from` to the first layer of `to`; the other
/// layers get none of alpha * op(from). An update moves nothing in passes beyond pass_count()
/// (alpha is 0).
/// @param pass  counted from 0
Update in_pass(const Update& update, RankCount pass);

/// Checks that an update is possible if layouts have partial sums: opaque elements cannot be added,
/// and the ranks of a target's other layers do not learn which elements a partial source has.
/// @throws core::Error unsupported
void validate_sums(const Update& update);

/// The layouts between which an update moves elements: of one shape, in the dimensions of
/// Update::from.
struct Moved {
  index_calc::Layout from, to;
};
/// Returns the layouts between which an update moves elements.
/// @throws core::Error invalid_argument if a selection is not inside its array, or `axes` is not a
///         permutation of the dimensions
Moved moved(const Update& update);

/// The parts of one rank's memory that an update reads and writes, in the dimensions of
/// Update::from; the whole buffer for a layout whose ranks list what they own.
struct MovedParts {
  index_calc::LocalPart from, to;
};
/// Returns the parts of one rank's memory that an update reads and writes.
/// @throws core::Error as moved()
MovedParts moved_parts(const Update& update, Rank me);

}  // namespace tremula::client
