// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is made of an array when it goes from one layout to another. Pure.
//
// The producer's layout gives the dimensions; the consumer's is seen in them. So a transposition is
// no matter of a plan: it is done where a part is unpacked, by the strides of the consumer's part.
//
// Source: COSTA paper, Eq. (14).
#include <complex>
#include <cstddef>
#include <optional>
#include <vector>

#include "index_calc/transform/transform.hpp"
#include "index_calc/view/view.hpp"

namespace tremula::client {

using core::Index, core::Rank;

/// One array, or two: `to` = alpha * op(`from`) + beta * `to`, as `transformation` says.
struct Update {
  index_calc::Layout from, to;
  index_calc::Transformation transformation{};
  /// Dimension d of `to` is dimension axes[d] of `from`; empty: the same order.
  std::vector<std::size_t> axes{};
  /// What is taken and what is written; empty: all.
  std::optional<index_calc::Selection> of_from{}, of_to{};
  friend bool operator==(const Update&, const Update&) = default;
};

/// What a consumer makes of a field: data = alpha * op(field) + beta * data.
struct FieldUpdate {
  std::complex<double> alpha = 1, beta = 0;
  bool conjugates = false;
  /// Dimension d of the data is dimension axes[d] of the field; empty: the same order.
  std::vector<std::size_t> axes{};
  /// The part of the data that is written; empty: all.
  std::optional<index_calc::Selection> of_data{};
  std::vector<Index> from_origin{};  ///< where that part begins in the field, in its dimensions
  /// The data is the field.
  bool is_none() const {
    return alpha == 1.0 && beta == 0.0 && !conjugates && axes.empty() && !of_data &&
           from_origin.empty();
  }
};

/// Passes that an update takes, one after the other: a summand is added to what the ones before have made,
/// in the order of the layers, so that a result is the same bit for bit however the source is dealt.
Rank pass_count(const Update& update) noexcept;
/// What is moved in one of them: one layer of `from`, to the first layer of `to`; the others get none of
/// alpha * op(from). An update that takes fewer passes moves nothing in those that are left (alpha is 0).
/// @param pass  from 0 on
Update in_pass(const Update& update, Rank pass);

/// Checks that an update can be made where layouts have partial sums: elements that nothing is known of cannot be
/// added up, and the ranks of a target's other layers do not learn which elements of a partial source there are.
/// @throws core::Error unsupported
void validate_sums(const Update& update);

/// What an update moves: two layouts of one shape, in the dimensions of Update::from.
struct Moved {
  index_calc::Layout from, to;
};
/// @throws core::Error invalid_argument if a selection does not lie in its array, or axes are none
Moved moved(const Update& update);

/// Where what an update moves lies in the memory of one rank, in the dimensions of Update::from; where ranks
/// list what they own, the whole buffer.
struct MovedParts {
  index_calc::LocalPart from, to;
};
/// @throws core::Error as moved
MovedParts moved_parts(const Update& update, Rank me);

}  // namespace tremula::client
