// SPDX-License-Identifier: Apache-2.0
#pragma once
// The kinds of layouts: how a layout states which rank owns which element.
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "index_calc/layout/distribution.hpp"
#include "index_calc/skew/block_cuts.hpp"
#include "index_calc/skew/skew.hpp"

namespace tremula::index_calc {

using core::all_ranks, core::Rank, core::RankCount, core::to_rank;

inline constexpr Index max_rank_count = std::numeric_limits<RankCount>::max();

/// The order in which cells along several dimensions are numbered: `row` = last dimension fastest
/// (C), `column` = first dimension fastest (Fortran).
enum class Order { row, column };

/// Returns the dimension that is the k-th fastest in the numbering, k = 0 .. dimensions - 1.
constexpr std::size_t kth_fastest(Order order, std::size_t dimensions, std::size_t k) noexcept {
  return order == Order::row ? dimensions - 1 - k : k;
}

/// How one rank stores its local part.
struct Storage {
  Order order = Order::row;
  /// Cells around the local part on both sides; empty = none; shape: [dimension]
  std::vector<Index> ghost{};
  Index leading = 0;  ///< allocated cells along the fastest dimension; 0 = as many as needed
  bool is_dense() const noexcept { return ghost.empty() && leading == 0; }
  friend bool operator==(const Storage&, const Storage&) = default;
};

// The uses of an axis of a process grid. Ranks that differ only in their positions on axes of copies
// or sums own the same elements.

/// An axis whose ranks hold copies.
struct Copies {
  friend bool operator==(const Copies&, const Copies&) = default;
};
/// An axis whose ranks hold partial sums: an element is the sum over the ranks that differ only on
/// such axes. A *layer* is all ranks at one position on them (view.hpp).
struct Sums {
  friend bool operator==(const Sums&, const Sums&) = default;
};
/// An axis that splits a dimension. Several axes may split one dimension: the coordinate along it is
/// composed of the positions on them, level 0 slowest.
struct Along {
  std::size_t dimension = 0;
  std::size_t level = 0;
  friend bool operator==(const Along&, const Along&) = default;
};

/// An axis of a process grid, which need not match a dimension of the array.
struct MeshAxis {
  Index ranks = 1;  ///< >= 1
  std::variant<Copies, Sums, Along, BlockOwner> use{};
  /// Return the dimension that the axis splits, or its owner; null if it has another use.
  const Along* along() const noexcept { return std::get_if<Along>(&use); }
  const BlockOwner* owner() const noexcept { return std::get_if<BlockOwner>(&use); }
  bool has_sums() const noexcept { return std::holds_alternative<Sums>(use); }
  friend bool operator==(const MeshAxis&, const MeshAxis&) = default;
};

inline constexpr std::size_t max_mesh_axes = 16;

/// Checks the numbers of axes and of ranks.
/// @param key  of the text form, for the error text
/// @throws core::Error invalid_argument naming the broken condition
void validate(const std::vector<MeshAxis>& axes, std::string_view key = "mesh");

/// Dimensions that are distributed one by one over a process grid: the owners are an outer product.
///
/// With axes of 2, 3 and 4 ranks, of which axis 2 splits dimension 0 on level 0 and axis 0 splits it
/// on level 1, the rank at (i, j, k) has the coordinate k * 2 + i, and is copy j of 3.
struct Grid {
  Grid() = default;
  /// Makes axis d of the process grid split dimension d.
  explicit Grid(std::vector<Distribution> distributions);
  Grid(std::vector<Distribution> distributions, std::vector<MeshAxis> process_grid)
      : dims(std::move(distributions)), axes(std::move(process_grid)) {}

  std::vector<Distribution> dims;  ///< shape: [dimension]
  /// The product of the ranks of the axes that split a dimension is the dimension's grid; none has
  /// an owner. Shape: [axis]
  std::vector<MeshAxis> axes;
  /// Returns whether axis d splits dimension d, and there are no further axes.
  bool is_plain() const noexcept;
  std::size_t dimensions() const noexcept { return dims.size(); }
  Index extent(std::size_t d) const noexcept { return index_calc::extent(dims[d]); }
  /// Checks the kind, and that it allows the storage.
  /// @throws core::Error invalid_argument naming the broken condition
  void validate(const Storage& storage) const;
  friend bool operator==(const Grid&, const Grid&) = default;
};

/// Blocks whose owners follow from their numbers, by expressions or tables (skew/). It takes a few
/// bytes for each expression and 8 for each entry of a table and each given bound, however many
/// blocks and ranks there are.
struct Skewed {
  std::vector<BlockCuts> cuts{};  ///< shape: [dimension]
  /// At least one has an owner, and none splits a dimension. Shape: [axis]
  std::vector<MeshAxis> axes{};
  std::size_t dimensions() const noexcept { return cuts.size(); }
  Index extent(std::size_t d) const noexcept { return cuts[d].extent(); }
  /// Checks as Grid::validate does.
  void validate(const Storage& storage) const;
  friend bool operator==(const Skewed&, const Skewed&) = default;
};

class IndexList;

/// Owners that follow no formula: each rank lists what it owns.
struct Listed {
  std::vector<Index> shape;  ///< global extents; shape: [dimension]
  Index ranks = 1;           ///< ranks that have lists, >= 1
  bool is_partial = false;   ///< elements may be on no rank
  bool has_copies = false;   ///< elements may be on several ranks
  /// The list of this rank; null if the layout was made from a text. Compared by address.
  std::shared_ptr<const IndexList> mine{};
  Index elements = 0, allocated = 0;  ///< elements listed in `mine`, and size of its buffer
  std::size_t dimensions() const noexcept { return shape.size(); }
  Index extent(std::size_t d) const noexcept { return shape[d]; }
  /// Checks as Grid::validate does.
  void validate(const Storage& storage) const;
  friend bool operator==(const Listed&, const Listed&) = default;
};

/// An array whose extent along one dimension varies from step to step (changing.hpp).
///
/// A sink may take rows by their keys, e.g. particles by their ids. A row consists of all elements
/// with one index along the dimension, which is then the slowest in memory and the only one split.
struct Changing {
  Grid grid;                  ///< the dimension that changes has extent 0 here
  std::size_t dimension = 0;  ///< the one that changes
  /// Whether each coordinate gets the elements of a step in one block; if not,
  /// grid.dims[dimension] gives the block.
  bool is_even = true;
  /// Name of the stream's field that holds the keys, one 64-bit integer for each row; empty if rows
  /// have no keys.
  std::string key{};
  /// Bounds of the keys: coordinate c takes keys in [ranges[c - 1], ranges[c]). Empty if a hash of
  /// the key determines the coordinate (coordinate_of). Ascending; shape: [coordinates - 1]
  std::vector<Index> ranges{};
  /// Whether rows are in ascending order of keys; if not, in the order of the source's ranks and rows.
  bool is_sorted = false;
  /// Returns the number of coordinates along the dimension that changes.
  Index coordinates() const noexcept { return index_calc::grid(grid.dims[dimension]); }
  std::size_t dimensions() const noexcept { return grid.dimensions(); }
  Index extent(std::size_t d) const noexcept { return grid.extent(d); }
  /// Checks as Grid::validate does.
  void validate(const Storage& storage) const;
  friend bool operator==(const Changing&, const Changing&) = default;
};

using LayoutKind = std::variant<Grid, Skewed, Listed, Changing>;

}  // namespace tremula::index_calc
