// SPDX-License-Identifier: Apache-2.0
#pragma once
// Arrays that several producer groups own together. Each group offers a box of the array. Pure functions.
//
//     whole array   [0, 6) x [0, 8)
//     parts         [0, 6) x [0, 4)    of group 'west'
//                   [0, 2) x [4, 8)    of group 'north'     missing: [2, 6) x [4, 8)
#include <span>
#include <string>
#include <vector>

#include "index_calc/view/view.hpp"
#include "proto/convert.hpp"

namespace tremula::proto {

using Box = index_calc::Selection;

inline bool is_part(const Field& field) { return !field.whole.empty(); }

/// Checks that a part is not empty and is inside its whole array, which has fewer than 2^63 - 1 elements.
/// @throws core::Error invalid_argument
void check_part(const Field& field);

/// Returns the box of the whole array that the layout of a part covers.
Box box_of(const Field& field);
/// Returns a box as text, e.g. "[0, 6) x [4, 8)".
std::string to_string(const Box& box);
bool overlap(const Box& a, const Box& b);

/// Returns the boxes of the array that no part covers, or only the first of them if there are many; empty
/// if the parts cover the array.
/// @param parts  disjoint boxes in an array of that shape
std::vector<Box> missing(std::span<const core::Index> shape, std::span<const Box> parts);

/// The elements that a consumer wants and a producer offers: one box, in the indices of each side's
/// layout. The extents are 0 if there are no such elements.
struct SharedBox {
  Box of_offered, of_wanted;
};
/// Returns the elements that both fields share.
/// @pre check_compatible(wanted, offered, ...)
SharedBox shared_box(const Field& wanted, const Field& offered);

}  // namespace tremula::proto
