// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

namespace tremula::cli {

using Row = std::vector<std::string>;

enum class Align { left, right };

/// Rows of equally many cells: columns as wide as their widest text, two blanks before each.
void append_table(std::string& out, const std::vector<Row>& rows, Align align = Align::left);

}  // namespace tremula::cli
