// SPDX-License-Identifier: Apache-2.0
#pragma once
// Converts group ranks to coordinates of the process grid, and back.
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "index_calc/layout/layout.hpp"

namespace tremula::index_calc {

/// Coordinates of one rank along the dimensions of the array or, for a skewed array, on the axes
/// that have owners. Further entries are 0.
using GridCoords = std::array<GridCoord, max_dimensions>;

/// The position of a rank in the process grid. Ranks with the same coordinates are copies: they own
/// the same elements.
struct GridCell {
  GridCoords coords{};
  /// 0 <= copy < copies; counts along the axes that make copies, the last fastest.
  RankCount copy = 0;
};

static_assert(max_owner_axes <= max_dimensions && max_block_dimensions == max_dimensions);
/// Convert the coordinates of a cell of a skewed layout, in either direction.
OwnerCoords owner_coords(const GridCoords& coords) noexcept;
GridCoords grid_coords(const OwnerCoords& coords) noexcept;

/// The axes of a process grid, without the ranks. Allocates nothing.
class GridAxes {
public:
  explicit GridAxes(const Layout& layout) noexcept;
  /// Returns the cell at a position in the numbering of the grid.
  GridCell cell_at(Index position) const noexcept;
  /// Returns the position of a cell: the inverse of cell_at.
  Index position_of(const GridCoords& coords, RankCount copy = 0) const noexcept;

private:
  struct Axis {
    RankCount extent = 1;
    RankCount step = 1;  ///< distance in grid order of two ranks that are neighbours on it
    /// Distance in coordinates (copies) of two ranks that are neighbours on it.
    RankCount weight = 1;
    /// Dimension that the axis splits, or number of its owner; max_dimensions if it makes copies.
    std::uint32_t dimension = max_dimensions;
  };
  std::array<Axis, max_mesh_axes> axes_{};
  std::uint32_t count_ = 0;
};

/// The process grid of a layout, prepared for many look-ups. The layout need not outlive it.
class ProcessGrid {
public:
  /// Cost: O(axes + ranges of members * log ranges); memory 16 bytes for each range.
  explicit ProcessGrid(const Layout& layout);

  /// Returns the number of cells, which is the number of ranks that take part.
  RankCount size() const noexcept { return size_; }
  RankCount copies() const noexcept { return copies_; }
  /// Returns the cell of a rank; nullopt if it takes no part.  O(axes + log ranges)
  std::optional<GridCell> cell_of(Rank rank) const;
  std::optional<GridCoords> coords_of(Rank rank) const;
  /// Returns the rank of a cell: the inverse of cell_of.  O(axes + log ranges)
  Rank rank_at(const GridCoords& coords, RankCount copy = 0) const;
  /// Returns the position of a cell in grid order, which does not depend on members.
  Index position_of(const GridCoords& coords, RankCount copy = 0) const noexcept {
    return axes_.position_of(coords, copy);
  }
  std::size_t memory_bytes() const noexcept;

private:
  struct Range {
    RankRange ranks;
    RankCount cell = 0;  ///< number of the first rank's cell in the grid
  };
  GridAxes axes_;
  RankCount size_ = 1, copies_ = 1;
  std::vector<Range> by_cell_;          ///< empty if rank = cell
  std::vector<std::uint32_t> by_rank_;  ///< indices into by_cell_, ascending by first rank
};

/// Returns the coordinates of group rank `rank`; nullopt if it takes no part. For a single look-up:
/// O(axes + ranges of members).
std::optional<GridCoords> coords_of(const Layout& layout, Rank rank);

}  // namespace tremula::index_calc
