// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which group rank sits at which coordinates of the process grid, and back.
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "index_calc/layout/layout.hpp"

namespace tremula::index_calc {

/// Position of one rank in the process grid. Entries beyond the layout's dimensions are 0.
using GridCoords = std::array<GridCoord, max_dimensions>;

/// The process grid of a layout, for many questions. Keeps what it needs; the layout may go.
class ProcessGrid {
public:
  /// @pre the layout is valid
  /// Cost: O(dimensions + ranges of members * log ranges); memory 16 bytes for each range.
  explicit ProcessGrid(const Layout& layout);

  /// Cells = ranks that take part.
  Rank size() const noexcept { return size_; }
  /// Empty for a rank that takes no part.  O(dimensions + log ranges)
  std::optional<GridCoords> coords_of(Rank rank) const;
  /// The inverse of coords_of.  O(dimensions + log ranges)
  Rank rank_at(const GridCoords& coords) const;
  std::size_t memory_bytes() const noexcept;

private:
  struct Range {
    RankRange ranks;
    Rank cell = 0;  ///< number of the first rank's cell in the grid
  };
  Order order_;
  std::size_t dimensions_;
  std::array<Index, max_dimensions> extents_{};  ///< of the grid
  Rank size_;
  std::vector<Range> by_cell_;          ///< empty: rank = cell
  std::vector<std::uint32_t> by_rank_;  ///< numbers of by_cell_
};

/// Where group rank `rank` sits in the grid; empty for a rank that takes no part. For one question:
/// O(dimensions + ranges of members).
std::optional<GridCoords> coords_of(const Layout& layout, Rank rank);

}  // namespace tremula::index_calc
