// SPDX-License-Identifier: Apache-2.0
#pragma once
// Layouts as training and inference frameworks describe them: a mesh of devices, and the effect of
// each of its axes on the array.
#include <optional>
#include <span>

#include "index_calc/layout/layout.hpp"

namespace tremula::index_calc {

/// The effect of one axis of a mesh on an array, in the terms of PyTorch's DTensor:
///
///     {}             Replicate()          every rank along the axis has a copy
///     {d}            Shard(d)             dimension d is cut into chunks of ceil(n / ranks) elements
///     {d, factor}    _StridedShard(d)     the same cut, inside the cuts of later axes
///
/// Axes act one after another, in the order of the mesh: each cuts the part that the axes before
/// it have left to a rank. A strided shard acts after those later axes whose ranks multiply to its
/// factor. If the factor is the number of ranks of the next axis, that axis cuts first, and the
/// strided shard cuts the chunks of that axis. Uneven extents are cut in these same two steps, as
/// in PyTorch's combination of fully sharded data parallel with tensor parallel, e.g. 6 elements on
/// a mesh of 2 x 2 with {0, 2}, {0}:
///
///     rank      (0,0)  (0,1)  (1,0)  (1,1)
///     elements  0 1    3 4    2      5
///
/// A factor that is a multiple of the product of all later axes means that every rank has a part of
/// each chunk. It needs even extents: for uneven ones, versions of PyTorch disagree (pytorch issue
/// 168134). Any other factor that is not a product of whole axes, e.g. 3 before an axis of 2, is
/// refused even for even extents.
/// Source: torch/distributed/tensor/placement_types.py (PyTorch 2.11).
struct Placement {
  std::optional<std::size_t> dimension{};  ///< dimension that is cut; nullopt for copies
  Index split_factor = 1;
};

/// Returns the row-major layout of an array of `shape` on a mesh whose ranks are numbered with the
/// last axis fastest. A layout takes a few bytes, whatever the mesh, except in two cases: several
/// axes cut an uneven extent, or several axes cut a dimension and the factor of one is greater than
/// the product of the later ones. In both cases, the dimension lists its chunks, at most 2^24.
/// @param mesh        ranks along each axis
/// @param placements  shape: [axis]
/// @throws core::Error invalid_argument naming what is wrong
Layout layout_on_mesh(std::span<const Index> shape, std::span<const Index> mesh,
                      std::span<const Placement> placements);

}  // namespace tremula::index_calc
