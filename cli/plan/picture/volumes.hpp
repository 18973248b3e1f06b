// SPDX-License-Identifier: Apache-2.0
#pragma once
// How much each pair of ranks exchanges: the matrix of all producers and all consumers.
#include <vector>

#include "cli/plan/redistribution.hpp"

namespace tremula::cli {

struct Volumes {
  std::vector<Rank> producers, consumers;  ///< ranks that take part, ascending
  Index total = 0, largest = 0;            ///< elements of all packages, and of the largest one
  Index smallest = 0;                      ///< elements of the smallest package; 0 if there is none
  Index packages = 0;
  /// If there are many ranks, several share a cell. `cells` holds, row by row, the mean number of
  /// elements of the pairs in each cell.
  std::size_t producers_per_cell = 1, consumers_per_cell = 1;
  std::size_t rows = 0, columns = 0;
  std::vector<double> cells;  ///< shape: [rows, columns]
};

/// Computes the volumes of a redistribution.
/// @param most_cells  largest number of rows, and largest number of columns, of the matrix
/// @throws core::Error unsupported if a side has more than 16384 ranks; also the errors of
/// index_calc::Volumes or, if a side is skewed, of index_calc::make_plan
/// Cost: proportional to the number of pairs that share elements; if a side is skewed or lists what
/// its ranks own, the cost of the plans of all producers.
Volumes volumes(const Redistribution& redistribution, std::size_t most_cells);

}  // namespace tremula::cli
