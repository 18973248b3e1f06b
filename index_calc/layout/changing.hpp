// SPDX-License-Identifier: Apache-2.0
#pragma once
// Makes the layouts of arrays whose extent along one dimension varies from step to step
// (Changing), once the counts of a step are known. The array of a step consists of the
// elements of the source's ranks, one rank after another, in the order of their coordinates along
// that dimension.
#include <span>
#include <vector>

#include "index_calc/layout/layout.hpp"

namespace tremula::index_calc {

/// Returns a sink's layout of a step that has `extent` elements along the dimension: distributed
/// evenly in one block per coordinate, or in the blocks that the layout gives.
/// @pre the extent of the layout changes, extent >= 0
/// @throws core::Error invalid_argument if the array has more than 2^63 - 1 elements
Layout sized(const Layout& layout, Index extent);

/// Returns a source's layout of a step: the counts[c] elements of coordinate c follow those of c - 1.
/// @param counts  >= 0; shape: [coordinate along the dimension]
/// @throws core::Error invalid_argument if a count is negative or the sum exceeds 63 bits
Layout sized(const Layout& layout, std::span<const Index> counts);

/// Returns the coordinate that takes the rows with `key`: the coordinate of its range or, without
/// ranges, splitmix64(key) modulo the number of coordinates (key as 64 bits).
/// @pre the layout takes rows by keys
Index coordinate_of(const Changing& changing, std::int64_t key) noexcept;

/// Returns the layout of the rows that `rank` of a sink takes by their keys. `rank` is its only
/// member.
/// @pre the layout takes rows by keys
Layout alone(const Layout& layout, Rank rank);

/// Returns how many elements `rank` stores for each index along the dimension that changes; 0 if it
/// takes no part.
/// @throws core::Error invalid_argument if their number exceeds 63 bits
/// Cost: O(ranges of members), plus the intervals of dimensions with splits.
Index slice_elements(const Layout& layout, Rank rank);

/// Converts counts of the ranks to counts of the coordinates along the dimension. Ranks that differ
/// only in other dimensions, or are copies, must have equal counts.
/// @param counts  shape: [rank of the group]; entries of ranks that store nothing are ignored
/// @throws core::Error mismatch naming two ranks that differ; invalid_argument if a count is
/// negative or the sum exceeds 63 bits
/// Cost: for each rank, the logarithm of the number of ranges of members, plus the intervals of
/// dimensions with splits.
std::vector<Index> counts_along(const Layout& layout, std::span<const Index> counts);

}  // namespace tremula::index_calc
