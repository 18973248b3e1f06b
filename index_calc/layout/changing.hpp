// SPDX-License-Identifier: Apache-2.0
#pragma once
// Arrays whose extent along one dimension is another one in every step (Layout::changing): what their
// layout is once the counts of a step are known. The array of a step is what the ranks of the source
// have, one after the other in the order of their coordinates along that dimension.
#include <span>
#include <vector>

#include "index_calc/layout/layout.hpp"

namespace tremula::index_calc {

/// A sink's layout of a step that has `extent` elements along the dimension: evenly in one block for
/// each coordinate, or in the blocks that the layout tells.
/// @pre layout.changing, extent >= 0
/// @throws core::Error invalid_argument if the array has more than 2^63 - 1 elements
Layout sized(const Layout& layout, Index extent);

/// A source's layout of a step: the counts[c] elements of coordinate c follow those of c - 1.
/// @param counts  >= 0; shape: [coordinate along the dimension]
Layout sized(const Layout& layout, std::span<const Index> counts);

/// The coordinate that takes the rows with that key: by its range or, without ranges,
/// splitmix64(key) modulo the coordinates (the finaliser of Steele, Lea, Flood 2014; key as 64 bits).
/// @pre layout.changing has a key
Index coordinate_of(const Layout& layout, std::int64_t key) noexcept;

/// Of a sink that takes rows by keys: the layout of what `rank` has, which takes part alone.
Layout alone(const Layout& layout, Rank rank);

/// Elements that `rank` stores for each one along the dimension that changes; 0 if it takes no part.
/// @throws core::Error invalid_argument if they exceed 63 bits
Index slice_elements(const Layout& layout, Rank rank);

/// What the ranks have, as coordinates along the dimension: those that differ in other dimensions, or
/// are copies, have equally many.
/// @param counts  shape: [rank of the group]; of ranks that store nothing: any
/// @throws core::Error mismatch naming two ranks that differ; invalid_argument if the sum exceeds 63 bits
std::vector<Index> counts_along(const Layout& layout, std::span<const Index> counts);

}  // namespace tremula::index_calc
