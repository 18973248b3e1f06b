// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a package is stored in a local part: its contiguous runs, found without a walk over its
// elements.
#include <optional>

#include "index_calc/plan/plan.hpp"

namespace tremula::index_calc {

/// The contiguous runs of a package in a rank's buffer, in wire order. pack moves each run as a
/// whole.
struct Runs {
  Index count = 0;
  Index longest = 0;   ///< elements
  Index shortest = 0;  ///< elements
  friend bool operator==(const Runs&, const Runs&) = default;
};

/// Counts the runs of a package in a local part.
/// @param order  wire order, as for pack
/// Cost: proportional to the families of one period along each dimension, times a logarithm; not to
/// the elements.
Runs runs(const Package& package, const LocalPart& part, Order order);

/// Returns where a package begins in the rank's buffer, in elements; nullopt if it is not a single
/// run there. On the wire, it always is.
std::optional<Index> begin_of_only_run(const Package& package, const LocalPart& part, Order order);

}  // namespace tremula::index_calc
