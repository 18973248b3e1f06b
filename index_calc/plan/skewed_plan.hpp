// SPDX-License-Identifier: Apache-2.0
#pragma once
// The boxes that one rank shares with the ranks on the other side if the blocks of a side are
// skewed.
//
// Both sides are cut into blocks along each dimension, and the cell of ranks that owns a block
// follows from the numbers of the block, which increase by one from block to block. So the walk is
// that of ASPEN along each dimension: one division gives the block of theirs in which my block
// [s, e) begins. The first piece ends with that block, and every further piece belongs to the next
// block. The outer product of the pieces gives the boxes of my block, and the owner of each box follows
// from its block numbers, as a sum of their contributions or from a table. Only blocks of mine are looked at, and the
// boxes are written out, because the places of skewed blocks in a rank's buffer are not an outer
// product.
//
// Source: the adjacency shift of ASPEN; owners as sums over the dimensions: CONFLUX and the 2.5D
// sparse kernels, whose layouts this code supports; from a table: COSTA.
#include <algorithm>
#include <array>
#include <vector>

#include "index_calc/layout/process_grid.hpp"
#include "index_calc/overlap/overlap.hpp"

namespace tremula::index_calc {

/// How the elements of a box are stored in a buffer.
struct BoxPlace {
  Index first = 0;                             ///< place of the first element
  std::array<Index, max_dimensions> stride{};  ///< shape: [dimension]
};

/// The intersection of a block of mine and a block of theirs.
struct SharedBox {
  BoxPlace mine, theirs;
  std::array<Index, max_dimensions> extents{};
};

/// The boxes that a cell of ranks of theirs shares with mine, in local indices of parts without
/// ghost cells or gaps. They are in the order in which they begin in the memory of the source,
/// each in the source's storage order, so both sides have the same elements in the same order.
class SharedBoxes {
public:
  SharedBoxes(const GridCoords& cell, std::size_t dimensions, Order source_order)
      : cell_(cell), dimensions_(dimensions), order_(source_order) {}

  const GridCoords& cell() const noexcept { return cell_; }
  Index elements() const noexcept { return elements_; }
  void add(const SharedBox& box);
  void sort(bool is_source);

  /// Calls visit(Segment) for the runs of elements first .. first + count - 1. A run is contiguous
  /// in both buffers.  O(runs)
  template <class Visit>
  void for_each_run(Index first, Index count, Visit&& visit) const {
    Segment run{};
    Index skip = first, left = count;
    const auto finish_run = [&] {
      const Index skipped = std::min(skip, run.length);
      const Index length = std::min(run.length - skipped, left);
      skip -= skipped;
      left -= length;
      if (length > 0)
        visit(Segment{{run.begin.value + skipped}, {run.peer_begin.value + skipped}, length});
    };
    const auto add_run = [&](Index at, Index there, Index length) {
      const bool goes_on =
          run.begin.value + run.length == at && run.peer_begin.value + run.length == there;
      if (goes_on && run.length > 0) {
        run.length += length;
        return;
      }
      finish_run();
      run = {{at}, {there}, length};
    };
    for (const SharedBox& box : boxes_) {
      const auto walk = [&](const auto& deeper, std::size_t k, Index at, Index there) -> void {
        const std::size_t d = kth_fastest(order_, dimensions_, k);
        const Index step = box.mine.stride[d], their_step = box.theirs.stride[d];
        if (k == 0 && step == 1 && their_step == 1) return add_run(at, there, box.extents[d]);
        for (Index i = 0; i < box.extents[d]; ++i, at += step, there += their_step)
          if (k == 0)
            add_run(at, there, 1);
          else
            deeper(deeper, k - 1, at, there);
      };
      walk(walk, dimensions_ - 1, box.mine.first, box.theirs.first);
    }
    finish_run();
  }

private:
  GridCoords cell_;
  std::size_t dimensions_;
  Order order_;
  std::vector<SharedBox> boxes_;
  Index elements_ = 0;
};

/// Returns the boxes that this rank shares with each cell of theirs, in ascending order of the
/// cell's position in their grid.
/// @param me      coordinates of this rank in the grid of mine
/// @param source  `mine` or `theirs` itself, whichever is the source
/// @throws core::Error unsupported, on all ranks of both sides, if a skewed layout has more than
///         2^24 blocks along a dimension, the ranks that own blocks share more than 2^21 boxes on
///         average (on the side with fewer such ranks), or the ranks of a skewed layout have more
///         than 2^24 rows of blocks together
/// Cost: proportional to the boxes that this rank shares with all others and to the blocks along
/// each dimension of a skewed layout; for skewed peers, also to the rows of their blocks.
std::vector<SharedBoxes> skewed_overlaps(const Layout& mine, const Layout& theirs,
                                         const GridCoords& me, const Layout& source);

/// Returns whether a plan is made by skewed_overlaps: a side is skewed, and neither is listed.
inline bool is_skewed_pair(const Layout& mine, const Layout& theirs) noexcept {
  return (mine.skewed() != nullptr || theirs.skewed() != nullptr) && mine.listed() == nullptr &&
         theirs.listed() == nullptr;
}

/// Checks that the ranks of both sides have local parts without ghost cells or gaps, if a side is
/// skewed and neither is listed. Both sides get the same result.
/// @throws core::Error unsupported naming the layout that has ghost cells or gaps
void expect_dense(const Layout& mine, const Layout& theirs);

/// Returns a part of either side as flattened() does: packages of skewed layouts refer to its
/// places.
/// @param order  storage order of the layout with which the plan was made
/// @throws core::Error unsupported if the part has ghost cells or gaps, or stores its dimensions in
///         another order, which the other side does not know
LocalPart dense_part(const LocalPart& part, Order order);

}  // namespace tremula::index_calc
