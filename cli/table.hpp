// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

namespace tremula::cli {

using Row = std::vector<std::string>;

enum class Align { left, right };

/// Appends rows with equal numbers of cells as a table: each column is as wide as its widest text
/// and begins with two blanks.
void append_table(std::string& out, const std::vector<Row>& rows, Align align = Align::left);

}  // namespace tremula::cli
