// SPDX-License-Identifier: Apache-2.0
#pragma once
// The relief of the Earth: NOAA's ETOPO5, heights in metres on a 5' grid.
#include <string>
#include <vector>

#include "grid.hpp"

namespace tsunami {

/// Path of the relief in Debian's package ferret-datasets.
inline constexpr const char* default_relief = "/usr/share/ferret-vis/data/etopo5.cdf";

/// Returns the heights of `rows` x `columns` cells of the grid, beginning with cell (first_row,
/// first_column), each the mean of its nodes x nodes relief points; negative below sea level. Cells
/// may be outside the grid, but must be on the sphere. Shape: [rows][columns], south to north.
/// @throws std::runtime_error if the file is missing or is not ETOPO5
std::vector<float> read_relief(const std::string& file, const Grid& grid, Index first_row,
                               Index first_column, Index rows, Index columns);

/// Least depth of the sea. The linear equations are not valid where a wave is as high as the water
/// is deep.
inline constexpr float shallowest_metres = 10;
/// Returns the depth of the still water in metres, 0 on land.
inline float still_depth(float height) {
  return height >= 0 ? 0 : (-height < shallowest_metres ? shallowest_metres : -height);
}

}  // namespace tsunami
