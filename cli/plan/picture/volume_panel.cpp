// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <map>

#include "cli/plan/picture/picture_panels.hpp"
#include "cli/units.hpp"

namespace tremula::cli {

namespace {

constexpr double room_for_ticks = 38, room_for_bar = 92;
constexpr Colour frame_colour = Colour::rgb(0xb9c2bc);

/// Returns the smallest distance between labels (1, 2, 5, 10, ...) that needs at most `most` labels.
std::size_t tick_step(std::size_t count, std::size_t most) {
  std::size_t step = 1;
  for (std::size_t k = 0; (count - 1) / step + 1 > most; ++k)
    step = step * (k % 3 == 1 ? 5 : 4) / 2;
  return step;
}

class VolumePanel {
public:
  VolumePanel(Picture& picture, const Frame& place, const Volumes& volumes, Index element_bytes)
      : picture_(picture), volumes_(volumes), element_bytes_(element_bytes) {
    const double width = place.width - left_of_plot - room_for_ticks - room_for_bar;
    const auto rows = static_cast<double>(volumes.rows),
               columns = static_cast<double>(volumes.columns);
    const double scale = std::min({width / columns, place.plot_height / rows, 90.0});
    cell_width_ = std::max(scale, std::min(0.45 * width / columns, 90.0));
    cell_height_ = std::max(scale, std::min(0.45 * place.plot_height / rows, 45.0));
    plot_ = {place.x + left_of_plot + room_for_ticks, place.y + above_plot + 16,
             cell_width_ * columns, cell_height_ * rows};
    bar_ = {plot_.x + plot_.width + 14, plot_.y, 12, std::max(plot_.height, 60.0)};
    largest_ = volumes.cells.empty() ? 0 : *std::ranges::max_element(volumes.cells);
  }

  void draw_axes() {
    const auto tick = [&](double x, double y, Rank rank, Anchor anchor) {
      picture_.write({.x = x,
                      .y = y,
                      .text = fmt::format("{}", rank.value),
                      .size = 11,
                      .colour = grey_ink,
                      .anchor = anchor});
    };
    const auto middle = [](std::size_t rank, std::size_t per_cell, double cell) {
      const std::size_t number = rank / per_cell;
      return (static_cast<double>(number) + 0.5) * cell;
    };
    const auto most = [](double room, double each) {
      return std::max<std::size_t>(1, static_cast<std::size_t>(room / each));
    };
    const auto& [producers, consumers] = std::tie(volumes_.producers, volumes_.consumers);
    for (std::size_t i = 0, step = tick_step(producers.size(), most(plot_.height, 22));
         i < producers.size(); i += step)
      tick(plot_.x - 5, plot_.y + middle(i, volumes_.producers_per_cell, cell_height_) + 4,
           producers[i], Anchor::end);
    for (std::size_t j = 0, step = tick_step(consumers.size(), most(plot_.width, 46));
         j < consumers.size(); j += step)
      tick(plot_.x + middle(j, volumes_.consumers_per_cell, cell_width_), plot_.y - 6, consumers[j],
           Anchor::middle);
    picture_.write({.x = plot_.x + plot_.width / 2,
                    .y = plot_.y - 24,
                    .text = "consumer rank",
                    .colour = grey_ink,
                    .anchor = Anchor::middle});
    picture_.write({.x = plot_.x - room_for_ticks - 8,
                    .y = plot_.y + plot_.height / 2,
                    .text = "producer rank",
                    .colour = grey_ink,
                    .anchor = Anchor::middle,
                    .is_upward = true});
  }

  void draw_cells() {
    picture_.fill({plot_}, paper);
    std::map<int, std::vector<Rect>> shades;  // neighbours in a row with the same shade are joined
    constexpr int steps = 100;
    for (std::size_t i = 0; i < volumes_.rows; ++i)
      for (std::size_t j = 0; j < volumes_.columns;) {
        const int shade = step(i, j, steps);
        const std::size_t begin = j;
        while (j < volumes_.columns && step(i, j, steps) == shade) ++j;
        if (shade > 0)
          shades[shade].push_back({plot_.x + static_cast<double>(begin) * cell_width_,
                                   plot_.y + static_cast<double>(i) * cell_height_,
                                   static_cast<double>(j - begin) * cell_width_, cell_height_});
      }
    for (auto& [step, rects] : shades)
      picture_.fill(std::move(rects), greens(step / static_cast<double>(steps)));
    if (cell_width_ >= 8 && cell_height_ >= 8) draw_lattice();
    if (cell_width_ >= 52 && cell_height_ >= 16) write_numbers();
    picture_.outline({plot_}, frame_colour, 1);
  }

  void draw_bar() {
    constexpr int steps = 80;
    const double height = bar_.height / steps;
    for (int i = 0; i < steps; ++i)
      picture_.fill({{bar_.x, bar_.y + i * height, bar_.width, height}},
                    greens(1 - i / static_cast<double>(steps - 1)));
    const auto label = [&](double y, const std::string& text) {
      picture_.write({.x = bar_.x + 18, .y = y, .text = text, .size = 11, .colour = grey_ink});
    };
    const double end = bar_.y + bar_.height;
    label(bar_.y + 9, text(largest_));
    label(bar_.y + bar_.height / 2 + 4, text(largest_ / 2));
    label(end, text(0));
    label(end + 22, "nothing");
    picture_.fill({{bar_.x, end + 12, 12, 12}}, paper);
    picture_.outline({{bar_.x, end + 12, 12, 12}}, frame_colour, 1);
  }

  void frame(Rank producer, Rank consumer) {
    const auto at = [](const std::vector<Rank>& ranks, Rank rank, std::size_t per_cell) {
      const auto place = std::ranges::lower_bound(ranks, rank) - ranks.begin();
      const std::size_t number = static_cast<std::size_t>(place) / per_cell;
      return static_cast<double>(number);
    };
    const double x = at(volumes_.consumers, consumer, volumes_.consumers_per_cell),
                 y = at(volumes_.producers, producer, volumes_.producers_per_cell);
    const double grown = cell_width_ < 8 || cell_height_ < 8 ? 3 : 0;
    picture_.outline({{plot_.x + x * cell_width_ - grown, plot_.y + y * cell_height_ - grown,
                       cell_width_ + 2 * grown, cell_height_ + 2 * grown}},
                     pair_colour, cell_width_ < 24 || cell_height_ < 24 ? 2 : 3);
  }

  double bottom() const { return bar_.y + bar_.height + 24; }

private:
  double elements(std::size_t i, std::size_t j) const {
    return volumes_.cells[i * volumes_.columns + j];
  }
  /// Returns a shade: 0 for nothing, `steps` for the largest amount.
  int step(std::size_t i, std::size_t j, int steps) const {
    return elements(i, j) == 0 ? 0
                               : std::max(1, static_cast<int>(elements(i, j) / largest_ * steps));
  }
  std::string text(double elements) const {
    return bytes_text(elements * static_cast<double>(element_bytes_));
  }
  void draw_lattice() {
    std::vector<Rect> lines;
    for (std::size_t i = 1; i < volumes_.rows; ++i)
      lines.push_back(
          {plot_.x, plot_.y + static_cast<double>(i) * cell_height_ - 0.5, plot_.width, 1});
    for (std::size_t j = 1; j < volumes_.columns; ++j)
      lines.push_back(
          {plot_.x + static_cast<double>(j) * cell_width_ - 0.5, plot_.y, 1, plot_.height});
    picture_.fill(std::move(lines), {1, 1, 1});
  }
  void write_numbers() {
    for (std::size_t i = 0; i < volumes_.rows; ++i)
      for (std::size_t j = 0; j < volumes_.columns; ++j) {
        if (elements(i, j) == 0) continue;
        picture_.write(
            {.x = plot_.x + (static_cast<double>(j) + 0.5) * cell_width_,
             .y = plot_.y + (static_cast<double>(i) + 0.5) * cell_height_ + 4,
             .text = text(elements(i, j)),
             .size = 11,
             .colour = greens(elements(i, j) / largest_).is_dark() ? Colour{1, 1, 1} : ink,
             .anchor = Anchor::middle});
      }
  }

  Picture& picture_;
  const Volumes& volumes_;
  Index element_bytes_;
  Rect plot_, bar_;
  double cell_width_ = 0, cell_height_ = 0;
  double largest_ = 0;
};

}  // namespace

double draw_volumes(Picture& picture, const Frame& place, const Volumes& volumes,
                    Index element_bytes, Rank producer, std::optional<Rank> consumer) {
  const auto text = [&](Index elements) {
    return bytes_text(static_cast<double>(elements) * static_cast<double>(element_bytes));
  };
  std::string subtitle =
      fmt::format("largest {}, smallest {}", text(volumes.largest), text(volumes.smallest));
  if (volumes.producers_per_cell > 1 || volumes.consumers_per_cell > 1)
    subtitle += fmt::format("; a cell is the mean of {} x {} pairs", volumes.producers_per_cell,
                            volumes.consumers_per_cell);
  write_titles(picture, place,
               fmt::format("Volumes: {} in {} package{}", text(volumes.total), volumes.packages,
                           volumes.packages == 1 ? "" : "s"),
               subtitle);
  VolumePanel panel(picture, place, volumes, element_bytes);
  panel.draw_axes();
  panel.draw_cells();
  panel.draw_bar();
  if (consumer) panel.frame(producer, *consumer);
  return panel.bottom();
}

}  // namespace tremula::cli
