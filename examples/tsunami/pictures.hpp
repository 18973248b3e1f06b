// SPDX-License-Identifier: Apache-2.0
#pragma once
// The two maps of the example, and the tide gauges on them.
#include <array>
#include <string>
#include <vector>

#include "grid.hpp"

namespace tsunami {

/// A tide gauge that recorded the tsunami of 11 March 2011.
struct Gauge {
  const char* name;
  GeoPoint place;
  double observed_hours;  ///< first arrival after the earthquake
};

inline constexpr std::array<Gauge, 4> gauges{{
    {"Wake", {19.28, 166.62}, 3.7},
    {"Midway", {28.21, 360 - 177.36}, 5.0},
    {"Nawiliwili", {21.95, 360 - 159.36}, 7.3},
    {"Crescent City", {41.74, 360 - 124.18}, 9.8},
}};

/// Returns the sea cell nearest to a place, because gauges are in harbours that the grid does not
/// resolve.
/// @param relief shape: [rows][columns]
/// @throws std::runtime_error if there is no sea within 100 km
Index nearest_sea(const Grid& grid, const std::vector<float>& relief, GeoPoint place);

/// Writes the maximum height above still water as PNG. All shapes: [rows][columns], south to north.
void draw_highest(const Grid& grid, const std::vector<float>& relief,
                  const std::vector<float>& highest_metres, const std::string& file);

/// Writes the time of the first arrival as PNG; NaN means not arrived.
void draw_arrival(const Grid& grid, const std::vector<float>& relief,
                  const std::vector<float>& arrival_hours, const std::string& file);

}  // namespace tsunami
