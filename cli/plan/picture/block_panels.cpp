// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <map>

#include "cli/plan/picture/picture_panels.hpp"
#include "cli/units.hpp"

namespace tremula::cli {

namespace {

using index_calc::GridCoords, index_calc::Layout, index_calc::ProcessGrid;

constexpr Colour producer_colour = Colour::rgb(0x2f6fb5), consumer_colour = Colour::rgb(0xdd8a1c),
                 common_colour = pair_colour;

const std::vector<Interval>& blocks_of(const ShownAxis& axis, Side side) {
  return side == Side::producer ? axis.from : axis.to;
}

std::vector<Rect> boxes(const BlockMap& map, const Rect& plot, const std::vector<Interval>& rows,
                        const std::vector<Interval>& columns) {
  std::vector<Rect> result;
  for (const Interval& row : rows)
    for (const Interval& column : columns) result.push_back(map.box(plot, row, column));
  return result;
}

void write_axes(Picture& picture, const BlockMap& map, const Rect& plot) {
  const auto label = [](std::size_t dimension, const ShownAxis& axis) {
    return fmt::format("dimension {}: 0 to {}", dimension, axis.shown - 1);
  };
  picture.write({.x = plot.x + plot.width / 2,
                 .y = plot.y - 8,
                 .text = label(map.dimensions - 1, map.columns),
                 .colour = grey_ink,
                 .anchor = Anchor::middle});
  if (map.dimensions == 2)
    picture.write({.x = plot.x - 8,
                   .y = plot.y + plot.height / 2,
                   .text = label(0, map.rows),
                   .colour = grey_ink,
                   .anchor = Anchor::middle,
                   .is_upward = true});
}

/// The coordinates of `rank` along rows and columns.
std::pair<Index, Index> coordinates(const BlockMap& map, const Layout& layout, Rank rank) {
  const GridCoords coords = coords_of_member(layout, rank);
  return map.dimensions == 2 ? std::pair{coords[0].value, coords[1].value}
                             : std::pair{Index{0}, coords[0].value};
}

Rank rank_of(const BlockMap& map, const ProcessGrid& grid, Index row, Index column) {
  GridCoords coords{};
  coords[0] = {map.dimensions == 2 ? row : column};
  if (map.dimensions == 2) coords[1] = {column};
  return grid.rank_at(coords);
}

/// Lines between the elements, where these are large enough.
void draw_lattice(Picture& picture, const BlockMap& map, const Rect& plot) {
  const double dx = plot.width / static_cast<double>(map.columns.shown),
               dy = plot.height / static_cast<double>(map.rows.shown);
  if (dx < 6 || dy < 6) return;
  std::vector<Rect> lines;
  for (Index i = 1; i < map.rows.shown; ++i)
    lines.push_back({plot.x, plot.y + static_cast<double>(i) * dy - 0.5, plot.width, 1});
  for (Index i = 1; i < map.columns.shown; ++i)
    lines.push_back({plot.x + static_cast<double>(i) * dx - 0.5, plot.y, 1, plot.height});
  picture.fill(std::move(lines), {1, 1, 1});
}

/// Colours from the first to the last rank that is shown.
void draw_rank_bar(Picture& picture, const Rect& plot, Rank first, Rank last) {
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
  write(x - 4, fmt::format("{}", first), Anchor::end);
  write(x + width + 5, fmt::format("{}", last), Anchor::start);
}

}  // namespace

BlockMap::BlockMap(const Redistribution& redistribution)
    : dimensions(redistribution.from.dims.size()) {
  const auto& from = redistribution.from.dims;
  const auto& to = redistribution.to.dims;
  columns = shown_axis(from.back(), to.back());
  rows = dimensions == 2
             ? shown_axis(from[0], to[0])
             : ShownAxis{.extent = 1, .shown = 1, .from = {{0, 1, 0}}, .to = {{0, 1, 0}}};
}

Rect BlockMap::plot(const Place& place) const {
  const double width = place.width - left_of_plot;
  Rect result{place.x + left_of_plot, place.y + above_plot, width, place.plot_height};
  if (dimensions == 1) return result;
  const auto element_rows = static_cast<double>(rows.shown),
             element_columns = static_cast<double>(columns.shown);
  const double scale = std::min(width / element_columns, place.plot_height / element_rows);
  result.width = std::max(scale * element_columns, 0.45 * width);
  result.height = std::max(scale * element_rows, 0.45 * place.plot_height);
  return result;
}

Rect BlockMap::box(const Rect& plot, const Interval& row, const Interval& column) const {
  const double dx = plot.width / static_cast<double>(columns.shown),
               dy = plot.height / static_cast<double>(rows.shown);
  return {plot.x + static_cast<double>(column.begin) * dx,
          plot.y + static_cast<double>(row.begin) * dy,
          static_cast<double>(column.end - column.begin) * dx,
          static_cast<double>(row.end - row.begin) * dy};
}

std::string BlockMap::part_text() const {
  if (rows.is_whole() && columns.is_whole()) return "the whole array";
  const auto of = [this](auto value) {
    return dimensions == 2 ? fmt::format("{} x {}", value(rows), value(columns))
                           : fmt::format("{}", value(columns));
  };
  const std::string periods =
      (rows.is_whole() || rows.periods > 0) && (columns.is_whole() || columns.periods > 0)
          ? ", whole periods"
          : "";
  return fmt::format("only the first {} of {} elements{}",
                     of([](const ShownAxis& axis) { return axis.shown; }),
                     of([](const ShownAxis& axis) { return axis.extent; }), periods);
}

void draw_blocks(Picture& picture, const Place& place, const BlockMap& map,
                 const Redistribution& redistribution, Side side) {
  const Layout& layout = redistribution.layout_of(side);
  const ProcessGrid grid(layout);
  const Rank ranks = grid.size();
  write_titles(
      picture, place,
      fmt::format("{}: blocks of {} rank{}", side == Side::producer ? "Producer" : "Consumer",
                  ranks, ranks == 1 ? "" : "s"),
      map.part_text());
  const Rect plot = map.plot(place);
  write_axes(picture, map, plot);
  std::map<Rank, std::vector<Rect>> rects;
  for (const Interval& row : blocks_of(map.rows, side))
    for (const Interval& column : blocks_of(map.columns, side))
      rects[rank_of(map, grid, row.owner, column.owner)].push_back(map.box(plot, row, column));
  std::vector<Text> numbers;
  bool has_room = true;
  int shown = 0;
  for (auto& [rank, blocks] : rects) {
    const Colour colour =
        rects.size() == 1 ? viridis(0.3) : viridis(shown++ / static_cast<double>(rects.size() - 1));
    const std::string text = fmt::format("{}", rank);
    for (const Rect& r : blocks) {
      const double size = std::min({13.0, r.height - 2, (r.width - 2) / width_of(text, 1)});
      has_room = has_room && size >= 8;
      if (size < 8) continue;
      numbers.push_back({.x = r.x + r.width / 2,
                         .y = r.y + r.height / 2 + 0.36 * size,
                         .text = text,
                         .size = size,
                         .colour = colour.is_dark() ? Colour{1, 1, 1} : ink,
                         .anchor = Anchor::middle});
    }
    picture.fill(blocks, colour);
    picture.outline(std::move(blocks), Colour::rgb(0xffffff, 0.7), 0.5);
  }
  for (Text& number : numbers) picture.write(std::move(number));
  if (!has_room) draw_rank_bar(picture, plot, rects.begin()->first, rects.rbegin()->first);
}

void draw_common(Picture& picture, const Place& place, const BlockMap& map,
                 const Redistribution& redistribution, Rank producer, Rank consumer,
                 const std::optional<PackageFacts>& package) {
  const Rect plot = map.plot(place);
  const auto [from_row, from_column] = coordinates(map, redistribution.from, producer);
  const auto [to_row, to_column] = coordinates(map, redistribution.to, consumer);
  const auto from_rows = owned(map.rows.from, from_row), to_rows = owned(map.rows.to, to_row),
             from_columns = owned(map.columns.from, from_column),
             to_columns = owned(map.columns.to, to_column);
  const auto both = boxes(map, plot, common(from_rows, to_rows), common(from_columns, to_columns));
  std::string subtitle = "they share no element";
  if (package)
    subtitle = fmt::format("{} elements, {}, {} run{} for the {}{}", package->elements,
                           bytes_text(static_cast<double>(package->bytes)), package->runs.count,
                           package->runs.count == 1 ? "" : "s", to_string(redistribution.side),
                           both.empty() ? "; none in this corner" : "");
  write_titles(picture, place,
               fmt::format("Package: producer {} to consumer {}", producer, consumer), subtitle);
  write_axes(picture, map, plot);
  picture.fill({plot}, paper);
  draw_lattice(picture, map, plot);
  const auto theirs = boxes(map, plot, to_rows, to_columns),
             mine = boxes(map, plot, from_rows, from_columns);
  const auto tint = [](Colour colour) {
    colour.alpha = 0.16;
    return colour;
  };
  picture.fill(mine, tint(producer_colour));
  picture.fill(theirs, tint(consumer_colour));
  picture.fill(both, common_colour);
  const double line = std::min(mine.size(), theirs.size()) > 400 ? 0.7 : 1.6;
  picture.outline(mine, producer_colour, line);
  picture.outline(theirs, consumer_colour, line);

  double x = plot.x;
  const double y = plot.y + plot.height + 14;
  const auto key = [&](const std::string& text, const Colour& colour, bool is_filled) {
    if (is_filled) {
      picture.fill({{x, y, 12, 12}}, colour);
    } else {
      picture.fill({{x, y, 12, 12}}, tint(colour));
      picture.outline({{x, y, 12, 12}}, colour, 1.6);
    }
    picture.write({.x = x + 18, .y = y + 10, .text = text, .colour = grey_ink});
    x += 18 + width_of(text, 12) + 12;
  };
  key(fmt::format("producer {}", producer), producer_colour, false);
  key(fmt::format("consumer {}", consumer), consumer_colour, false);
  key("both: the package", common_colour, true);
}

}  // namespace tremula::cli
