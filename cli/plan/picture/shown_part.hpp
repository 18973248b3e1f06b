// SPDX-License-Identifier: Apache-2.0
#pragma once
// What of a large array is drawn block by block.
#include <vector>

#include "index_calc/layout/distribution.hpp"

namespace tremula::cli {

using core::Index;

/// A block or interval along one dimension.
struct Interval {
  Index begin = 0, end = 0;
  Index owner = 0;  ///< grid coordinate
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// The first elements of a dimension: all where neither side has more than 64 blocks; else as many
/// whole periods of the pattern as have at most 24 blocks, or one of at most 64; else 24 blocks.
struct ShownAxis {
  Index extent = 0;
  Index shown = 0;
  Index periods = 0;               ///< 0: all, or no whole period
  std::vector<Interval> from, to;  ///< the blocks of the sides, up to `shown`
  bool is_whole() const noexcept { return shown == extent; }
};

ShownAxis shown_axis(const index_calc::Distribution& from, const index_calc::Distribution& to);

/// Intervals of `owner`, neighbours joined.
std::vector<Interval> owned(const std::vector<Interval>& intervals, Index owner);

/// Intervals that lie in one of either list.  @pre both ascend
std::vector<Interval> common(const std::vector<Interval>& a, const std::vector<Interval>& b);

}  // namespace tremula::cli
