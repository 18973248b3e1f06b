// SPDX-License-Identifier: Apache-2.0
#pragma once
// A map of the grid as a picture with one pixel per 5', land in grey, coast lines, degrees, a
// colour bar and marks.
#include <cairo.h>

#include <memory>
#include <string>
#include <vector>

#include "colours.hpp"
#include "contour.hpp"
#include "grid.hpp"

namespace tsunami {

/// Draw in this order: paint, lines, mark, save.
class Chart {
public:
  /// @param relief height of every cell in metres, negative in the sea; shape: [rows][columns],
  /// kept by reference
  Chart(const Grid& grid, const std::vector<float>& relief, const std::string& title,
        const std::string& subtitle);

  /// Colours the sea by `values` (shape as for relief); NaN and values below the scale's low end
  /// stay pale. Draws the land, the coast lines, the frame with its degrees and the colour bar.
  /// @param shaded whether the relief of the sea floor shows through
  void paint(const std::vector<float>& values, const ColourScale& scale, bool shaded);
  /// Draws thin lines.
  void lines(const std::vector<Line>& lines);
  enum class Symbol { circle, star, none };
  /// Draws a symbol with a text next to it: to its left if `left` is true, else to its right.
  void mark(GeoPoint place, const std::string& text, Symbol symbol, bool left = false);
  /// @throws std::runtime_error if the file cannot be written
  void save(const std::string& file) const;

private:
  struct Release {
    void operator()(cairo_surface_t* surface) const { cairo_surface_destroy(surface); }
    void operator()(cairo_t* context) const { cairo_destroy(context); }
  };
  using Surface = std::unique_ptr<cairo_surface_t, Release>;

  Point pixel(Point cell) const;
  double light(Index row, Index column) const;
  void draw_frame();
  void draw_colour_bar(const ColourScale& scale);
  enum class Align { left, centre, right };
  void text(double x, double y, const std::string& words, double size, Align align,
            bool bold = false, bool halo = false);

  Grid grid_;
  const std::vector<float>& relief_;
  double width_, height_;  ///< size of the map in pixels
  Surface surface_;
  std::unique_ptr<cairo_t, Release> cairo_;
};

}  // namespace tsunami
