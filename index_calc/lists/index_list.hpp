// SPDX-License-Identifier: Apache-2.0
#pragma once
// The elements that one rank owns of an array whose owners follow no formula: points, segments or
// boxes in any order. Only the rank itself has the list; match.hpp finds which rank has which
// elements.
//
// A rank that only receives may list an element several times (the halo of a periodic grid, a degree
// of freedom shared by cells) and leave places of its buffer without one, marked by `no_element`.
//
// Global numbers count the elements in row-major order, 0-based, whatever the storage order.
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "index_calc/layout/process_grid.hpp"

namespace tremula::index_calc {

/// Stands in a list for a place of the buffer that has no element.
inline constexpr Index no_element = -1;

/// Elements that follow each other in the array and in the rank's memory.
struct ListRun {
  Index global = 0;  ///< number of the first element
  Index local = 0;   ///< place of the first element in the rank's buffer, in elements
  Index length = 0;  ///< >= 1
  Index end() const noexcept { return global + length; }
  friend bool operator==(const ListRun&, const ListRun&) = default;
};

/// The runs of one rank, in ascending order of their global numbers, then of their places. No run
/// continues another in both numbers, unless elements of one of them are repeated. Two runs have all
/// their elements in common or none. An immutable value.
class IndexList {
public:
  /// Makes the list of a buffer whose element i is number points[i]; a place i whose points[i] is
  /// `no_element` has none.
  /// @throws core::Error invalid_argument naming an element that the array does not have, as do
  ///         of_segments and of_boxes
  /// Cost: O(points), and a sort of the runs if they do not ascend. Runs that overlap are cut at each
  /// other's ends, into at most one run for each element that they list.
  static IndexList of_points(std::span<const Index> shape, std::span<const Index> points);
  /// Makes the list of a buffer that holds segments one after another. Segment i consists of
  /// lengths[i] elements, the first of which is number begins[i]; if this is `no_element`, of as many
  /// places without an element.
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
  /// Calls visit(run) for the runs, leaving out runs that repeat elements.
  template <class Visit>
  void for_each_different(Visit&& visit) const {
    Index covered = 0;
    for (const ListRun& run : runs_) {
      if (run.global >= covered) visit(run);
      covered = run.end();
    }
  }
  /// Returns how many places of the buffer have an element.
  Index elements() const noexcept { return elements_; }
  /// Returns whether an element is listed several times.
  bool has_repeats() const noexcept { return has_repeats_; }
  /// Checks that the list has no element twice and no place without an element, which is required of
  /// a rank that sends the elements.
  /// @throws core::Error invalid_argument naming the element or the place
  void expect_source(std::span<const Index> shape) const;
  /// Returns how many elements the buffer must have.
  Index allocated() const noexcept { return allocated_; }
  std::size_t memory_bytes() const noexcept { return runs_.capacity() * sizeof(ListRun); }

private:
  void add(Index global, Index local, Index length);
  void add_blocks(const Skewed& skewed, Order order, const GridCoords& coords);
  void finish();
  std::vector<ListRun> runs_;
  Index elements_ = 0, allocated_ = 0;
  bool has_repeats_ = false;
};

/// Checks this rank's list, if the layout has one, as IndexList::expect_source does.
void expect_source(const Layout& layout);

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
