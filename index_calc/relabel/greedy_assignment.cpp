// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "index_calc/relabel/assignment.hpp"

namespace tremula::index_calc {

std::vector<RankCount> greedy_assignment(const Gains& gains) {
  validate(gains);
  struct Edge {
    Index gain;
    RankCount row, column;
  };
  std::vector<Edge> edges;
  edges.reserve(gains.gain.size());
  for (std::size_t row = 0; row < gains.rows(); ++row)
    for (std::size_t e = gains.begin[row]; e < gains.begin[row + 1]; ++e)
      edges.push_back({gains.gain[e], static_cast<RankCount>(row), gains.column[e]});
  const auto before = [](const Edge& a, const Edge& b) {
    if (a.gain != b.gain) return a.gain > b.gain;
    return a.row != b.row ? a.row < b.row : a.column < b.column;
  };
  std::vector<RankCount> column_of(gains.rows(), -1), free = gains.seats;
  const auto is_possible = [&](const Edge& e) {
    return column_of[static_cast<std::size_t>(e.row)] == -1 &&
           free[static_cast<std::size_t>(e.column)] > 0;
  };
  // Most edges have become impossible long before their turn, so only as many as needed are sorted.
  for (std::size_t count = 8 * gains.rows(); !edges.empty(); count *= 2) {
    const auto middle = edges.begin() + static_cast<std::ptrdiff_t>(std::min(count, edges.size()));
    std::nth_element(edges.begin(), middle, edges.end(), before);
    std::sort(edges.begin(), middle, before);
    for (auto e = edges.begin(); e != middle; ++e)
      if (is_possible(*e)) {
        column_of[static_cast<std::size_t>(e->row)] = e->column;
        --free[static_cast<std::size_t>(e->column)];
      }
    std::erase_if(edges, [&](const Edge& e) { return !is_possible(e); });
  }
  std::size_t next = 0;  // next column for the other rows, which gain nothing in any free column
  for (RankCount& column : column_of) {
    if (column != -1) continue;
    while (free[next] == 0) ++next;
    column = static_cast<RankCount>(next);
    --free[next];
  }
  return column_of;
}

}  // namespace tremula::index_calc
