// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "index_calc/layout/layout.hpp"

namespace tremula::cli {

/// Returns the layout that an option gives.
/// @throws core::Error invalid_argument naming the option, with the text and a caret under the
/// mistake:
///
///     --from, position 11: expected key=value, found "gird"
///       shape=8x6  gird
///                  ^
index_calc::Layout parse_layout_option(const std::string& option, const std::string& text);

/// Replaces layouts whose extent changes with every step with their layouts in the step that
/// `--counts` describes.
/// @param counts  shape: [coordinate of `from` along the dimension that changes]; empty if none changes
/// @throws core::Error invalid_argument if they do not fit `from`, mismatch if the layouts do not fit each
/// other, unsupported if `to` takes rows by keys
void size_by_counts(index_calc::Layout& from, index_calc::Layout& to,
                    const std::vector<core::Index>& counts);

}  // namespace tremula::cli
