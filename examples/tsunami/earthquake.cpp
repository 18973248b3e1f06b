// SPDX-License-Identifier: Apache-2.0
#include "earthquake.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>

namespace tsunami {
namespace {

/// Returns the bracket of Okada's eq. 26 for the corner (xi, eta), in Okada's notation.
double dip_slip_corner(double xi, double eta, double q, double sine, double cosine) {
  const double r = std::sqrt(xi * xi + eta * eta + q * q);
  const double d_tilde = eta * sine - q * cosine;
  const double x = std::sqrt(xi * xi + q * q);
  constexpr double elasticity = 0.5;  // mu / (lambda + mu)
  const double i5 =
      xi == 0
          ? 0
          : elasticity * 2 / cosine *
                std::atan((eta * (x + q * cosine) + x * (r + x) * sine) / (xi * (r + x) * cosine));
  const double angle = q == 0 ? 0 : std::atan(xi * eta / (q * r));
  return d_tilde * q / (r * (r + xi)) + sine * angle - i5 * sine * cosine;
}

}  // namespace

double okada_uplift(double x, double y, double depth, double dip_degrees, double length,
                    double width, double slip) {
  const double sine = std::sin(dip_degrees * radians_per_degree);
  const double cosine = std::cos(dip_degrees * radians_per_degree);
  const double p = y * cosine + depth * sine;
  const double q = y * sine - depth * cosine;
  const auto corner = [&](double xi, double eta) {
    return dip_slip_corner(xi, eta, q, sine, cosine);
  };
  return -slip / (2 * std::numbers::pi) *
         (corner(x, p) - corner(x, p - width) - corner(x - length, p) +
          corner(x - length, p - width));
}

double uplift(const Fault& fault, GeoPoint place) {
  // Project the sphere onto a plane that preserves distance and direction from the fault's centre.
  const double there = place.latitude * radians_per_degree;
  const double here = fault.centre.latitude * radians_per_degree;
  const double turn = (place.longitude - fault.centre.longitude) * radians_per_degree;
  const double azimuth = std::atan2(
      std::sin(turn) * std::cos(there),
      std::cos(here) * std::sin(there) - std::sin(here) * std::cos(there) * std::cos(turn));
  const double metres = distance(fault.centre, place);
  constexpr double fades_from = 250e3, ends_at = 500e3;
  if (metres >= ends_at) return 0;
  const double faded = std::max(0.0, (metres - fades_from) / (ends_at - fades_from));
  const double share = 0.5 + 0.5 * std::cos(std::numbers::pi * faded);

  const double from_strike = azimuth - fault.strike_degrees * radians_per_degree;
  const double along = metres * std::cos(from_strike), left = -metres * std::sin(from_strike);

  const double dip = fault.dip_degrees * radians_per_degree;
  const double centre_depth = fault.top_metres + fault.width_metres * std::sin(dip) / 2;
  double lifted = 0;
  for (const double part : {1.0, 0.9, 0.8, 0.7, 0.6}) {
    const double length = part * fault.length_metres, width = part * fault.width_metres;
    lifted += okada_uplift(along + length / 2, left + width * std::cos(dip) / 2,
                           centre_depth + width * std::sin(dip) / 2, fault.dip_degrees, length,
                           width, fault.slip_metres / 5);
  }
  return share * lifted;
}

}  // namespace tsunami
