// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/plan/picture/picture_panels.hpp"
#include "cli/units.hpp"

namespace tremula::cli {

namespace {

constexpr Colour producer_colour = Colour::rgb(0x2f6fb5), consumer_colour = Colour::rgb(0xdd8a1c);

Colour tint(Colour colour, double alpha = 0.16) {
  colour.alpha = alpha;
  return colour;
}

/// Draws grid lines between the elements if the elements are large enough.
void draw_lattice(Picture& picture, const ShownPart& part, const Rect& plot) {
  const double dx = plot.width / static_cast<double>(part.columns.shown),
               dy = plot.height / static_cast<double>(part.rows.shown);
  if (dx < 6 || dy < 6) return;
  std::vector<Rect> lines;
  for (Index i = 1; i < part.rows.shown; ++i)
    lines.push_back({plot.x, plot.y + static_cast<double>(i) * dy - 0.5, plot.width, 1});
  for (Index i = 1; i < part.columns.shown; ++i)
    lines.push_back({plot.x + static_cast<double>(i) * dx - 0.5, plot.y, 1, plot.height});
  picture.fill(std::move(lines), {1, 1, 1});
}

/// Returns the tiles that a rank holds, including copies.
std::vector<Tile> tiles_of_rank(const Redistribution& redistribution, Side side,
                                const ShownPart& part, Rank rank) {
  std::vector<Tile> tiles;
  for (const HeldTiles& of : held_tiles(redistribution, side, part))
    if (std::ranges::binary_search(of.ranks, rank))
      tiles.insert(tiles.end(), of.tiles.begin(), of.tiles.end());
  return joined(std::move(tiles));
}

// Each box of adjacent blocks gets an outline, thin enough to leave the inside of a small one
// visible. Elements that a rank lists are only filled, because they do not form blocks.

void fill_owned(Picture& picture, const std::vector<Rect>& boxes, const Colour& colour,
                const index_calc::Layout& layout) {
  picture.fill(boxes, tint(colour, layout.listed() ? 0.4 : 0.16));
}

void outline_owned(Picture& picture, const std::vector<Rect>& boxes, const Colour& colour,
                   const index_calc::Layout& layout) {
  if (layout.listed()) return;
  double width = 1.6;
  for (const Rect& r : boxes) width = std::min({width, r.width / 8, r.height / 8});
  picture.outline(boxes, colour, std::max(width, 0.5));
}

std::string package_text(const Redistribution& redistribution, const PackageFacts& package,
                         bool is_shown) {
  return fmt::format("{} elements, {}, {} run{} for the {}{}", package.elements,
                     bytes_text(static_cast<double>(package.bytes)), package.runs.count,
                     package.runs.count == 1 ? "" : "s", to_string(redistribution.side),
                     is_shown ? "" : "; none in this corner");
}

struct Key {
  std::string text;
  Colour colour;
  bool is_filled = false;
};

void draw_keys(Picture& picture, const Rect& plot, const std::vector<Key>& keys) {
  double x = plot.x;
  const double y = plot.y + plot.height + 14;
  for (const Key& key : keys) {
    picture.fill({{x, y, 12, 12}}, key.is_filled ? key.colour : tint(key.colour));
    if (!key.is_filled) picture.outline({{x, y, 12, 12}}, key.colour, 1.6);
    picture.write({.x = x + 18, .y = y + 10, .text = key.text, .colour = grey_ink});
    x += 18 + width_of(key.text, 12) + 12;
  }
}

}  // namespace

void draw_package(Picture& picture, const Frame& place, const BlockMap& map,
                  const Redistribution& redistribution, const RankPlan& plan, Rank producer,
                  Rank consumer) {
  const Rect plot = map.plot(place);
  const auto package =
      plan.plan.package_for(redistribution.side == Side::producer ? consumer : producer);
  const auto of_package =
      package ? map.boxes(plot, package_tiles(redistribution, plan, *package, map.part))
              : std::vector<Rect>();
  const auto of_producer =
                 map.boxes(plot, tiles_of_rank(redistribution, Side::producer, map.part, producer)),
             of_consumer =
                 map.boxes(plot, tiles_of_rank(redistribution, Side::consumer, map.part, consumer));
  write_titles(picture, place,
               fmt::format("Package: producer {} to consumer {}", producer.value, consumer.value),
               package ? package_text(redistribution, facts(redistribution, plan, *package),
                                      !of_package.empty())
                       : "they exchange no elements");
  map.write_axes(picture, plot);
  picture.fill({plot}, paper);
  draw_lattice(picture, map.part, plot);
  fill_owned(picture, of_producer, producer_colour, redistribution.from);
  fill_owned(picture, of_consumer, consumer_colour, redistribution.to);
  picture.fill(of_package, pair_colour);
  outline_owned(picture, of_producer, producer_colour, redistribution.from);
  outline_owned(picture, of_consumer, consumer_colour, redistribution.to);
  const index_calc::Layout& from = redistribution.from;
  const bool is_share = has_copies(from);
  draw_keys(picture, plot,
            {{fmt::format("producer {}", producer.value), producer_colour},
             {fmt::format("consumer {}", consumer.value), consumer_colour},
             {is_share ? "package; rest from other ranks" : "package", pair_colour, true}});
}

}  // namespace tremula::cli
