// SPDX-License-Identifier: Apache-2.0
#pragma once
// What one rank shares with the ranks of the other side where the blocks of a side are skewed.
//
// Both sides are cut into blocks along each dimension, and where a cell of ranks is on the other side
// follows from the numbers of the blocks, which move by one from block to block. So the walk is ASPEN's,
// along each dimension: my block [s, e) begins in the block of theirs that one division gives; the first
// piece ends with that block, and every following one belongs to the next block. The outer product of the
// pieces gives the boxes of my block, and the sums of what their numbers add give the owner of each. Only
// blocks of mine are looked at, and the boxes are written out as runs: how a rank stores skewed blocks is
// no outer product.
//
// Source: the adjacency shift of ASPEN; owners as sums over the dimensions: CONFLUX and the 2.5D sparse
// kernels, whose layouts this is to serve.
#include <vector>

#include "index_calc/layout/process_grid.hpp"
#include "index_calc/overlap/overlap.hpp"

namespace tremula::index_calc {

/// What a cell of ranks of theirs shares with mine: in local indices of parts without ghost cells and
/// gaps. Box by box in the order in which they begin in the memory of the source, each in its storage
/// order: the same elements in the same order on both sides.
struct CellSegments {
  GridCoords cell{};
  std::vector<Segment> segments{};
};

/// @param me      coordinates of this rank in the grid of mine
/// @param source  which of the two is the source
/// @return ascending by the position of the cell in their grid
/// @throws core::Error unsupported if a skewed layout has more than 2^24 blocks along a dimension
/// Cost: the runs that this rank shares with all others, of each 24 bytes; the blocks along each dimension
/// of a skewed layout; of skewed peers also the rows of their blocks.
std::vector<CellSegments> skewed_overlaps(const Layout& mine, const Layout& theirs,
                                          const GridCoords& me, const Layout& source);

inline bool has_skew(const Layout& mine, const Layout& theirs) noexcept {
  return mine.skew || theirs.skew;
}

/// A part of either side as one dimension, as packages of skewed layouts count.
/// @param order  of storage, of the layout that is planned with
/// @throws core::Error unsupported if it has ghost cells or gaps, or its dimensions lie in another order:
///         the other side does not know of it
LocalPart dense_part(const LocalPart& part, Order order);

}  // namespace tremula::index_calc
