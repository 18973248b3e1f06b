// SPDX-License-Identifier: Apache-2.0
#pragma once
// Other arrays in the same memory: a part of an array, as ScaLAPACK's ia and ja name one, an array
// with its dimensions in another order, and the summands of one layer of an array that has partial
// sums. They are layouts like any other, so everything that can be done with an array can be done
// with them.
#include <span>
#include <vector>

#include "index_calc/layout/layout.hpp"

namespace tremula::index_calc {

/// A box of an array: global indices from `origin` on. Shape of both: [dimension].
struct Selection {
  std::vector<Index> origin;
  std::vector<Index> extents;  ///< 0 selects nothing
  friend bool operator==(const Selection&, const Selection&) = default;
};

/// The selection as an array of its own: its element 0 is the array's element `origin`, and every
/// rank owns of it what it owns of the array. Says nothing about storage beyond the order: that of
/// a rank is selected_part; where ranks list what they own, the new list. O(dimensions + intervals +
/// members), or as IndexList::selected
/// @pre the layout is valid
/// @throws core::Error invalid_argument if the selection does not lie in it, naming the dimension
Layout selected(const Layout& layout, const Selection& selection);

/// Where group rank `rank` stores its part of the selection in its buffer of the whole array:
/// strides and `allocated` are those of local_part(layout, rank), and `first` if it owns nothing of
/// the selection. Where ranks list what they own: as local_part(selected(layout, selection), rank).
/// @throws core::Error as selected and local_part
LocalPart selected_part(const Layout& layout, const Selection& selection, Rank rank);

/// The same where `rank` stores the whole array in another way than local_part(layout, rank).
/// @pre the owners are computed
/// @param part  all that `rank` owns of the array
LocalPart selected_part(LocalPart part, const Layout& layout, const Selection& selection,
                        Rank rank);

/// The array with its dimensions in another order: dimension d of the result is dimension axes[d]
/// of `layout`. Every element keeps its owner; where no order of the grid says so, a mesh does.
/// Storage follows if the dimensions are kept or reversed. No layout stores a
/// part in any other order: then ghost and leading are dropped, and what a rank has is
/// permuted(local_part(layout, rank), axes). Where ranks list what they own, their buffers stay one
/// dimension, and the new list tells where elements lie.
/// @pre the layout is valid
/// @throws core::Error invalid_argument if `axes` does not have every dimension once
Layout permuted(const Layout& layout, std::span<const std::size_t> axes);

/// The same memory with its dimensions in another order, as above.
/// @throws core::Error invalid_argument if `axes` does not have every dimension once
LocalPart permuted(const LocalPart& part, std::span<const std::size_t> axes);

/// The axes that take the dimensions back: inverse(axes)[axes[d]] == d.
/// @throws core::Error invalid_argument if `axes` does not have each of the dimensions once
std::vector<std::size_t> inverse(std::span<const std::size_t> axes, std::size_t dimensions);

/// Ranks whose partial sums make an element: the product of the axes Mesh::sums, 1 where there are none.
Rank layer_count(const Layout& layout) noexcept;

/// The summands of one layer, as an array of the ranks that are in it: the others are no members. Each
/// rank stores its part as before. The layout itself where there is one layer and no axis of sums.
/// @param number  0 <= number < layer_count(layout); places on the axes of sums, the last axis fastest
/// Cost: O(ranks); one range of members for all where those axes are the slowest of the mesh.
Layout layer(const Layout& layout, Rank number);

}  // namespace tremula::index_calc
