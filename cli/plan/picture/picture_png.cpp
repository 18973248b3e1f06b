// SPDX-License-Identifier: Apache-2.0
#include <cairo.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>

#include "cli/plan/picture/picture.hpp"
#include "core/error.hpp"

namespace tremula::cli {

namespace {

constexpr double pixels_per_unit = 2;

struct Release {
  void operator()(cairo_surface_t* surface) const { cairo_surface_destroy(surface); }
  void operator()(cairo_t* context) const { cairo_destroy(context); }
};

void set_colour(cairo_t* cairo, const Colour& c) {
  cairo_set_source_rgba(cairo, c.red, c.green, c.blue, c.alpha);
}

void draw(cairo_t* cairo, const Boxes& boxes) {
  set_colour(cairo, boxes.colour);
  const double inset = boxes.line / 2;
  for (const Rect& r : boxes.rects)
    cairo_rectangle(cairo, r.x + inset, r.y + inset, std::max(0.0, r.width - boxes.line),
                    std::max(0.0, r.height - boxes.line));
  // Antialiasing would leave a visible seam between neighbouring filled boxes.
  cairo_set_antialias(cairo, boxes.line > 0 ? CAIRO_ANTIALIAS_DEFAULT : CAIRO_ANTIALIAS_NONE);
  cairo_set_line_width(cairo, boxes.line);
  if (boxes.line > 0)
    cairo_stroke(cairo);
  else
    cairo_fill(cairo);
}

void draw(cairo_t* cairo, const Polygons& polygons) {
  set_colour(cairo, polygons.colour);
  cairo_set_antialias(cairo, CAIRO_ANTIALIAS_DEFAULT);
  for (const auto& corners : polygons.corners) {
    for (const Point& p : corners) cairo_line_to(cairo, p.x, p.y);
    cairo_close_path(cairo);
    cairo_new_sub_path(cairo);
  }
  cairo_fill(cairo);
}

void draw(cairo_t* cairo, const Text& text) {
  set_colour(cairo, text.colour);
  cairo_select_font_face(cairo, "DejaVu Sans", CAIRO_FONT_SLANT_NORMAL,
                         text.is_bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
  cairo_set_font_size(cairo, text.size);
  cairo_text_extents_t extents;
  cairo_text_extents(cairo, text.text.c_str(), &extents);
  const double before = text.anchor == Anchor::start    ? 0
                        : text.anchor == Anchor::middle ? extents.x_advance / 2
                                                        : extents.x_advance;
  cairo_save(cairo);
  cairo_translate(cairo, text.x, text.y);
  if (text.is_upward) cairo_rotate(cairo, -std::numbers::pi / 2);
  cairo_move_to(cairo, -before, 0);
  cairo_show_text(cairo, text.text.c_str());
  cairo_restore(cairo);
}

cairo_status_t append(void* out, const unsigned char* bytes, unsigned count) {
  static_cast<std::string*>(out)->append(bytes, bytes + count);
  return CAIRO_STATUS_SUCCESS;
}

}  // namespace

std::string to_png(const Picture& picture) {
  const auto pixels = [](double units) {
    return static_cast<int>(std::ceil(units * pixels_per_unit));
  };
  const std::unique_ptr<cairo_surface_t, Release> surface(cairo_image_surface_create(
      CAIRO_FORMAT_RGB24, pixels(picture.width), pixels(picture.height)));
  const std::unique_ptr<cairo_t, Release> cairo(cairo_create(surface.get()));
  cairo_scale(cairo.get(), pixels_per_unit, pixels_per_unit);
  set_colour(cairo.get(), {1, 1, 1});
  cairo_paint(cairo.get());
  for (const auto& shape : picture.shapes)
    std::visit([&cairo](const auto& s) { draw(cairo.get(), s); }, shape);
  std::string png;
  const cairo_status_t status = cairo_surface_write_to_png_stream(surface.get(), append, &png);
  if (status != CAIRO_STATUS_SUCCESS)
    throw core::Error(core::Errc::internal, fmt::format("expected Cairo to draw a PNG, found: {}",
                                                        cairo_status_to_string(status)));
  return png;
}

}  // namespace tremula::cli
