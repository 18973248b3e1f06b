// SPDX-License-Identifier: Apache-2.0
#include "cli/plan/picture/volumes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "core/error.hpp"
#include "index_calc/layout/blocks.hpp"
#include "index_calc/plan/volumes.hpp"

namespace tremula::cli {

namespace {

using index_calc::Layout;

constexpr RankCount most_drawn_ranks = 16384;

/// The ranks of one side in ascending order, and maps between this order and positions in the layout.
struct Ranks {
  std::vector<Rank> ascending;        ///< shape: [number in ascending order]
  std::vector<std::size_t> position;  ///< shape: [number in ascending order]
  std::vector<std::size_t> number;    ///< shape: [position]
};

Ranks ranks_of(const Layout& layout, Side side) {
  const RankCount count = index_calc::rank_count(layout);
  if (count > most_drawn_ranks)
    throw core::Error(core::Errc::unsupported,
                      fmt::format("expected at most {} {}s to draw, found {}; draw a smaller "
                                  "redistribution of the same pattern",
                                  most_drawn_ranks, to_string(side), count));
  const std::vector<Rank> ranks = index_calc::ranks_of(layout);
  Ranks result;
  for (std::size_t k = 0; k < ranks.size(); ++k) result.position.push_back(k);
  std::ranges::sort(result.position, {}, [&](std::size_t k) { return ranks[k]; });
  result.number.resize(ranks.size());
  for (const std::size_t k : result.position) {
    result.number[k] = result.ascending.size();
    result.ascending.push_back(ranks[k]);
  }
  return result;
}

std::size_t per_cell(std::size_t ranks, std::size_t most_cells) {
  return (ranks + most_cells - 1) / most_cells;
}

/// Calls count(number of the producer, number of the consumer, elements) for each pair that
/// exchanges elements.
template <class Count>
void for_each_counted(const Redistribution& redistribution, const Ranks& producers,
                      const Ranks& consumers, const Count& count) {
  const index_calc::Volumes matrix(redistribution.from, redistribution.to);
  for (std::size_t i = 0; i < producers.ascending.size(); ++i)
    for (const auto& [consumer, elements] :
         matrix.row(static_cast<RankCount>(producers.position[i])))
      count(i, consumers.number[static_cast<std::size_t>(consumer)], elements);
}

/// Works like for_each_counted, but takes the numbers of elements from the plans of all producers.
template <class Count>
void for_each_planned(const Redistribution& redistribution, const Ranks& producers,
                      const Ranks& consumers, const Count& count) {
  const auto& ranks = consumers.ascending;
  for (std::size_t i = 0; i < producers.ascending.size(); ++i) {
    const auto plan = make_plan(redistribution, Side::producer, producers.ascending[i]);
    plan.for_each_package([&](const index_calc::Package& package) {
      const auto j = std::ranges::lower_bound(ranks, package.peer) - ranks.begin();
      count(i, static_cast<std::size_t>(j), package.elements);
    });
  }
}

}  // namespace

Volumes volumes(const Redistribution& redistribution, std::size_t most_cells) {
  const auto& [from, to] = std::tie(redistribution.from, redistribution.to);
  const Ranks producers = ranks_of(from, Side::producer), consumers = ranks_of(to, Side::consumer);
  Volumes result;
  result.producers = producers.ascending;
  result.consumers = consumers.ascending;
  const std::size_t m = result.producers.size(), n = result.consumers.size();
  result.producers_per_cell = per_cell(m, most_cells);
  result.consumers_per_cell = per_cell(n, most_cells);
  result.rows = per_cell(m, result.producers_per_cell);
  result.columns = per_cell(n, result.consumers_per_cell);
  result.cells.assign(result.rows * result.columns, 0);

  const auto count = [&](std::size_t i, std::size_t j, Index elements) {
    result.cells[i / result.producers_per_cell * result.columns + j / result.consumers_per_cell] +=
        static_cast<double>(elements);
    result.total = index_calc::saturating_sum(result.total, elements);
    result.largest = std::max(result.largest, elements);
    result.smallest = result.packages == 0 ? elements : std::min(result.smallest, elements);
    ++result.packages;
  };
  if (has_flat_plans(redistribution))
    for_each_planned(redistribution, producers, consumers, count);
  else
    for_each_counted(redistribution, producers, consumers, count);
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
