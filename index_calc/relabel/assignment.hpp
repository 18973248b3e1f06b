// SPDX-License-Identifier: Apache-2.0
#pragma once
// Linear assignment: every row takes a seat in a column so that the sum of the gains is largest.
//
// There are as many seats as rows. A column with several seats stands for as many columns that are
// alike. A pair without an entry gains nothing and is possible, too.
#include <cstddef>
#include <vector>

#include "core/types.hpp"

namespace tremula::index_calc {

using core::Index, core::Rank;

/// Sparse, row by row: the entries of row i are begin[i] to begin[i + 1] - 1.
struct Gains {
  static constexpr Index largest = (Index{1} << 61) - 1;

  std::vector<Rank> seats;               ///< rows that each column takes, >= 1; shape: [column]
  std::vector<std::size_t> begin = {0};  ///< shape: [row + 1]
  std::vector<Rank> column;              ///< no column twice in a row; shape: [entry]
  std::vector<Index> gain;               ///< 1 to largest; shape: [entry]

  std::size_t rows() const noexcept { return begin.size() - 1; }
  std::size_t columns() const noexcept { return seats.size(); }
};

/// @throws core::Error invalid_argument if there are not as many seats as rows, or a gain or a
/// column is out of range
void validate(const Gains& gains);

/// The column of each row. No other choice has a larger sum of gains (which may exceed 63 bits).
/// @param walks  set, if given, to how often the entries of a row were walked: the work that it
/// took
/// @throws core::Error as validate
/// Cost: O(rows * entries * log columns * log largest gain) at worst; as a rule, and where one gain
/// or one column exceeds all others or columns have several seats, 30 to 200 walks for each row.
/// Memory: a few words for each row and column, and three for each raise of a price. Source: Jonker
/// & Volgenant 1987, "A shortest augmenting path algorithm for dense and sparse linear assignment
/// problems", for gains instead of costs; for the prices it starts from, in place of the column
/// reduction, Bertsekas 1988, "The auction algorithm", and for columns with several seats Bertsekas
/// & Castanon 1989, "The auction algorithm for the transportation problem".
std::vector<Rank> best_assignment(const Gains& gains, std::size_t* walks = nullptr);

/// As best_assignment, but always the largest gain that is still possible next: at least half of
/// the largest sum. Of equal gains the lower row comes first, then the lower column. Cost:
/// O(entries * log entries); memory 16 bytes for each entry.
std::vector<Rank> greedy_assignment(const Gains& gains);

}  // namespace tremula::index_calc
