// SPDX-License-Identifier: Apache-2.0
#pragma once
// Colours for values: perceptually uniform tables and the scale that a colour bar shows.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace tsunami {

struct Colour {
  double red = 0, green = 0, blue = 0;  ///< 0 to 1

  static constexpr Colour rgb(std::uint32_t hex) {
    return {((hex >> 16) & 255) / 255.0, ((hex >> 8) & 255) / 255.0, (hex & 255) / 255.0};
  }
  Colour lit(double light) const {
    return {std::min(1.0, red * light), std::min(1.0, green * light), std::min(1.0, blue * light)};
  }
};

/// Eleven points of a colour map; between them the colour is interpolated.
using ColourMap = std::array<std::uint32_t, 11>;
/// From matplotlib (CC0).
inline constexpr ColourMap viridis{0x440154, 0x482475, 0x414487, 0x355f8d, 0x2a788e, 0x21918c,
                                   0x22a884, 0x44bf70, 0x7ad151, 0xbddf26, 0xfde725};
inline constexpr ColourMap inferno{0x000004, 0x160b39, 0x420a68, 0x6a176e, 0x932667, 0xbc3754,
                                   0xdd513a, 0xf37819, 0xfca50a, 0xf6d746, 0xfcffa4};

/// Returns the colour at a position of a colour map.
/// @param position 0 to 1; positions outside get the colour of the nearer end
inline Colour colour_at(const ColourMap& map, double position) {
  const double place = std::clamp(position, 0.0, 1.0) * static_cast<double>(map.size() - 1);
  const auto first = std::min(static_cast<std::size_t>(place), map.size() - 2);
  const double part = place - static_cast<double>(first);
  const Colour a = Colour::rgb(map[first]), b = Colour::rgb(map[first + 1]);
  return {a.red + part * (b.red - a.red), a.green + part * (b.green - a.green),
          a.blue + part * (b.blue - a.blue)};
}

/// Values from low to high on a colour map.
struct ColourScale {
  struct Tick {
    double value;
    std::string label;
  };

  std::string title;  ///< with the unit
  ColourMap map = viridis;
  double low = 0, high = 1;
  bool logarithmic = false;
  bool reversed = false;
  int bands = 0;  ///< number of equal steps of one colour each; 0: continuous
  std::vector<Tick> ticks;

  /// Returns the position of a value on the bar, 0 to 1.
  double position(double value) const {
    return logarithmic ? std::log(value / low) / std::log(high / low)
                       : (value - low) / (high - low);
  }
  Colour colour(double value) const { return at(position(value)); }
  /// Returns the colour at a position of the bar.
  Colour at(double position) const {
    if (bands > 0) {
      const double band = std::clamp(std::floor(position * bands), 0.0, bands - 1.0);
      position = bands > 1 ? band / (bands - 1) : 0.5;
    }
    return colour_at(map, reversed ? 1 - position : position);
  }
};

}  // namespace tsunami
