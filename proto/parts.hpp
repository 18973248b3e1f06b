// SPDX-License-Identifier: Apache-2.0
#pragma once
// Arrays that several producer groups own together: each offers a box of them. Pure.
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

/// That a part lies in its whole array, and both have elements, as many as 63 bits count.
/// @throws core::Error invalid_argument
void check_part(const Field& field);

/// Where the layout of a part lies in the whole array.
Box box_of(const Field& field);
/// "[0, 6) x [4, 8)"
std::string to_string(const Box& box);
bool overlap(const Box& a, const Box& b);

/// Boxes of the array that no part has; the first ones if they are many. Empty: the parts cover it.
/// @param parts  disjoint, in an array of that shape
std::vector<Box> missing(std::span<const core::Index> shape, std::span<const Box> parts);

/// The elements that a consumer wants and a producer offers: one box, in the indices of either's
/// layout. Extents of 0: they share none.
struct SharedBox {
  Box of_offered, of_wanted;
};
/// @pre check_compatible
SharedBox shared_box(const Field& wanted, const Field& offered);

}  // namespace tremula::proto
