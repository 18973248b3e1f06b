// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checks that the arrays that a caller describes fit the grids of a file of weights.
#include <cstdint>
#include <span>
#include <string>

#include "coupling/weights/rows.hpp"
#include "coupling/weights/weight_file.hpp"
#include "tremula/tremula.h"

namespace tremula::weights {

/// Returns how many elements an array of these extents has.
std::int64_t product(std::span<const std::int64_t> extents);

/// Checks that the layout is for `ranks` ranks that hold whole values.
/// @throws Failure naming what the layout has instead
void expect_destination_of(const tremula_layout* layout, int ranks);

/// Checks that an array of this shape is numbered as the grid is: it has as many elements and, if
/// both have the same number of dimensions above 1, the same extents.
/// @param side  "source" or "destination", for error texts
/// @throws Failure
void expect_shape_of(const Grid& grid, std::span<const std::int64_t> shape, Order order,
                     const std::string& path, const std::string& side);

}  // namespace tremula::weights
