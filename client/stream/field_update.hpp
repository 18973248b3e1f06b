// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <complex>
#include <optional>
#include <vector>

#include "client/stream/link_plan.hpp"
#include "index_calc/layout/view.hpp"

namespace tremula::client {

/// What a consumer makes of a field: data = alpha * op(field) + beta * data.
struct FieldUpdate {
  std::complex<double> alpha = 1, beta = 0;
  bool conjugates = false;
  /// Dimension d of the data is dimension axes[d] of the field; empty: the same order.
  std::vector<std::size_t> axes{};
  /// The part of the data that is written; empty: all.
  std::optional<index_calc::Selection> of_data{};
  std::vector<Index> from_origin{};  ///< where that part begins in the field, in its dimensions
};

/// Makes of the data that an application declares the field that the producer is to see: its
/// dimensions are the producer's.
/// @param field  in: type and layout of the data
/// @return where rank `me` puts it
/// @throws core::Error invalid_argument, unsupported
Target apply(const FieldUpdate& update, proto::Field& field, Rank me);

}  // namespace tremula::client
