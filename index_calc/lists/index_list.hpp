// SPDX-License-Identifier: Apache-2.0
#pragma once
// The elements that one rank owns of an array whose owners follow no formula: points, segments or
// boxes in any order. Only the rank itself has the list; match.hpp finds which rank has which
// elements.
//
// Global numbers count the elements in row-major order, 0-based, whatever the storage order.
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "index_calc/layout/process_grid.hpp"

namespace tremula::index_calc {

/// Elements that follow each other in the array and in the rank's memory.
struct ListRun {
  Index global = 0;  ///< number of the first element
  Index local = 0;   ///< place of the first element in the rank's buffer, in elements
  Index length = 0;  ///< >= 1
  friend bool operator==(const ListRun&, const ListRun&) = default;
};

/// The runs of one rank, in ascending order of their global numbers; no run continues the previous
/// one in both numbers. An immutable value.
class IndexList {
public:
  /// Makes the list of a buffer whose element i is number points[i].
  /// @throws core::Error invalid_argument naming an element that is listed twice or that the array does
  ///         not have, as do of_segments and of_boxes
  /// Cost: O(points), and a sort of the runs if they do not ascend.
  static IndexList of_points(std::span<const Index> shape, std::span<const Index> points);
  /// Makes the list of a buffer that holds segments one after another. Segment i consists of
  /// lengths[i] elements, the first of which is number begins[i].
  static IndexList of_segments(std::span<const Index> shape, std::span<const Index> begins,
                               std::span<const Index> lengths);
  /// Makes the list of a buffer that holds boxes one after another, each row-major. Shape of both:
  /// [box * dimensions]
  static IndexList of_boxes(std::span<const Index> shape, std::span<const Index> origins,
                            std::span<const Index> extents);
  /// Makes the list of the elements that a computed layout gives rank `me`, at their places in its
  /// buffer.
  /// @param part  the rank's part, in the dimensions of the layout
  /// Cost: O(runs).
  static IndexList of_layout(const Layout& layout, Rank me, const LocalPart& part);

  /// Returns the elements of a box, numbered within the box from 0. The places in the buffer, and
  /// `allocated`, stay the same.
  /// @pre the box is inside the array of that shape
  /// Cost: O(runs + rows along the last dimension that they touch).
  IndexList selected(std::span<const Index> shape, std::span<const Index> origin,
                     std::span<const Index> extents) const;
  /// Returns the same elements, numbered in the array whose dimension d is dimension axes[d] of
  /// this one. The places in the buffer stay the same.
  /// @pre `axes` has every dimension once
  /// Cost: that of selected() if the last dimension stays the last; else O(elements) and a sort of
  /// the elements.
  IndexList permuted(std::span<const Index> shape, std::span<const std::size_t> axes) const;

  std::span<const ListRun> runs() const noexcept { return runs_; }
  Index elements() const noexcept { return elements_; }
  /// Returns how many elements the buffer must have.
  Index allocated() const noexcept { return allocated_; }
  std::size_t memory_bytes() const noexcept { return runs_.capacity() * sizeof(ListRun); }

private:
  void add(Index global, Index local, Index length);
  void add_blocks(const Skewed& skewed, Order order, const GridCoords& coords);
  void finish(std::span<const Index> shape);
  std::vector<ListRun> runs_;
  Index elements_ = 0, allocated_ = 0;
};

/// Returns the layout of an array for which each of `ranks` ranks lists what it owns. This rank's
/// list is `list`.
/// @throws core::Error invalid_argument if the shape is not valid
Layout listed_layout(std::span<const Index> shape, RankCount ranks, bool is_partial,
                     bool has_copies, IndexList list);
/// Returns the layout of another array on the same ranks, under the same rules.
/// @param list  this rank's elements of that array; nullopt if `layout` has no list, e.g. because
///              it belongs to another group
Layout listed_layout(std::span<const Index> shape, const Layout& layout,
                     std::optional<IndexList> list);

/// Returns the indices of the element with this number, e.g. "(3, 17)".
std::string element_text(std::span<const Index> shape, Index number);

}  // namespace tremula::index_calc
