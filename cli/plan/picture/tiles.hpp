// SPDX-License-Identifier: Apache-2.0
#pragma once
// The shown part of an array as rectangles: which ranks hold which, and which are in a package.
#include <optional>
#include <vector>

#include "cli/plan/picture/shown_part.hpp"

namespace tremula::cli {

/// Elements of rows [top, bottom) and columns [left, right).
struct Tile {
  Index top = 0, bottom = 0, left = 0, right = 0;
  friend bool operator==(const Tile&, const Tile&) = default;
};

/// Tiles that the same ranks hold. Each block is a tile; if ranks list their elements, neighbours
/// are joined.
struct HeldTiles {
  std::vector<Rank> ranks;  ///< ascending, at least one; several if there are copies
  std::vector<Tile> tiles;
  std::optional<Tile> square{};  ///< the largest square of elements that ranks list
};

/// Returns all tiles of a side, none of which overlap, in ascending order of their first ranks.
/// Cost: proportional to the blocks of the part and the copies of each cell of the grid in it; if
/// ranks list what they own, to the elements of the part and the runs of all ranks.
std::vector<HeldTiles> held_tiles(const Redistribution& redistribution, Side side,
                                  const ShownPart& part);

/// Returns the tiles of the part that are in a package of `plan`.
/// Cost: proportional to the segments shown; if packages are described in the buffers (lists and
/// skewed layouts), to the runs of the package and of the rank.
std::vector<Tile> package_tiles(const Redistribution& redistribution, const RankPlan& plan,
                                const index_calc::Package& package, const ShownPart& part);

/// Returns the elements of `tiles` in fewer tiles: neighbours in a row are joined, then neighbours in a
/// column.
/// @pre no two tiles overlap
std::vector<Tile> joined(std::vector<Tile> tiles);

}  // namespace tremula::cli
