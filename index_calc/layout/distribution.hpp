// SPDX-License-Identifier: Apache-2.0
#pragma once
// One dimension of a distributed array: which grid coordinate owns which element, and where it
// stores the element.
#include <compare>
#include <variant>
#include <vector>

#include "core/types.hpp"

namespace tremula::index_calc {

using core::GlobalIndex, core::GridCoord, core::Index, core::LocalIndex;

/// Blocks of `block` elements, distributed in turn to `grid` coordinates; block 0 belongs to
/// coordinate `source`. `block == ceil(extent / grid)` is the plain block distribution,
/// `block == 1` the cyclic one.
///
/// Example, extent 8, block 2, grid 2, source 1:
///
///     global index   0 1 2 3 4 5 6 7
///     owner          1 1 0 0 1 1 0 0
///     local index    0 1 0 1 2 3 2 3
///
/// A part of a longer dimension may begin inside a block. Then block 0 is shorter: element i is in
/// block (i + cut) / block. The example with cut 1:
///
///     global index   0 1 2 3 4 5 6 7
///     owner          1 0 0 1 1 0 0 1
///     local index    0 0 1 1 2 2 3 3
///
/// Source: ScaLAPACK Users' Guide, "The Two-dimensional Block-Cyclic Distribution";
/// TOOLS/indxg2p.f, indxg2l.f, indxl2g.f, numroc.f (1-based there, 0-based here).
struct BlockCyclic {
  Index extent = 0;  ///< elements in the whole dimension, >= 0
  Index block = 1;   ///< elements per block, >= 1
  Index grid = 1;    ///< coordinates among which the blocks are distributed, >= 1
  Index source = 0;  ///< coordinate that owns block 0, 0 <= source < grid
  Index cut = 0;     ///< elements missing at the beginning of block 0, 0 <= cut < block
  friend bool operator==(const BlockCyclic&, const BlockCyclic&) = default;
};

/// Returns the block size of the plain block distribution: ceil(extent / grid), at least 1.
constexpr Index plain_block(Index extent, Index grid) noexcept {
  if (extent <= 0 || grid <= 0) return 1;
  return extent / grid + (extent % grid != 0 ? 1 : 0);
}

/// Any increasing bounds with any owner per interval: interval i is [bounds[i], bounds[i+1]) and
/// belongs to coordinate owner[i]. An owner may have several intervals or none; it stores its
/// intervals one after another in ascending global order. No interval is empty: a coordinate that
/// owns nothing does not occur in `owner`. The extent is bounds.back().
struct Splits {
  std::vector<Index> bounds;  ///< strictly increasing, bounds.front() == 0; shape: [intervals + 1]
  std::vector<Index> owner;   ///< 0 <= owner[i] < grid; shape: [intervals]
  Index grid = 1;             ///< coordinates, >= 1
  friend bool operator==(const Splits&, const Splits&) = default;
};

using Distribution = std::variant<BlockCyclic, Splits>;

/// Checks that a distribution is valid.
/// @throws core::Error invalid_argument naming the broken condition
void validate(const Distribution& d);
Index extent(const Distribution& d) noexcept;
Index grid(const Distribution& d) noexcept;
/// Returns the coordinate that owns `i`. O(1) for BlockCyclic, O(log intervals) for Splits.
/// @pre 0 <= i < extent
GridCoord owner(const Distribution& d, GlobalIndex i) noexcept;
/// Returns where the owner of element `i` stores it. O(1) for BlockCyclic, O(intervals) for Splits.
/// @pre 0 <= i < extent
LocalIndex to_local(const Distribution& d, GlobalIndex i) noexcept;
/// Returns the element that `c` stores at `i`: the inverse of (owner, to_local).
/// @pre 0 <= i < local_extent(d, c)
GlobalIndex to_global(const Distribution& d, GridCoord c, LocalIndex i) noexcept;
/// Returns how many elements `c` stores. O(1) for BlockCyclic, O(intervals) for Splits.
/// @pre 0 <= c < grid
Index local_extent(const Distribution& d, GridCoord c) noexcept;

}  // namespace tremula::index_calc
