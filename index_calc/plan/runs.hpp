// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a package lies in a local part: its contiguous runs, without a walk over its elements.
#include <optional>

#include "index_calc/plan/plan.hpp"

namespace tremula::index_calc {

/// Contiguous runs of a package in a rank's buffer, taken in wire order: what pack moves at once.
struct Runs {
  Index count = 0;
  Index longest = 0;   ///< elements
  Index shortest = 0;  ///< elements
  friend bool operator==(const Runs&, const Runs&) = default;
};

/// @param order  of the wire, as for pack
/// Cost: the families of one period along each dimension, times a logarithm; not the elements.
Runs runs(const Package& package, const LocalPart& part, Order order);

/// Where a package begins in the rank's buffer, in elements, if it lies there in one run, as on the
/// wire.
std::optional<Index> begin_of_only_run(const Package& package, const LocalPart& part, Order order);

}  // namespace tremula::index_calc
