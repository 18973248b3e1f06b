// SPDX-License-Identifier: Apache-2.0
#pragma once
// The shown part of an array as rectangles (tiles): which ranks hold each tile, and which tiles are
// in a package.
#include <optional>
#include <vector>

#include "cli/plan/picture/shown_part.hpp"

namespace tremula::cli {

/// Elements of rows [top, bottom) and columns [left, right).
struct Tile {
  Index top = 0, bottom = 0, left = 0, right = 0;
  friend bool operator==(const Tile&, const Tile&) = default;
};

/// Tiles that the same ranks hold. Each block is a tile; if ranks list their elements, neighbouring
/// elements that the same ranks hold are joined into tiles.
struct HeldTiles {
  std::vector<Rank> ranks;  ///< ascending, at least one; several if there are copies
  std::vector<Tile> tiles;
  std::optional<Tile> square{};  ///< the largest square, if ranks list their elements
};

/// Returns the tiles of the part on one side, grouped by the ranks that hold them, in ascending order
/// of the first rank. No two tiles overlap.
/// Cost: proportional to the number of blocks in the part, plus the copies of each cell of the process
/// grid that owns one of them; or, if ranks list what they own, to the elements of the part, once for
/// each rank that holds them, plus the runs of all ranks.
std::vector<HeldTiles> held_tiles(const Redistribution& redistribution, Side side,
                                  const ShownPart& part);

/// Returns the tiles of the part that are in a package of `plan`.
/// Cost: proportional to the segments shown; if packages are described by positions in the buffers
/// (lists and skewed layouts), to the runs of the package and of the rank.
std::vector<Tile> package_tiles(const Redistribution& redistribution, const RankPlan& plan,
                                const index_calc::Package& package, const ShownPart& part);

/// Returns the elements of `tiles` as fewer tiles: joins neighbours in a row, then neighbours in a column.
/// @pre no two tiles overlap
std::vector<Tile> joined(std::vector<Tile> tiles);

}  // namespace tremula::cli
