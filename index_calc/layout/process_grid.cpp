// SPDX-License-Identifier: Apache-2.0
#include "index_calc/layout/process_grid.hpp"

#include <algorithm>
#include <numeric>

namespace tremula::index_calc {
namespace {

bool holds(const RankRange& ranks, Rank rank) {
  return rank >= ranks.first && Index{rank} < Index{ranks.first} + ranks.count;
}

/// @param extent_of  cells of the grid along a dimension
template <class ExtentOf>
GridCoords coords_of_cell(Index cell, Order order, std::size_t dimensions, ExtentOf&& extent_of) {
  GridCoords coords{};
  for (std::size_t k = 0; k < dimensions; ++k) {
    const std::size_t d = kth_fastest(order, dimensions, k);
    coords[d] = {cell % extent_of(d)};
    cell /= extent_of(d);
  }
  return coords;
}

}  // namespace

ProcessGrid::ProcessGrid(const Layout& layout)
    : order_(layout.rank_order), dimensions_(layout.dims.size()), size_(rank_count(layout)) {
  for (std::size_t d = 0; d < dimensions_; ++d) extents_[d] = grid(layout.dims[d]);
  by_cell_.reserve(layout.members.size());
  Rank cell = 0;
  for (const RankRange& ranks : layout.members) {
    by_cell_.push_back({ranks, cell});
    cell += ranks.count;
  }
  by_rank_.resize(by_cell_.size());
  std::iota(by_rank_.begin(), by_rank_.end(), 0U);
  std::ranges::sort(by_rank_, {}, [&](std::uint32_t i) { return by_cell_[i].ranks.first; });
}

std::optional<GridCoords> ProcessGrid::coords_of(Rank rank) const {
  Index cell = rank;
  if (by_cell_.empty()) {
    if (rank < 0 || rank >= size_) return std::nullopt;
  } else {
    const auto behind = std::ranges::upper_bound(
        by_rank_, rank, {}, [&](std::uint32_t i) { return by_cell_[i].ranks.first; });
    if (behind == by_rank_.begin()) return std::nullopt;
    const Range& range = by_cell_[*std::prev(behind)];
    if (!holds(range.ranks, rank)) return std::nullopt;
    cell = Index{range.cell} + rank - range.ranks.first;
  }
  return coords_of_cell(cell, order_, dimensions_, [this](std::size_t d) { return extents_[d]; });
}

Rank ProcessGrid::rank_at(const GridCoords& coords) const {
  Index cell = 0;
  for (std::size_t k = dimensions_; k-- > 0;) {
    const std::size_t d = kth_fastest(order_, dimensions_, k);
    cell = cell * extents_[d] + coords[d].value;
  }
  if (by_cell_.empty()) return static_cast<Rank>(cell);
  const auto behind = std::ranges::upper_bound(by_cell_, cell, {}, &Range::cell);
  const Range& range = *std::prev(behind);
  return static_cast<Rank>(range.ranks.first + (cell - range.cell));
}

std::size_t ProcessGrid::memory_bytes() const noexcept {
  return sizeof(*this) + by_cell_.capacity() * sizeof(Range) +
         by_rank_.capacity() * sizeof(by_rank_[0]);
}

std::optional<GridCoords> coords_of(const Layout& layout, Rank rank) {
  Index cell = rank, before = 0;
  bool is_member = layout.members.empty() && rank >= 0 && rank < rank_count(layout);
  for (const RankRange& ranks : layout.members) {
    is_member = holds(ranks, rank);
    if (is_member) {
      cell = before + rank - ranks.first;
      break;
    }
    before += ranks.count;
  }
  if (!is_member) return std::nullopt;
  return coords_of_cell(cell, layout.rank_order, layout.dims.size(),
                        [&](std::size_t d) { return grid(layout.dims[d]); });
}

}  // namespace tremula::index_calc
