// SPDX-License-Identifier: Apache-2.0
#pragma once
// The part of a large array that is drawn block by block.
#include "cli/plan/redistribution.hpp"

namespace tremula::cli {

/// The first elements of a dimension. If neither side has more than 64 blocks, all of them are shown.
/// Otherwise as many whole periods of the pattern are shown as fit into 24 blocks, or one period if it
/// fits into 64 blocks, or else 24 blocks. If ranks list what they own, 8 elements count as a block.
struct ShownAxis {
  Index extent = 0;
  Index shown = 0;
  Index periods = 0;  ///< 0: all elements are shown, or less than a period
  bool is_whole() const noexcept { return shown == extent; }
};

/// Returns the blocks along a dimension, numbered from 0.
index_calc::BlockCuts block_cuts(const index_calc::Layout& layout, std::size_t dimension);

ShownAxis shown_axis(const index_calc::Layout& from, const index_calc::Layout& to,
                     std::size_t dimension);

/// The part of a one- or two-dimensional array that is drawn. A one-dimensional array is a single
/// row.
struct ShownPart {
  std::size_t dimensions = 0;
  ShownAxis rows, columns;

  explicit ShownPart(const Redistribution& redistribution);
};

}  // namespace tremula::cli
