// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "index_calc/relabel/relabel.hpp"

namespace tremula::cli {

/// Parses a table of costs. A line "FROM TO LATENCY PER_BYTE" says that bytes from a producer at
/// place FROM to a consumer at TO cost LATENCY + PER_BYTE * bytes; "*" is any other place; later
/// lines override earlier ones. Bytes that stay at a place cost nothing unless a line names that
/// place twice. "#" begins a comment.
/// @param file   name of the file, for error messages
/// @param names  names of the places; shape: [place]
/// @throws core::Error invalid_argument naming file and line, or a pair of places without a cost;
/// unsupported if there are more than 8192 places
index_calc::CostTable parse_costs(std::string_view text, const std::string& file,
                                  const std::vector<std::string>& names, index_calc::Places at);

/// Returns the contents of a file.
/// @throws core::Error invalid_argument if it cannot be read
std::string read_cost_file(const std::string& file);

}  // namespace tremula::cli
