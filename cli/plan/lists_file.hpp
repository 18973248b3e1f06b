// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads the files of `tremula plan --from-lists` and `--to-lists`, which list what each rank owns of
// an array whose layout has lists=.
#include <optional>
#include <string>
#include <vector>

#include "index_calc/lists/index_list.hpp"

namespace tremula::cli {

/// Reads a list in YAML (or JSON) with one entry for each rank, in the order of members= or,
/// without it, of the ranks:
///
///     - boxes: [[[0, 0], [4, 6]], [[8, 0], [9, 6]]]   beginning and end of each, the end exclusive
///     - segments: [[24, 30], [36, 60]]                beginning and end of each, as element numbers
///     - points: [70, 71, [9, 3]]                      element numbers, or indices; -1: a place without one
///
/// Elements are numbered from 0 in row-major order. A rank stores its elements in the order of its entry,
/// each box row-major.
/// @param option  names the file in errors
/// @param layout  a layout with lists=
/// @return shape: [rank of the group]; a rank that takes no part owns nothing
/// @throws core::Error invalid_argument naming the file, the rank, its line and what was expected
std::vector<index_calc::IndexList> read_lists(const std::string& option, const std::string& file,
                                              const index_calc::Layout& layout);

/// Returns the lists of a side whose layout is given by `option` and whose file is given by
/// `<option>-lists`.
/// @param file  empty if not given
/// @return nullopt if the layout has no lists=
/// @throws core::Error as read_lists does, and invalid_argument if the file is missing or superfluous
std::optional<std::vector<index_calc::IndexList>> lists_beside(const std::string& option,
                                                               const std::string& file,
                                                               const index_calc::Layout& layout);

}  // namespace tremula::cli
