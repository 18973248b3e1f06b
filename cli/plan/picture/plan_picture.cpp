// SPDX-License-Identifier: Apache-2.0
#include "cli/plan/picture/plan_picture.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "cli/plan/picture/picture_panels.hpp"
#include "cli/units.hpp"
#include "core/error.hpp"

namespace tremula::cli {

namespace {

constexpr double margin = 32, gutter = 40, head_height = 104, panel_width = 430;
constexpr double plot_height = 340, strip_height = 44;
constexpr std::size_t most_cells = 256;

/// Returns the peer with the largest package; nullopt if there is no package.
std::optional<Rank> largest_peer(const index_calc::Plan& plan) {
  std::optional<Rank> peer;
  Index most = 0;
  plan.for_each_package([&](const index_calc::Package& package) {
    if (package.elements <= most) return;
    most = package.elements;
    peer = package.peer;
  });
  return peer;
}

void write_head(Picture& picture, const Redistribution& redistribution) {
  const double width = picture.width - 2 * margin;
  picture.write({.x = margin,
                 .y = 42,
                 .text = shortened(picture.title, width, 18),
                 .size = 18,
                 .colour = ink,
                 .is_bold = true});
  const auto line = [&](double y, const std::string& name, const index_calc::Layout& layout) {
    picture.write({.x = margin, .y = y, .text = name, .size = 12, .colour = grey_ink});
    picture.write({.x = margin + 40,
                   .y = y,
                   .text = shortened(to_string(layout), width - 40, 12),
                   .size = 12,
                   .colour = grey_ink});
  };
  line(64, "from", redistribution.from);
  line(82, "to", redistribution.to);
}

/// The places of the four panels: two by two, strips one above the other, or only the matrix.
struct Arrangement {
  double width = 0;
  double height = 0;          ///< without the matrix
  std::vector<Frame> places;  ///< the last is the place of the matrix
};

Arrangement arrangement(const Redistribution& redistribution) {
  const double left = margin, right = margin + panel_width + gutter;
  const double wide = 2 * panel_width + gutter;
  Arrangement result{.width = wide + 2 * margin, .places = {}};
  double y = head_height;
  const auto next = [&](double height) { y += above_plot + height + below_plot + 14; };
  if (dimensions(redistribution.from) == 2) {
    const double height = BlockMap(redistribution).plot({0, 0, panel_width, plot_height}).height;
    result.places = {{left, y, panel_width, height}, {right, y, panel_width, height}};
    next(height);
    result.places.push_back({left, y, panel_width, height});
    result.places.push_back({right, y, panel_width, plot_height - 16});
    next(height);
  } else if (dimensions(redistribution.from) == 1) {
    for (int strip = 0; strip < 3; ++strip, next(strip_height))
      result.places.push_back({left, y, wide, strip_height});
    result.places.push_back({left, y, wide, plot_height});
  } else {
    result.width = 700;
    result.places = {{left, y, result.width - 2 * margin, 1.2 * plot_height}};
  }
  result.height = y;
  return result;
}

/// Returns why a rank has no package.
std::string nothing_text(const Redistribution& redistribution, const RankPlan& plan) {
  const bool is_producer = redistribution.side == Side::producer;
  return fmt::format("{} {} {} no elements", to_string(redistribution.side), plan.rank.value,
                     plan.part.elements == 0 ? "owns"
                     : is_producer           ? "sends"
                                             : "receives");
}

}  // namespace

double width_of(const std::string& text, double size) {
  return 0.64 * size * static_cast<double>(text.size());
}

std::string shortened(const std::string& text, double width, double size) {
  const auto most = static_cast<std::size_t>(width / width_of("m", size));
  return text.size() <= most ? text : text.substr(0, most - 3) + "...";
}

void write_titles(Picture& picture, const Frame& place, const std::string& title,
                  const std::string& subtitle) {
  picture.write(
      {.x = place.x, .y = place.y + 12, .text = title, .size = 15, .colour = ink, .is_bold = true});
  picture.write({.x = place.x, .y = place.y + 31, .text = subtitle, .colour = grey_ink});
}

Picture plan_picture(const Redistribution& redistribution, const RankPlan& plan,
                     std::optional<Rank> peer) {
  if (elements(redistribution.from) == 0)
    throw core::Error(core::Errc::invalid_argument,
                      fmt::format("expected an array with elements to draw, found shape={}; draw a "
                                  "larger one",
                                  shape_text(redistribution.from)));
  const Volumes matrix = volumes(redistribution, most_cells);
  if (!peer) peer = largest_peer(plan.plan);
  const bool is_producer = redistribution.side == Side::producer;
  const Rank producer = is_producer ? plan.rank : peer.value_or(Rank{0});
  const std::optional<Rank> consumer = is_producer ? peer : plan.rank;

  const Arrangement arranged = arrangement(redistribution);
  Picture picture{.width = arranged.width, .height = arranged.height, .title = {}, .shapes = {}};
  picture.title = fmt::format("Redistribution of {} elements, {}", shape_text(redistribution.from),
                              bytes_text(static_cast<double>(elements(redistribution.from) *
                                                             redistribution.element_bytes)));
  write_head(picture, redistribution);
  if (arranged.places.size() == 4) {
    const BlockMap map(redistribution);
    draw_blocks(picture, arranged.places[0], map, redistribution, Side::producer);
    draw_blocks(picture, arranged.places[1], map, redistribution, Side::consumer);
    if (peer)
      draw_package(picture, arranged.places[2], map, redistribution, plan, producer, *consumer);
    else
      write_titles(picture, arranged.places[2], "No package", nothing_text(redistribution, plan));
  }
  const double bottom =
      draw_volumes(picture, arranged.places.back(), matrix, redistribution.element_bytes, producer,
                   peer ? consumer : std::nullopt);
  picture.height = std::max(picture.height, bottom + margin / 2);
  return picture;
}

void draw_plan(const std::string& file, const Redistribution& redistribution, const RankPlan& plan,
               std::optional<Rank> peer) {
  const Picture picture = plan_picture(redistribution, plan, peer);
  const std::string bytes = file.ends_with(".png") ? to_png(picture) : to_svg(picture);
  std::ofstream out(file, std::ios::binary);
  out << bytes << std::flush;
  if (!out)
    throw core::Error(
        core::Errc::invalid_argument,
        fmt::format("expected to write the picture to {}, found: {}; name a file in a "
                    "folder that can be written",
                    file, std::strerror(errno)));
}

}  // namespace tremula::cli
