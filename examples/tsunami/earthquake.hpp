// SPDX-License-Identifier: Apache-2.0
#pragma once
// The earthquake: a rectangular fault in an elastic half-space, and how far it lifts the sea floor
// above it.
#include "grid.hpp"

namespace tsunami {

/// A rectangle that slips straight up its own slope (a thrust, rake 90 degrees), most in the middle
/// and least at its edges. The slip is the sum of five equal slips on rectangles with 100, 90, 80,
/// 70 and 60 % of the length and width around the same centre. A single rectangle would lift the
/// sea floor into a sharp ridge along its edge.
struct Fault {
  GeoPoint centre;        ///< centre of the rectangle, seen from above
  double top_metres;      ///< depth of the upper edge below the sea floor
  double length_metres;   ///< along strike
  double width_metres;    ///< down the slope
  double strike_degrees;  ///< clockwise from north; the fault dips to the right of strike
  double dip_degrees;     ///< below the horizontal
  double slip_metres;     ///< in the middle; the mean slip is 0.66 times this
};

/// The 2011 Tohoku earthquake on the plate boundary between the coast and the Japan Trench. Strike
/// and dip: USGS W-phase moment tensor, as used by Fujii et al., Earth Planets Space 63 (2011)
/// 815-820. With a rigidity of 40 GPa, the moment is 4.0e22 N m, which corresponds to the measured
/// magnitude of 9.0.
inline constexpr Fault tohoku_2011{.centre = {.latitude = 38.1, .longitude = 142.9},
                                   .top_metres = 5e3,
                                   .length_metres = 450e3,
                                   .width_metres = 150e3,
                                   .strike_degrees = 193,
                                   .dip_degrees = 14,
                                   .slip_metres = 22.5};

/// The rupture took two to three minutes; the model lifts the sea floor all at once at the centroid
/// time of the Global CMT catalogue (05:47:33 UTC), this long after the earthquake began (USGS:
/// 05:46:24).
inline constexpr double centroid_delay_seconds = 69;

/// Returns the vertical displacement in metres, upwards, of the surface point `x` metres along
/// strike and `y` metres to the left of strike from the corner above the fault's lower edge.
/// `depth` is the depth of that lower edge. Source: Y. Okada, Bull. Seism. Soc. Am. 75 (1985)
/// 1135-1154, eqs. 26, 28 and 30 for dip slip, lambda = mu.
double okada_uplift(double x, double y, double depth, double dip_degrees, double length,
                    double width, double slip);

/// Returns the vertical displacement in metres of the sea floor at `place`. Unlike the round Earth,
/// an elastic half-space is lifted by centimetres even a thousand kilometres away, so the
/// displacement is faded out between 250 km and 500 km from the fault's centre.
double uplift(const Fault& fault, GeoPoint place);

}  // namespace tsunami
