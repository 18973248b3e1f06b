// SPDX-License-Identifier: Apache-2.0
#include "cli/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace tremula::cli {

void append_table(std::string& out, const std::vector<Row>& rows, Align align) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const Row& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  const auto format = align == Align::left ? "  {:<{}}" : "  {:>{}}";
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      fmt::format_to(std::back_inserter(line), fmt::runtime(format), row[i], widths[i]);
    out += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
}

}  // namespace tremula::cli
