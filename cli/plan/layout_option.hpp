// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "index_calc/layout/layout.hpp"

namespace tremula::cli {

/// The layout that an option gives.
/// @throws core::Error invalid_argument naming the option, with the text and a caret under the
/// mistake:
///
///     --from, position 11: expected key=value, found "gird"
///       shape=8x6  gird
///                  ^
index_calc::Layout parse_layout_option(const std::string& option, const std::string& text);

}  // namespace tremula::cli
