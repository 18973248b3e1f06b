// SPDX-License-Identifier: Apache-2.0
#include "pictures.hpp"

#include <stdexcept>

#include "chart.hpp"
#include "earthquake.hpp"
#include "wave_record.hpp"

namespace tsunami {
namespace {

void mark_places(Chart& chart) {
  for (const Gauge& gauge : gauges) {
    chart.mark(gauge.place, gauge.name, Chart::Symbol::circle);
  }
  chart.mark(tohoku_2011.centre, "", Chart::Symbol::star);
}

/// Returns the place `metres` from `start` in the direction of the bearing, clockwise from north.
GeoPoint along(GeoPoint start, double bearing_degrees, double metres) {
  const double angle = metres / earth_radius_metres, bearing = bearing_degrees * radians_per_degree;
  const double latitude = start.latitude * radians_per_degree;
  const double sine = std::sin(latitude) * std::cos(angle) +
                      std::cos(latitude) * std::sin(angle) * std::cos(bearing);
  const double turn = std::atan2(std::sin(bearing) * std::sin(angle) * std::cos(latitude),
                                 std::cos(angle) - std::sin(latitude) * sine);
  return {std::asin(sine) / radians_per_degree, start.longitude + turn / radians_per_degree};
}

}  // namespace

Index nearest_sea(const Grid& grid, const std::vector<float>& relief, GeoPoint place) {
  Index nearest = -1;
  double least = 100e3;
  for (Index row = 0; row < grid.rows; ++row) {
    for (Index column = 0; column < grid.columns; ++column) {
      const Index cell = row * grid.columns + column;
      if (relief[static_cast<std::size_t>(cell)] >= 0) continue;
      const double metres = distance(place, grid.centre(row, column));
      if (metres < least) {
        least = metres;
        nearest = cell;
      }
    }
  }
  if (nearest < 0) {
    throw std::runtime_error("expected sea within 100 km of " + std::to_string(place.latitude) +
                             " N " + std::to_string(place.longitude) +
                             " E, found none; is the relief ETOPO5?");
  }
  return nearest;
}

void draw_highest(const Grid& grid, const std::vector<float>& relief,
                  const std::vector<float>& highest_metres, const std::string& file) {
  const ColourScale scale{.title = "maximum height of the sea surface above still water (m)",
                          .map = inferno,
                          .low = 0.01,
                          .high = 5,
                          .logarithmic = true,
                          .ticks = {{0.01, "0.01"},
                                    {0.02, "0.02"},
                                    {0.05, "0.05"},
                                    {0.1, "0.1"},
                                    {0.2, "0.2"},
                                    {0.5, "0.5"},
                                    {1, "1"},
                                    {2, "2"},
                                    {5, "5"}}};
  Chart chart(grid, relief, "Tohoku tsunami, 11 March 2011: maximum wave height",
              "First 10 hours, linear long waves over ETOPO5; pale sea: lower than 1 cm. "
              "Star: epicentre. Circles: tide gauges.");
  chart.paint(highest_metres, scale, false);
  mark_places(chart);
  chart.save(file);
}

void draw_arrival(const Grid& grid, const std::vector<float>& relief,
                  const std::vector<float>& arrival_hours, const std::string& file) {
  ColourScale scale{.title = "hours after the earthquake (h)",
                    .map = viridis,
                    .low = 0,
                    .high = 10,
                    .reversed = true,
                    .bands = 10,
                    .ticks = {}};
  for (int hour = 0; hour <= 10; ++hour)
    scale.ticks.push_back({double(hour), std::to_string(hour)});
  Chart chart(grid, relief, "Tohoku tsunami, 11 March 2011: first arrival",
              "First time the sea is " +
                  std::to_string(std::lround(100 * arrival_threshold_metres)) +
                  " cm above still water; lines every hour; pale sea: not within 10 hours. "
                  "Star: epicentre. Circles: tide gauges.");
  chart.paint(arrival_hours, scale, true);
  for (int hour = 1; hour < 10; ++hour) {
    chart.lines(contour(arrival_hours, grid.rows, grid.columns, static_cast<float>(hour)));
  }
  mark_places(chart);
  // Each hour's number is drawn where its line crosses the great circle through open ocean.
  int hour = 1;
  for (double metres = 100e3; hour < 10 && metres < 15e6; metres += 10e3) {
    const GeoPoint place = along(tohoku_2011.centre, 108, metres);
    const double row = grid.row(place.latitude), column = grid.column(place.longitude);
    if (row < 0 || column < 0 || row > double(grid.rows - 1) || column > double(grid.columns - 1))
      break;
    const auto cell =
        static_cast<std::size_t>(std::lround(row) * grid.columns + std::lround(column));
    if (arrival_hours[cell] >= static_cast<float>(hour)) {
      chart.mark(place, std::to_string(hour) + " h", Chart::Symbol::none);
      ++hour;
    }
  }
  chart.save(file);
}

}  // namespace tsunami
