// SPDX-License-Identifier: Apache-2.0
#include "chart.hpp"

#include <stdexcept>

namespace tsunami {
namespace {

constexpr double left_margin = 130, right_margin = 250, top_margin = 165, bottom_margin = 95;
constexpr Colour ink = Colour::rgb(0x22252a), pale_sea = Colour::rgb(0xe4eaf0),
                 land = Colour::rgb(0xcfcbc4), coast = Colour::rgb(0x3a3a3c);

void set_colour(cairo_t* cairo, Colour colour) {
  cairo_set_source_rgb(cairo, colour.red, colour.green, colour.blue);
}

std::uint32_t packed(Colour colour) {
  const auto byte = [](double value) {
    return static_cast<std::uint32_t>(std::lround(value * 255));
  };
  return byte(colour.red) << 16 | byte(colour.green) << 8 | byte(colour.blue);
}

std::string longitude_label(int degrees) {
  if (degrees == 180) return "180°";
  return degrees < 180 ? std::to_string(degrees) + "°E" : std::to_string(360 - degrees) + "°W";
}

std::string latitude_label(int degrees) {
  if (degrees == 0) return "0°";
  return std::to_string(std::abs(degrees)) + (degrees > 0 ? "°N" : "°S");
}

}  // namespace

Chart::Chart(const Grid& grid, const std::vector<float>& relief, const std::string& title,
             const std::string& subtitle)
    : grid_(grid),
      relief_(relief),
      width_(static_cast<double>(grid.columns * grid.nodes)),
      height_(static_cast<double>(grid.rows * grid.nodes)),
      surface_(cairo_image_surface_create(CAIRO_FORMAT_RGB24,
                                          static_cast<int>(left_margin + width_ + right_margin),
                                          static_cast<int>(top_margin + height_ + bottom_margin))),
      cairo_(cairo_create(surface_.get())) {
  set_colour(cairo_.get(), {1, 1, 1});
  cairo_paint(cairo_.get());
  text(left_margin, 72, title, 46, Align::left, true);
  text(left_margin, 128, subtitle, 28, Align::left);
}

Point Chart::pixel(Point cell) const {
  const double size = static_cast<double>(grid_.nodes);
  return {left_margin + (cell.column + 0.5) * size, top_margin + height_ - (cell.row + 0.5) * size};
}

// Returns the brightness of the relief's slope in light from the north-west; 1 on flat ground.
double Chart::light(Index row, Index column) const {
  const auto height = [&](Index r, Index c) {
    r = std::clamp(r, Index{0}, grid_.rows - 1);
    c = std::clamp(c, Index{0}, grid_.columns - 1);
    return static_cast<double>(relief_[static_cast<std::size_t>(r * grid_.columns + c)]);
  };
  const double eastward = height(row, column + 1) - height(row, column - 1);
  const double northward = height(row + 1, column) - height(row - 1, column);
  const double slope = (eastward - northward) / (3000.0 * static_cast<double>(grid_.nodes));
  return 1 + 0.28 * std::tanh(slope);
}

void Chart::paint(const std::vector<float>& values, const ColourScale& scale, bool shaded) {
  const Surface map(cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(grid_.columns),
                                               static_cast<int>(grid_.rows)));
  cairo_surface_flush(map.get());
  auto* const pixels = reinterpret_cast<std::uint32_t*>(cairo_image_surface_get_data(map.get()));
  const Index stride = cairo_image_surface_get_stride(map.get()) / 4;
  for (Index row = 0; row < grid_.rows; ++row) {
    for (Index column = 0; column < grid_.columns; ++column) {
      const auto cell = static_cast<std::size_t>(row * grid_.columns + column);
      Colour colour = land.lit(light(row, column));
      if (relief_[cell] < 0) {
        const bool known = values[cell] >= scale.low;  // false for NaN
        colour = known ? scale.colour(values[cell]) : pale_sea;
        if (shaded) colour = colour.lit(light(row, column));
      }
      pixels[(grid_.rows - 1 - row) * stride + column] = packed(colour);
    }
  }
  cairo_surface_mark_dirty(map.get());

  cairo_t* const cairo = cairo_.get();
  cairo_save(cairo);
  cairo_translate(cairo, left_margin, top_margin);
  cairo_scale(cairo, static_cast<double>(grid_.nodes), static_cast<double>(grid_.nodes));
  cairo_set_source_surface(cairo, map.get(), 0, 0);
  cairo_pattern_set_filter(cairo_get_source(cairo), CAIRO_FILTER_NEAREST);
  cairo_paint(cairo);
  cairo_restore(cairo);

  set_colour(cairo, coast);
  cairo_set_line_width(cairo, 1.2);
  for (const Line& line : contour(relief_, grid_.rows, grid_.columns, 0)) {
    const Point a = pixel(line.from), b = pixel(line.to);
    cairo_move_to(cairo, a.column, a.row);
    cairo_line_to(cairo, b.column, b.row);
  }
  cairo_stroke(cairo);
  draw_frame();
  draw_colour_bar(scale);
}

void Chart::lines(const std::vector<Line>& lines) {
  cairo_t* const cairo = cairo_.get();
  set_colour(cairo, ink);
  cairo_set_line_width(cairo, 1.8);
  cairo_set_line_cap(cairo, CAIRO_LINE_CAP_ROUND);
  for (const Line& line : lines) {
    const Point a = pixel(line.from), b = pixel(line.to);
    cairo_move_to(cairo, a.column, a.row);
    cairo_line_to(cairo, b.column, b.row);
  }
  cairo_stroke(cairo);
}

void Chart::mark(GeoPoint place, const std::string& words, Symbol symbol, bool left) {
  cairo_t* const cairo = cairo_.get();
  const Point at = pixel({grid_.column(place.longitude), grid_.row(place.latitude)});
  double gap = 0;
  if (symbol != Symbol::none) {
    gap = 20;
    cairo_new_path(cairo);
    if (symbol == Symbol::circle) {
      cairo_arc(cairo, at.column, at.row, 9, 0, 2 * std::numbers::pi);
    } else {
      for (int point = 0; point < 10; ++point) {
        const double radius = point % 2 == 0 ? 20 : 8,
                     angle = std::numbers::pi * (point / 5.0 - 0.5);
        cairo_line_to(cairo, at.column + radius * std::cos(angle),
                      at.row + radius * std::sin(angle));
      }
      cairo_close_path(cairo);
    }
    set_colour(cairo, symbol == Symbol::circle ? Colour{1, 1, 1} : Colour::rgb(0xe6194b));
    cairo_fill_preserve(cairo);
    set_colour(cairo, ink);
    cairo_set_line_width(cairo, 3);
    cairo_stroke(cairo);
  }
  const Align align = symbol == Symbol::none ? Align::centre : left ? Align::right : Align::left;
  text(at.column + (left ? -gap : gap), at.row + 10, words, 28, align, true, true);
}

void Chart::draw_frame() {
  cairo_t* const cairo = cairo_.get();
  constexpr double tick = 12, size = 28;
  set_colour(cairo, ink);
  cairo_set_line_width(cairo, 3);
  cairo_rectangle(cairo, left_margin, top_margin, width_, height_);
  cairo_stroke(cairo);

  const double bottom = top_margin + height_;
  const GeoPoint first = grid_.centre(0, 0), last = grid_.centre(grid_.rows - 1, grid_.columns - 1);
  const auto graticule = [&](double x0, double y0, double x1, double y1) {
    cairo_set_source_rgba(cairo, 0, 0, 0, 0.16);
    cairo_set_line_width(cairo, 1);
    cairo_move_to(cairo, x0, y0);
    cairo_line_to(cairo, x1, y1);
    cairo_stroke(cairo);
  };
  const auto tick_line = [&](double x, double y, double dx, double dy) {
    set_colour(cairo, ink);
    cairo_set_line_width(cairo, 3);
    cairo_move_to(cairo, x, y);
    cairo_rel_line_to(cairo, dx, dy);
    cairo_stroke(cairo);
  };
  for (int degrees = -180; degrees <= 360; degrees += 20) {
    if (degrees >= first.longitude - 0.5 && degrees <= last.longitude + 0.5) {
      const double x = pixel({grid_.column(degrees), 0}).column;
      graticule(x, top_margin, x, bottom);
      tick_line(x, bottom, 0, tick);
      text(x, bottom + tick + size + 4, longitude_label(degrees), size, Align::centre);
    }
    if (degrees >= first.latitude - 0.5 && degrees <= last.latitude + 0.5) {
      const double y = pixel({0, grid_.row(degrees)}).row;
      graticule(left_margin, y, left_margin + width_, y);
      tick_line(left_margin, y, -tick, 0);
      text(left_margin - tick - 8, y + size * 0.36, latitude_label(degrees), size, Align::right);
    }
  }
}

void Chart::draw_colour_bar(const ColourScale& scale) {
  cairo_t* const cairo = cairo_.get();
  constexpr double size = 28, width = 46;
  const double x = left_margin + width_ + 50, height = std::floor(height_ * 0.86),
               y = top_margin + std::floor((height_ - height) / 2);
  cairo_set_antialias(cairo, CAIRO_ANTIALIAS_NONE);
  for (int row = 0; row < static_cast<int>(height); ++row) {
    set_colour(cairo, scale.at(1 - (row + 0.5) / height));
    cairo_rectangle(cairo, x, y + row, width, 1);
    cairo_fill(cairo);
  }
  cairo_set_antialias(cairo, CAIRO_ANTIALIAS_DEFAULT);
  set_colour(cairo, ink);
  cairo_set_line_width(cairo, 2);
  cairo_rectangle(cairo, x, y, width, height);
  cairo_stroke(cairo);
  for (const ColourScale::Tick& tick : scale.ticks) {
    const double level = y + height * (1 - scale.position(tick.value));
    cairo_move_to(cairo, x + width, level);
    cairo_rel_line_to(cairo, 8, 0);
    cairo_stroke(cairo);
    text(x + width + 15, level + size * 0.36, tick.label, size, Align::left);
  }
  cairo_save(cairo);
  cairo_translate(cairo, x + width + 140, y + height / 2);
  cairo_rotate(cairo, -std::numbers::pi / 2);
  text(0, 0, scale.title, size + 2, Align::centre);
  cairo_restore(cairo);
}

void Chart::text(double x, double y, const std::string& words, double size, Align align, bool bold,
                 bool halo) {
  cairo_t* const cairo = cairo_.get();
  cairo_select_font_face(cairo, "DejaVu Sans", CAIRO_FONT_SLANT_NORMAL,
                         bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
  cairo_set_font_size(cairo, size);
  cairo_text_extents_t extents;
  cairo_text_extents(cairo, words.c_str(), &extents);
  const double shift = align == Align::left ? 0 : align == Align::centre ? 0.5 : 1;
  cairo_move_to(cairo, x - shift * extents.x_advance, y);
  cairo_text_path(cairo, words.c_str());
  if (halo) {
    cairo_set_source_rgba(cairo, 1, 1, 1, 0.85);
    cairo_set_line_width(cairo, 6);
    cairo_set_line_join(cairo, CAIRO_LINE_JOIN_ROUND);
    cairo_stroke_preserve(cairo);
  }
  set_colour(cairo, ink);
  cairo_fill(cairo);
}

void Chart::save(const std::string& file) const {
  const cairo_status_t status = cairo_surface_write_to_png(surface_.get(), file.c_str());
  if (status != CAIRO_STATUS_SUCCESS) {
    throw std::runtime_error("writing the picture " + file + ": " + cairo_status_to_string(status) +
                             "; name an existing, writable folder with --output");
  }
}

}  // namespace tsunami
