// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "index_calc/layout/layout.hpp"

namespace tremula::cli {

/// Parses the layout in the text of an option.
/// @throws core::Error invalid_argument naming the option, with the text and a caret under the
/// mistake:
///
///     --from, position 11: expected key=value, found "gird"
///       shape=8x6  gird
///                  ^
///
/// and without position and caret if the parts of the layout do not fit together
index_calc::Layout parse_layout_option(const std::string& option, const std::string& text);

/// Replaces layouts whose extent changes from step to step with their layouts in the step that
/// `--counts` describes.
/// @param counts  shape: [coordinate of `from` along the dimension that changes]; empty if none changes
/// @throws core::Error invalid_argument if the counts do not match `from` or a producer may not
/// have it (a block or a key), mismatch if the layouts do not match each other, unsupported if `to`
/// assigns rows by keys
void size_by_counts(index_calc::Layout& from, index_calc::Layout& to,
                    const std::vector<core::Index>& counts);

}  // namespace tremula::cli
