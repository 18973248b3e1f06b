// SPDX-License-Identifier: Apache-2.0
#pragma once
// The shown part of an array as rectangles: which ranks hold which, and what is in a package.
#include <optional>
#include <vector>

#include "cli/plan/picture/shown_part.hpp"

namespace tremula::cli {

/// Elements of rows [top, bottom) and columns [left, right).
struct Tile {
  Index top = 0, bottom = 0, left = 0, right = 0;
  friend bool operator==(const Tile&, const Tile&) = default;
};

/// Tiles that the same ranks hold: blocks, one by one; of elements that ranks list, neighbours joined.
struct HeldTiles {
  std::vector<Rank> ranks;  ///< ascending, at least one; several have copies
  std::vector<Tile> tiles;
  std::optional<Tile> square{};  ///< of elements that ranks list: the largest one among them
};

/// All tiles of a side, of which none overlaps another one; ascending by their first ranks.
/// Cost: the blocks of the part, and the copies of each cell of the grid that is in it; where ranks list
/// what they own, the elements of the part and the runs of all ranks.
std::vector<HeldTiles> held_tiles(const Redistribution& redistribution, Side side,
                                  const ShownPart& part);

/// What a package of `plan` has of the part.
/// Cost: the segments that are shown; where packages have the dimension of the buffers (of lists
/// and skewed layouts), the runs of the package and of the rank.
std::vector<Tile> package_tiles(const Redistribution& redistribution, const RankPlan& plan,
                                const index_calc::Package& package, const ShownPart& part);

/// The same elements in fewer tiles: neighbours in a row are one, then neighbours in a column.
/// @pre none overlaps another one
std::vector<Tile> joined(std::vector<Tile> tiles);

}  // namespace tremula::cli
