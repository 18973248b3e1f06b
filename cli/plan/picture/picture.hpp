// SPDX-License-Identifier: Apache-2.0
#pragma once
// A picture as a value: shapes in drawing order, in units of a pixel, with y pointing down.
#include <algorithm>
#include <array>
#include <string>
#include <variant>
#include <vector>

namespace tremula::cli {

struct Colour {
  double red = 0, green = 0, blue = 0, alpha = 1;

  static constexpr Colour rgb(unsigned value, double alpha = 1) {
    return {static_cast<double>(value >> 16 & 0xffU) / 255,
            static_cast<double>(value >> 8 & 0xffU) / 255, static_cast<double>(value & 0xffU) / 255,
            alpha};
  }
  /// Returns whether text on this colour should be white.
  bool is_dark() const noexcept { return 0.299 * red + 0.587 * green + 0.114 * blue < 0.55; }
};

/// Returns the colour at position `at` (0 to 1), interpolated linearly between equally spaced stops.
template <std::size_t stops>
Colour interpolated(const std::array<unsigned, stops>& colours, double at) {
  const double scaled = std::clamp(at, 0.0, 1.0) * (stops - 1);
  const auto below = std::min(static_cast<std::size_t>(scaled), stops - 2);
  const Colour a = Colour::rgb(colours[below]), b = Colour::rgb(colours[below + 1]);
  const double t = scaled - static_cast<double>(below);
  return {a.red + t * (b.red - a.red), a.green + t * (b.green - a.green),
          a.blue + t * (b.blue - a.blue)};
}

// Both colour scales are perceptually ordered, even for people who are red-blind or green-blind.

/// Colours for ranks: dark violet at 0, yellow at 1.  Source: viridis of Matplotlib.
inline Colour viridis(double at) {
  return interpolated<9>(
      {0x440154, 0x472c7a, 0x3b518b, 0x2c718e, 0x21908d, 0x27ad81, 0x5cc863, 0xaadc32, 0xfde725},
      at);
}
/// Colours for amounts: pale at 0, dark green at 1.  Source: Greens of ColorBrewer, without white.
inline Colour greens(double at) {
  return interpolated<8>(
      {0xe5f5e0, 0xc7e9c0, 0xa1d99b, 0x74c476, 0x41ab5d, 0x238b45, 0x006d2c, 0x00441b}, at);
}

struct Rect {
  double x = 0, y = 0, width = 0, height = 0;
};

/// Rectangles of one colour, filled or outlined.
struct Boxes {
  std::vector<Rect> rects;
  Colour colour;
  double line = 0;  ///< width of the outline, which is inside the rectangle; 0 = filled
};

struct Point {
  double x = 0, y = 0;
};

/// Polygons of one colour, filled.
struct Polygons {
  std::vector<std::vector<Point>> corners;  ///< shape: [polygon][corner]
  Colour colour;
};

enum class Anchor { start, middle, end };

/// One line of text; (x, y) is on its base line.
struct Text {
  double x = 0, y = 0;
  std::string text;
  double size = 12;
  Colour colour;
  Anchor anchor = Anchor::start;
  bool is_bold = false;
  bool is_upward = false;  ///< whether the text is rotated by 90 degrees, to be read upwards
};

struct Picture {
  double width = 0, height = 0;
  std::string title;
  std::vector<std::variant<Boxes, Polygons, Text>> shapes;

  void fill(std::vector<Rect> rects, Colour colour) {
    if (!rects.empty()) shapes.emplace_back(Boxes{std::move(rects), colour, 0});
  }
  void outline(std::vector<Rect> rects, Colour colour, double line) {
    if (!rects.empty()) shapes.emplace_back(Boxes{std::move(rects), colour, line});
  }
  void write(Text text) { shapes.emplace_back(std::move(text)); }
};

/// Returns the picture as an SVG document.
std::string to_svg(const Picture& picture);

/// Returns the picture as the bytes of a PNG, with two pixels per unit.
/// @throws core::Error unsupported in a build without Cairo
std::string to_png(const Picture& picture);

}  // namespace tremula::cli
