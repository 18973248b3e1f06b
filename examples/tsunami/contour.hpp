// SPDX-License-Identifier: Apache-2.0
#pragma once
// Lines of equal value through a field (marching squares).
#include <array>
#include <cmath>
#include <vector>

#include "grid.hpp"

namespace tsunami {

struct Point {
  double column = 0, row = 0;  ///< fractional cell indices
};
struct Line {
  Point from, to;
};

/// Returns the lines on which `field` passes `level`, interpolated linearly between cell centres.
/// Squares with a NaN corner have no line.
/// @param field shape: [rows][columns]
inline std::vector<Line> contour(const std::vector<float>& field, Index rows, Index columns,
                                 float level) {
  struct Corner {
    Index row, column;
    float above;  // value - level
  };
  std::vector<Line> found;
  for (Index row = 0; row + 1 < rows; ++row) {
    for (Index column = 0; column + 1 < columns; ++column) {
      std::array<Corner, 4> corners{
          {{row, column, 0}, {row, column + 1, 0}, {row + 1, column + 1, 0}, {row + 1, column, 0}}};
      bool known = true;
      for (Corner& corner : corners) {
        corner.above =
            field[static_cast<std::size_t>(corner.row * columns + corner.column)] - level;
        known = known && !std::isnan(corner.above);
      }
      if (!known) continue;

      std::array<Point, 4> crossings;
      std::size_t count = 0;
      for (std::size_t side = 0; side < 4; ++side) {
        const Corner &a = corners[side], &b = corners[(side + 1) % 4];
        if ((a.above < 0) == (b.above < 0)) continue;
        const double part = a.above / (a.above - b.above);
        crossings[count++] = {
            static_cast<double>(a.column) + part * static_cast<double>(b.column - a.column),
            static_cast<double>(a.row) + part * static_cast<double>(b.row - a.row)};
      }
      // Two crossings make one line. The four crossings of a saddle make two; either pairing will do.
      for (std::size_t pair = 0; pair + 1 < count; pair += 2) {
        found.push_back({crossings[pair], crossings[pair + 1]});
      }
    }
  }
  return found;
}

}  // namespace tsunami
