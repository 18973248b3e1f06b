// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "cli/plan/picture/picture.hpp"

namespace tremula::cli {

namespace {

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else
      out += c;
  }
  return out;
}

/// Writes a number with at most two decimals.
std::string number(double value) {
  const double rounded = std::round(value * 100) / 100;
  return fmt::format("{:g}", rounded == 0 ? 0 : rounded);
}

std::string colour(std::string_view attribute, const Colour& c) {
  const auto byte = [](double value) { return std::lround(value * 255); };
  std::string out = fmt::format(" {}=\"#{:02x}{:02x}{:02x}\"", attribute, byte(c.red),
                                byte(c.green), byte(c.blue));
  if (c.alpha < 1) out += fmt::format(" {}-opacity=\"{}\"", attribute, number(c.alpha));
  return out;
}

void append(std::string& out, const Boxes& boxes) {
  out += "<path";
  if (boxes.line > 0)
    out += " fill=\"none\"" + colour("stroke", boxes.colour) +
           fmt::format(" stroke-width=\"{}\"", number(boxes.line));
  else
    out += colour("fill", boxes.colour) + " shape-rendering=\"crispEdges\"";
  out += " d=\"";
  const double inset = boxes.line / 2;
  for (const Rect& r : boxes.rects) {
    const std::string width = number(std::max(0.0, r.width - boxes.line)),
                      height = number(std::max(0.0, r.height - boxes.line));
    fmt::format_to(std::back_inserter(out), "M{} {}h{}v{}h-{}z", number(r.x + inset),
                   number(r.y + inset), width, height, width);
  }
  out += "\"/>\n";
}

void append(std::string& out, const Polygons& polygons) {
  out += "<path" + colour("fill", polygons.colour) + " d=\"";
  for (const auto& corners : polygons.corners) {
    char command = 'M';
    for (const Point& p : corners) {
      fmt::format_to(std::back_inserter(out), "{}{} {}", command, number(p.x), number(p.y));
      command = 'L';
    }
    out += 'z';
  }
  out += "\"/>\n";
}

void append(std::string& out, const Text& text) {
  const std::string x = number(text.x), y = number(text.y);
  out += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"{}\"", x, y, number(text.size));
  if (text.anchor != Anchor::start)
    out += fmt::format(" text-anchor=\"{}\"", text.anchor == Anchor::middle ? "middle" : "end");
  if (text.is_bold) out += " font-weight=\"bold\"";
  if (text.is_upward) out += fmt::format(" transform=\"rotate(-90 {} {})\"", x, y);
  out += colour("fill", text.colour) + ">" + escaped(text.text) + "</text>\n";
}

}  // namespace

std::string to_svg(const Picture& picture) {
  const std::string width = number(picture.width), height = number(picture.height);
  std::string out = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" font-family=\"DejaVu Sans, Verdana, sans-serif\">\n"
      "<title>{2}</title>\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n",
      width, height, escaped(picture.title));
  for (const auto& shape : picture.shapes)
    std::visit([&out](const auto& s) { append(out, s); }, shape);
  return out + "</svg>\n";
}

}  // namespace tremula::cli
