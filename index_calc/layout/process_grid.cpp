// SPDX-License-Identifier: Apache-2.0
#include "index_calc/layout/process_grid.hpp"

#include <algorithm>
#include <numeric>

namespace tremula::index_calc {
namespace {

bool holds(const RankRange& ranks, Rank rank) {
  return rank >= ranks.first && Index{rank.value} < Index{ranks.first.value} + ranks.count;
}

}  // namespace

OwnerCoords owner_coords(const GridCoords& coords) noexcept {
  OwnerCoords result{};
  for (std::size_t e = 0; e < result.size(); ++e) result[e] = coords[e].value;
  return result;
}

GridCoords grid_coords(const OwnerCoords& coords) noexcept {
  GridCoords result{};
  for (std::size_t e = 0; e < coords.size(); ++e) result[e].value = coords[e];
  return result;
}

GridAxes::GridAxes(const Layout& layout) noexcept {
  if (layout.listed() != nullptr) {
    count_ = 1;
    axes_[0] = {.extent = rank_count(layout), .dimension = 0};
    return;
  }
  const auto axes = axes_of(layout);
  count_ = static_cast<std::uint32_t>(axes.size());
  RankCount step = 1;
  for (std::size_t k = 0; k < count_; ++k) {
    const std::size_t a = kth_fastest(layout.ranks().order, count_, k);
    axes_[a].extent = static_cast<RankCount>(axes[a].ranks);
    axes_[a].step = step;
    step *= axes_[a].extent;
  }
  std::uint32_t owners = 0;
  RankCount copies = 1;
  for (std::size_t a = count_; a-- > 0;) {
    if (const Along* const along = axes[a].along()) {
      axes_[a].dimension = static_cast<std::uint32_t>(along->dimension);
      for (std::size_t b = 0; b < count_; ++b)
        if (const Along* const other = axes[b].along();
            other != nullptr && other->dimension == along->dimension && other->level > along->level)
          axes_[a].weight *= axes_[b].extent;
    } else if (axes[a].owner() == nullptr) {
      axes_[a].weight = copies;
      copies *= axes_[a].extent;
    }
  }
  for (std::size_t a = 0; a < count_; ++a)
    if (axes[a].owner() != nullptr) axes_[a].dimension = owners++;
}

GridCell GridAxes::cell_at(Index position) const noexcept {
  GridCell cell;
  for (std::size_t a = 0; a < count_; ++a) {
    const Axis& axis = axes_[a];
    const Index place = position / axis.step % axis.extent * axis.weight;
    if (axis.dimension == max_dimensions)
      cell.copy += static_cast<RankCount>(place);
    else
      cell.coords[axis.dimension].value += place;
  }
  return cell;
}

Index GridAxes::position_of(const GridCoords& coords, RankCount copy) const noexcept {
  Index position = 0;
  for (std::size_t a = 0; a < count_; ++a) {
    const Axis& axis = axes_[a];
    const Index number = axis.dimension == max_dimensions ? copy : coords[axis.dimension].value;
    position += number / axis.weight % axis.extent * axis.step;
  }
  return position;
}

ProcessGrid::ProcessGrid(const Layout& layout)
    : axes_(layout), size_(rank_count(layout)), copies_(copy_count(layout)) {
  by_cell_.reserve(layout.ranks().members.size());
  RankCount cell = 0;
  for (const RankRange& ranks : layout.ranks().members) {
    by_cell_.push_back({ranks, cell});
    cell += ranks.count;
  }
  by_rank_.resize(by_cell_.size());
  std::iota(by_rank_.begin(), by_rank_.end(), 0U);
  std::ranges::sort(by_rank_, {}, [&](std::uint32_t i) { return by_cell_[i].ranks.first; });
}

std::optional<GridCell> ProcessGrid::cell_of(Rank rank) const {
  if (by_cell_.empty())
    return rank.value < 0 || rank.value >= size_ ? std::nullopt
                                                 : std::optional(axes_.cell_at(rank.value));
  const auto behind = std::ranges::upper_bound(
      by_rank_, rank, {}, [&](std::uint32_t i) { return by_cell_[i].ranks.first; });
  if (behind == by_rank_.begin()) return std::nullopt;
  const Range& range = by_cell_[*std::prev(behind)];
  if (!holds(range.ranks, rank)) return std::nullopt;
  return axes_.cell_at(Index{range.cell} + rank.value - range.ranks.first.value);
}

std::optional<GridCoords> ProcessGrid::coords_of(Rank rank) const {
  const auto cell = cell_of(rank);
  return cell ? std::optional(cell->coords) : std::nullopt;
}

Rank ProcessGrid::rank_at(const GridCoords& coords, RankCount copy) const {
  const Index cell = position_of(coords, copy);
  if (by_cell_.empty()) return Rank{static_cast<RankCount>(cell)};
  const auto behind = std::ranges::upper_bound(by_cell_, cell, {}, &Range::cell);
  const Range& range = *std::prev(behind);
  return Rank{static_cast<RankCount>(range.ranks.first.value + (cell - range.cell))};
}

std::size_t ProcessGrid::memory_bytes() const noexcept {
  return sizeof(*this) + by_cell_.capacity() * sizeof(Range) +
         by_rank_.capacity() * sizeof(by_rank_[0]);
}

std::optional<GridCoords> coords_of(const Layout& layout, Rank rank) {
  if (layout.ranks().members.empty()) {
    if (rank.value < 0 || rank.value >= rank_count(layout)) return std::nullopt;
    return GridAxes(layout).cell_at(rank.value).coords;
  }
  Index before = 0;
  for (const RankRange& ranks : layout.ranks().members) {
    if (holds(ranks, rank))
      return GridAxes(layout).cell_at(before + rank.value - ranks.first.value).coords;
    before += ranks.count;
  }
  return std::nullopt;
}

}  // namespace tremula::index_calc
