// SPDX-License-Identifier: Apache-2.0
#pragma once
// Layouts as training and inference frameworks write them: a mesh of devices, and for each axis of it
// what it does with the array.
#include <optional>
#include <span>

#include "index_calc/layout/layout.hpp"

namespace tremula::index_calc {

/// What an axis of a mesh does with an array, in the words of PyTorch's DTensor:
///
///     {}             Replicate()          every rank along the axis has a copy
///     {d}            Shard(d)             dimension d is cut into chunks of ceil(n / ranks) elements
///     {d, factor}    _StridedShard(d)     into ranks * factor such chunks, dealt in turn
///
/// Axes act one after the other, in the order of the mesh: each cuts what the ones before have left to
/// a rank. A strided shard leaves the cut of an axis that comes after it to be the outer one: with
/// factor = the ranks of that axis, dimension d is as if that one had cut first.
/// Source: torch/distributed/tensor/placement_types.py (PyTorch 2.5).
struct Placement {
  std::optional<std::size_t> dimension{};  ///< that is cut
  Index split_factor = 1;
};

/// The layout of an array of `shape` on a mesh whose ranks are numbered last axis fastest; row-major.
/// Of even extents it takes a few bytes, whatever the mesh; else each dimension that several axes cut
/// lists its chunks.
/// @param mesh        ranks along each axis
/// @param placements  shape: [axis]
/// @throws core::Error invalid_argument naming what is wrong
Layout layout_on_mesh(std::span<const Index> shape, std::span<const Index> mesh,
                      std::span<const Placement> placements);

}  // namespace tremula::index_calc
