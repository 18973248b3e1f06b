// SPDX-License-Identifier: Apache-2.0
// V(p, q) is the product over the dimensions of what coordinates p_d and q_d share: the small
// matrices of the dimensions are computed, their product is walked.
#include "cli/plan/volumes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"

namespace tremula::cli {

namespace {

using index_calc::Layout;

constexpr Rank most_ranks = 16384;
constexpr Index most_shares = Index{1} << 24;

/// What a coordinate of the producer's grid shares with one of the consumer's.
struct Share {
  std::size_t coordinate = 0;
  Index elements = 0;
};

std::vector<Rank> ranks_of(const Layout& layout, Side side) {
  const Rank count = index_calc::rank_count(layout);
  if (count > most_ranks)
    throw core::Error(core::Errc::unsupported,
                      fmt::format("expected at most {} {}s to draw, found {}; draw a smaller "
                                  "redistribution of the same pattern",
                                  most_ranks, to_string(side), count));
  std::vector<Rank> ranks;
  if (layout.members.empty())
    for (Rank r = 0; r < count; ++r) ranks.push_back(r);
  for (const auto& member : layout.members)
    for (Rank k = 0; k < member.count; ++k) ranks.push_back(member.first + k);
  std::ranges::sort(ranks);
  return ranks;
}

/// Number of a cell of the process grid, last dimension fastest.
std::size_t cell_number(const Layout& layout, Rank rank) {
  const index_calc::GridCoords coords = coords_of_member(layout, rank);
  std::size_t number = 0;
  for (std::size_t d = 0; d < layout.dims.size(); ++d)
    number = number * static_cast<std::size_t>(index_calc::grid(layout.dims[d])) +
             static_cast<std::size_t>(coords[d].value);
  return number;
}

/// Shape: [coordinate of the producer][those of the consumer that share elements with it].
std::vector<std::vector<Share>> shares(const index_calc::Distribution& from,
                                       const index_calc::Distribution& to) {
  std::vector<std::vector<Share>> result;
  for (Index c = 0; c < index_calc::grid(from); ++c) {
    const index_calc::Overlaps overlaps = index_calc::overlaps(from, {c}, to);
    result.emplace_back();
    for (std::size_t i = 0; i < overlaps.size(); ++i)
      result.back().push_back(
          {static_cast<std::size_t>(overlaps.peers()[i].value), overlaps.elements(i)});
  }
  return result;
}

std::size_t per_cell(std::size_t ranks, std::size_t most_cells) {
  return (ranks + most_cells - 1) / most_cells;
}

}  // namespace

Volumes volumes(const Layout& from, const Layout& to, std::size_t most_cells) {
  Volumes result;
  result.producers = ranks_of(from, Side::producer);
  result.consumers = ranks_of(to, Side::consumer);
  const std::size_t m = result.producers.size(), n = result.consumers.size();
  result.producers_per_cell = per_cell(m, most_cells);
  result.consumers_per_cell = per_cell(n, most_cells);
  result.rows = per_cell(m, result.producers_per_cell);
  result.columns = per_cell(n, result.consumers_per_cell);
  result.cells.assign(result.rows * result.columns, 0);

  std::vector<std::vector<std::vector<Share>>> along;
  for (std::size_t d = 0; d < from.dims.size(); ++d) {
    const Index mine = index_calc::grid(from.dims[d]), theirs = index_calc::grid(to.dims[d]);
    if (mine * theirs > most_shares)
      throw core::Error(
          core::Errc::unsupported,
          fmt::format("expected at most {} pairs of grid coordinates along dimension {} to draw, "
                      "found {} x {}; draw a smaller redistribution of the same pattern",
                      most_shares, d, mine, theirs));
    along.push_back(shares(from.dims[d], to.dims[d]));
  }
  std::vector<std::size_t> column_of(n);
  for (std::size_t j = 0; j < n; ++j)
    column_of[cell_number(to, result.consumers[j])] = j / result.consumers_per_cell;

  std::vector<Share> row, longer;  // the packages of a producer, dimension after dimension
  for (std::size_t i = 0; i < m; ++i) {
    const index_calc::GridCoords coords = coords_of_member(from, result.producers[i]);
    row = {{0, 1}};
    for (std::size_t d = 0; d < along.size(); ++d) {
      longer.clear();
      const auto grid = static_cast<std::size_t>(index_calc::grid(to.dims[d]));
      for (const Share& a : row)
        for (const Share& b : along[d][static_cast<std::size_t>(coords[d].value)])
          longer.push_back({a.coordinate * grid + b.coordinate, a.elements * b.elements});
      row.swap(longer);
    }
    double* const cells = &result.cells[i / result.producers_per_cell * result.columns];
    for (const Share& package : row) {
      cells[column_of[package.coordinate]] += static_cast<double>(package.elements);
      result.total += package.elements;
      result.largest = std::max(result.largest, package.elements);
      result.smallest =
          result.packages == 0 ? package.elements : std::min(result.smallest, package.elements);
      ++result.packages;
    }
  }
  for (std::size_t i = 0; i < result.rows; ++i)
    for (std::size_t j = 0; j < result.columns; ++j) {
      const std::size_t pairs =
          std::min(result.producers_per_cell, m - i * result.producers_per_cell) *
          std::min(result.consumers_per_cell, n - j * result.consumers_per_cell);
      result.cells[i * result.columns + j] /= static_cast<double>(pairs);
    }
  return result;
}

}  // namespace tremula::cli
