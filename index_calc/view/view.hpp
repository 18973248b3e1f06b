// SPDX-License-Identifier: Apache-2.0
#pragma once
// Other arrays in the same memory: a part of an array, as given by ScaLAPACK's ia and ja; an array with
// its dimensions in another order; and the summands of one layer of an array that has partial sums. Each
// is a layout like any other, so it can be used wherever an array can.
#include <span>
#include <vector>

#include "index_calc/layout/layout.hpp"

namespace tremula::index_calc {

/// A box of an array. Its first element is `origin`, in global indices. Shape of both: [dimension].
struct Selection {
  std::vector<Index> origin;
  std::vector<Index> extents;  ///< 0 selects nothing
  friend bool operator==(const Selection&, const Selection&) = default;
};

/// Returns the layout of the selection as a separate array: its element 0 is the array's element
/// `origin`, and every rank owns the selected elements that it owns in the array. The layout gives
/// only the storage order: the storage of a rank is given by selected_part or, if ranks list what
/// they own, by the new list. O(dimensions + intervals + members), or the cost of
/// IndexList::selected.
/// @throws core::Error invalid_argument if the selection is not inside the array, naming the
/// dimension
Layout selected(const Layout& layout, const Selection& selection);

/// Returns where group rank `rank` stores its part of the selection in its buffer of the whole array:
/// strides and `allocated` are those of local_part(layout, rank), and so is `first` if the rank
/// owns none of the selection. If ranks list what they own, returns
/// local_part(selected(layout, selection), rank).
/// @throws core::Error as selected and local_part do
LocalPart selected_part(const Layout& layout, const Selection& selection, Rank rank);

/// Returns where `rank` stores its part of the selection if it stores the whole array as `part` describes,
/// not as local_part(layout, rank) does.
/// @throws core::Error unsupported if the layout is not a grid; invalid_argument as selected does
/// @param part  everything that `rank` owns of the array
LocalPart selected_part(LocalPart part, const Layout& layout, const Selection& selection,
                        Rank rank);

/// Returns the layout of the array with its dimensions in another order: dimension d of the result is
/// dimension axes[d] of `layout`. Every element keeps its owner; the result has a mesh if no order
/// of the grid can express that. The storage is permuted as well if the dimensions are kept or
/// reversed. A layout cannot express storage in any other order, so in that case ghost and leading are
/// dropped, and the part of a rank is permuted(local_part(layout, rank), axes). If ranks list what
/// they own, their buffers stay one-dimensional, and the new list gives the places of the elements.
/// @throws core::Error invalid_argument if `axes` does not contain each dimension exactly once
Layout permuted(const Layout& layout, std::span<const std::size_t> axes);

/// Returns the part with its dimensions in another order, as above, in the same memory.
/// @throws core::Error invalid_argument if `axes` does not contain each dimension exactly once
LocalPart permuted(const LocalPart& part, std::span<const std::size_t> axes);

/// Returns the axes that undo a permutation: inverse(axes)[axes[d]] == d.
/// @throws core::Error invalid_argument if `axes` does not contain each dimension exactly once
std::vector<std::size_t> inverse(std::span<const std::size_t> axes, std::size_t dimensions);

/// Returns how many layers hold partial sums: the product of the extents of the axes of sums;
/// 1 if there are none.
RankCount layer_count(const Layout& layout) noexcept;

/// Returns the summands of one layer, as an array whose members are the ranks of the layer. Each rank
/// stores its part as before. Returns the layout itself if it has no axis of sums.
/// @param number  0 <= number < layer_count(layout); numbers the positions on the axes of sums,
/// last axis fastest
/// Cost: O(ranks). The members are a single range if the axes of sums are the slowest of the mesh.
Layout layer(const Layout& layout, RankCount number);

}  // namespace tremula::index_calc
