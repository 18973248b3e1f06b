// SPDX-License-Identifier: Apache-2.0
#pragma once
// Regular grids and distances on the sphere.
#include <cmath>
#include <cstdint>
#include <numbers>

namespace tsunami {

using Index = std::int64_t;

inline constexpr double earth_radius_metres = 6'371'000.0;
inline constexpr double radians_per_degree = std::numbers::pi / 180.0;

/// A place in degrees; longitude counts east from 0 to 360.
struct GeoPoint {
  double latitude = 0;
  double longitude = 0;
};

/// Returns the great-circle distance in metres (haversine formula).
inline double distance(GeoPoint a, GeoPoint b) {
  const double half_height = std::sin((b.latitude - a.latitude) * radians_per_degree / 2);
  const double half_width = std::sin((b.longitude - a.longitude) * radians_per_degree / 2);
  const double chord = half_height * half_height + std::cos(a.latitude * radians_per_degree) *
                                                       std::cos(b.latitude * radians_per_degree) *
                                                       half_width * half_width;
  return 2 * earth_radius_metres * std::asin(std::sqrt(chord));
}

/// A regular grid of cells over the sphere. A cell consists of `nodes` x `nodes` points of the 5'
/// relief; its depth is the mean of these points, and its centre is in their middle. For example,
/// nodes = 2 gives cells of 10'. Row 0 is the southernmost, column 0 the westernmost.
struct Grid {
  double west = 0;   ///< longitude of the first relief point, degrees east
  double south = 0;  ///< latitude of the first relief point
  Index nodes = 1;
  Index rows = 0;
  Index columns = 0;

  static constexpr double node_degrees = 1.0 / 12;  // 5'

  double cell_degrees() const { return node_degrees * static_cast<double>(nodes); }
  double longitude(double column) const { return west + offset() + column * cell_degrees(); }
  double latitude(double row) const { return south + offset() + row * cell_degrees(); }
  /// Return the fractional indices of a place; cell centres have integer indices.
  double column(double longitude) const { return (longitude - west - offset()) / cell_degrees(); }
  double row(double latitude) const { return (latitude - south - offset()) / cell_degrees(); }
  GeoPoint centre(Index row, Index column) const {
    return {latitude(static_cast<double>(row)), longitude(static_cast<double>(column))};
  }
  Index cells() const { return rows * columns; }

private:
  double offset() const { return node_degrees * static_cast<double>(nodes - 1) / 2; }
};

}  // namespace tsunami
