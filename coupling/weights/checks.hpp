// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checks that the caller's arrays fit the grids of a weight file.
#include <cstdint>
#include <span>
#include <string>

#include "coupling/weights/rows.hpp"
#include "coupling/weights/weight_file.hpp"
#include "tremula/tremula.h"

namespace tremula::weights {

/// Returns the number of elements of an array with these extents.
std::int64_t product(std::span<const std::int64_t> extents);

/// Checks that the layout is for `ranks` ranks that hold whole values.
/// @throws Failure naming what the layout has instead
void expect_destination_of(const tremula_layout* layout, int ranks);

/// Checks that the elements of an array of this shape are numbered as those of the grid: there are as
/// many, and the extents above 1 are the same if both have the same number of them.
/// @param side  "source" or "destination", for error texts
/// @throws Failure
void expect_shape_of(const Grid& grid, std::span<const std::int64_t> shape, Order order,
                     const std::string& path, const std::string& side);

}  // namespace tremula::weights
