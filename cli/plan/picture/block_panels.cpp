// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <ranges>

#include "cli/plan/picture/picture_panels.hpp"

namespace tremula::cli {

namespace {

using index_calc::Layout;

constexpr Colour white = Colour::rgb(0xffffff);

/// The colours of the shown ranks of a side.
class RankColours {
public:
  explicit RankColours(const std::vector<HeldTiles>& held) {
    for (const HeldTiles& of : held) ranks_.insert(ranks_.end(), of.ranks.begin(), of.ranks.end());
    std::ranges::sort(ranks_);
    const auto repeated = std::ranges::unique(ranks_);
    ranks_.erase(repeated.begin(), repeated.end());
  }
  Colour of(Rank rank) const {
    if (ranks_.size() == 1) return viridis(0.3);
    const auto number = std::ranges::lower_bound(ranks_, rank) - ranks_.begin();
    return viridis(static_cast<double>(number) / static_cast<double>(ranks_.size() - 1));
  }
  Rank first() const { return ranks_.front(); }
  Rank last() const { return ranks_.back(); }

private:
  std::vector<Rank> ranks_;
};

/// Returns the part of a polygon where sign * (x + y) <= sign * sum.
std::vector<Point> cut_diagonally(const std::vector<Point>& corners, double sign, double sum) {
  std::vector<Point> result;
  const auto beyond = [&](const Point& p) { return sign * (p.x + p.y - sum); };
  for (std::size_t i = 0; i < corners.size(); ++i) {
    const Point &a = corners[i], &b = corners[(i + 1) % corners.size()];
    const double a_beyond = beyond(a), b_beyond = beyond(b);
    if (a_beyond <= 0) result.push_back(a);
    if ((a_beyond < 0 && b_beyond > 0) || (a_beyond > 0 && b_beyond < 0)) {
      const double t = a_beyond / (a_beyond - b_beyond);
      result.push_back({a.x + t * (b.x - a.x), a.y + t * (b.y - a.y)});
    }
  }
  return result;
}

const Rect& largest(const std::vector<Rect>& boxes) {
  return *std::ranges::max_element(boxes, {}, [](const Rect& r) { return r.width * r.height; });
}

void add_polygon(Polygons& polygons, std::vector<Point> corners) {
  if (corners.size() > 2) polygons.corners.push_back(std::move(corners));
}

/// Fills boxes with diagonal stripes, using each colour equally often and all of them in the
/// largest box. Omits some colours if there is no room for all. Stripes continue from box to box.
void fill_striped(Picture& picture, const std::vector<Rect>& boxes,
                  const std::vector<Colour>& colours) {
  constexpr double usual_width = 11, smallest_width = 3;
  const double length = largest(boxes).width + largest(boxes).height;
  const auto most = static_cast<std::size_t>(length / smallest_width);
  const std::size_t shown = std::min(colours.size(), std::max<std::size_t>(2, most));
  const double all = usual_width * static_cast<double>(shown);
  const double width =
      length / std::max(1.0, std::floor(length / all)) / static_cast<double>(shown);
  // With many ranks, neighbouring stripes look alike, so a light line separates them.
  const double border = std::min(1.0, width / 5);
  Polygons borders{.corners = {}, .colour = Colour::rgb(0xffffff, 0.5)};
  std::vector<Polygons> stripes;
  stripes.reserve(colours.size());
  for (const Colour& colour : colours) stripes.push_back({.corners = {}, .colour = colour});
  for (const Rect& r : boxes) {
    const std::vector<Point> corners{
        {r.x, r.y}, {r.x + r.width, r.y}, {r.x + r.width, r.y + r.height}, {r.x, r.y + r.height}};
    const double begin = r.x + r.y, end = begin + r.width + r.height;
    const auto band = [&](double first, double last) {
      return cut_diagonally(cut_diagonally(corners, -1, first), 1, last);
    };
    for (auto i = static_cast<std::size_t>(begin / width); static_cast<double>(i) * width < end;
         ++i) {
      const double first = static_cast<double>(i) * width;
      const std::size_t colour = i % shown * colours.size() / shown;
      if (colour > 0) add_polygon(stripes[colour], band(first, first + width));
      if (colours.size() > 1) add_polygon(borders, band(first, first + border));
    }
  }
  picture.fill(boxes, colours.front());  // below all stripes, so that gaps between them do not show
  for (Polygons& of_colour : stripes)
    if (!of_colour.corners.empty()) picture.shapes.emplace_back(std::move(of_colour));
  if (!borders.corners.empty()) picture.shapes.emplace_back(std::move(borders));
}

/// Rank numbers, written on the boxes that the ranks hold and drawn on top of everything else.
class Numbers {
public:
  /// Labels a box with the numbers of the ranks that hold it or, if there is no room for all, with
  /// the first number and the count of the others.
  void add(const Rect& r, const std::vector<Rank>& ranks, Colour colour) {
    const bool is_striped = ranks.size() > 1;
    const double around = is_striped ? 6 : 2;
    std::vector<std::string> texts{
        fmt::format("{}", fmt::join(ranks | std::views::transform(&Rank::value), " "))};
    if (is_striped) texts.push_back(fmt::format("{} +{}", ranks.front().value, ranks.size() - 1));
    for (const std::string& text : texts) {
      const double size =
          std::min({13.0, r.height - around, (r.width - around) / width_of(text, 1)});
      if (size < smallest) continue;
      texts_.push_back({.x = r.x + r.width / 2,
                        .y = r.y + r.height / 2 + 0.36 * size,
                        .text = text,
                        .size = size,
                        .colour = is_striped || !colour.is_dark() ? ink : white,
                        .anchor = Anchor::middle});
      if (is_striped) behind_.push_back(behind(texts_.back()));
      return;
    }
    have_room_ = false;
  }
  bool have_room() const noexcept { return have_room_; }
  void write(Picture& picture) {
    picture.fill(std::move(behind_), Colour::rgb(0xffffff, 0.85));
    for (Text& text : texts_) picture.write(std::move(text));
  }

private:
  static constexpr double smallest = 8;

  /// Returns the light background that keeps a text readable on stripes.
  static Rect behind(const Text& text) {
    const double width = width_of(text.text, text.size) + 4, height = text.size + 4;
    return {text.x - width / 2, text.y - 0.36 * text.size - height / 2, width, height};
  }

  std::vector<Text> texts_;
  std::vector<Rect> behind_;
  bool have_room_ = true;
};

/// Draws the colour key, from the first to the last rank shown.
void draw_rank_bar(Picture& picture, const Rect& plot, const RankColours& colours) {
  constexpr double width = 180, height = 10;
  const double x = plot.x + 40, y = plot.y + plot.height + 14;
  constexpr int steps = 60;
  for (int i = 0; i < steps; ++i)
    picture.fill({{x + i * width / steps, y, width / steps, height}},
                 viridis(i / static_cast<double>(steps - 1)));
  const auto write = [&](double at, const std::string& text, Anchor anchor) {
    picture.write(
        {.x = at, .y = y + 9, .text = text, .size = 11, .colour = grey_ink, .anchor = anchor});
  };
  write(plot.x, "rank", Anchor::start);
  write(x - 4, fmt::format("{}", colours.first().value), Anchor::end);
  write(x + width + 5, fmt::format("{}", colours.last().value), Anchor::start);
}

std::string ranks_of_side_text(const Layout& layout, Side side) {
  const RankCount ranks = rank_count(layout), copies = copy_count(layout);
  return fmt::format("{}: {} of {} rank{}{}", side == Side::producer ? "Producer" : "Consumer",
                     layout.listed() ? "elements" : "blocks", ranks, ranks == 1 ? "" : "s",
                     copies == 1 ? "" : fmt::format(", which hold {} copies", copies));
}

}  // namespace

Rect BlockMap::plot(const Frame& place) const {
  const double width = place.width - left_of_plot;
  Rect result{place.x + left_of_plot, place.y + above_plot, width, place.plot_height};
  if (part.dimensions == 1) return result;
  const auto element_rows = static_cast<double>(part.rows.shown),
             element_columns = static_cast<double>(part.columns.shown);
  const double scale = std::min(width / element_columns, place.plot_height / element_rows);
  result.width = std::max(scale * element_columns, 0.45 * width);
  result.height = std::max(scale * element_rows, 0.45 * place.plot_height);
  return result;
}

Rect BlockMap::box(const Rect& plot, const Tile& tile) const {
  const double dx = plot.width / static_cast<double>(part.columns.shown),
               dy = plot.height / static_cast<double>(part.rows.shown);
  return {plot.x + static_cast<double>(tile.left) * dx, plot.y + static_cast<double>(tile.top) * dy,
          static_cast<double>(tile.right - tile.left) * dx,
          static_cast<double>(tile.bottom - tile.top) * dy};
}

std::vector<Rect> BlockMap::boxes(const Rect& plot, const std::vector<Tile>& tiles) const {
  std::vector<Rect> result;
  result.reserve(tiles.size());
  for (const Tile& tile : tiles) result.push_back(box(plot, tile));
  return result;
}

std::string BlockMap::part_text() const {
  const auto& [dimensions, rows, columns] = part;
  if (rows.is_whole() && columns.is_whole()) return "the whole array";
  const auto of = [&](Index ShownAxis::*value) {
    return part.dimensions == 2 ? fmt::format("{} x {}", part.rows.*value, part.columns.*value)
                                : fmt::format("{}", part.columns.*value);
  };
  const std::string periods =
      (rows.is_whole() || rows.periods > 0) && (columns.is_whole() || columns.periods > 0)
          ? ", whole periods"
          : "";
  return fmt::format("only the first {} of {} elements{}", of(&ShownAxis::shown),
                     of(&ShownAxis::extent), periods);
}

void BlockMap::write_axes(Picture& picture, const Rect& plot) const {
  const auto label = [](std::size_t dimension, const ShownAxis& axis) {
    return fmt::format("dimension {}: 0 to {}", dimension, axis.shown - 1);
  };
  picture.write({.x = plot.x + plot.width / 2,
                 .y = plot.y - 8,
                 .text = label(part.dimensions - 1, part.columns),
                 .colour = grey_ink,
                 .anchor = Anchor::middle});
  if (part.dimensions == 2)
    picture.write({.x = plot.x - 8,
                   .y = plot.y + plot.height / 2,
                   .text = label(0, part.rows),
                   .colour = grey_ink,
                   .anchor = Anchor::middle,
                   .is_upward = true});
}

void draw_blocks(Picture& picture, const Frame& place, const BlockMap& map,
                 const Redistribution& redistribution, Side side) {
  const Layout& layout = redistribution.layout_of(side);
  write_titles(picture, place, ranks_of_side_text(layout, side), map.part_text());
  const Rect plot = map.plot(place);
  map.write_axes(picture, plot);
  if (layout.listed()) picture.fill({plot}, paper);  // some elements may be on no rank
  const std::vector<HeldTiles> held = held_tiles(redistribution, side, map.part);
  const RankColours colours(held);
  Numbers numbers;
  double area = 0;
  bool has_stripes = false;
  for (const HeldTiles& of : held) {
    has_stripes = has_stripes || of.ranks.size() > 1;
    std::vector<Colour> of_ranks;
    of_ranks.reserve(of.ranks.size());
    for (const Rank rank : of.ranks) of_ranks.push_back(colours.of(rank));
    std::vector<Rect> boxes = map.boxes(plot, of.tiles);
    for (const Rect& r : boxes) area += r.width * r.height;
    for (const Rect& r : of.square ? std::vector{map.box(plot, *of.square)} : boxes)
      numbers.add(r, of.ranks, of_ranks.front());
    fill_striped(picture, boxes, of_ranks);
    if (!layout.listed()) picture.outline(std::move(boxes), Colour::rgb(0xffffff, 0.7), 0.5);
  }
  numbers.write(picture);
  if (!numbers.have_room() && !held.empty()) draw_rank_bar(picture, plot, colours);
  const bool is_partial = area < 0.999999 * plot.width * plot.height;
  const std::string key =
      fmt::format("{}{}{}", has_stripes ? "striped: several ranks" : "",
                  has_stripes && is_partial ? ", " : "", is_partial ? "grey: none" : "");
  if (!key.empty())
    picture.write({.x = numbers.have_room() ? plot.x : place.x + place.width,
                   .y = plot.y + plot.height + 23,
                   .text = key,
                   .size = 11,
                   .colour = grey_ink,
                   .anchor = numbers.have_room() ? Anchor::start : Anchor::end});
}

}  // namespace tremula::cli
