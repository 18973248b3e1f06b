// SPDX-License-Identifier: Apache-2.0
#pragma once
// Linear assignment: every row takes a seat in a column so that the sum of the gains is as large as
// possible.
//
// There are as many seats as rows. A column with several seats represents that many identical
// columns. A pair without an entry is possible and gains nothing.
#include <cstddef>
#include <vector>

#include "core/types.hpp"

namespace tremula::index_calc {

using core::Index, core::RankCount;

/// A sparse matrix of gains, row by row: the entries of row i are begin[i] to begin[i + 1] - 1.
struct Gains {
  static constexpr Index largest = (Index{1} << 61) - 1;

  std::vector<RankCount> seats;          ///< how many rows each column takes, >= 1; shape: [column]
  std::vector<std::size_t> begin = {0};  ///< shape: [row + 1]
  std::vector<RankCount> column;         ///< distinct within each row; shape: [entry]
  std::vector<Index> gain;               ///< 1 to largest; shape: [entry]

  std::size_t rows() const noexcept { return begin.size() - 1; }
  std::size_t columns() const noexcept { return seats.size(); }
};

/// Checks the gains.
/// @throws core::Error invalid_argument if the number of seats is not the number of rows, or a gain
/// or a column is out of range
void validate(const Gains& gains);

/// Returns the column of each row. No other choice has a larger sum of gains (which may exceed 63
/// bits).
/// @param walks  if given, receives the number of walks along the entries of a row: a measure of the work
/// @throws core::Error as validate does
/// Cost: at worst O(rows * entries * log columns * log largest gain); usually, even if one gain or
/// one column exceeds all others or columns have several seats, 30 to 200 walks per row. Memory:
/// a few words for each row and column, and three for each increase of a price.
///
/// Source: Jonker & Volgenant 1987, "A shortest augmenting path algorithm for dense and sparse
/// linear assignment problems", with gains instead of costs; for the initial prices, instead of the
/// column reduction, Bertsekas 1988, "The auction algorithm", and for columns with several seats
/// Bertsekas & Castanon 1989, "The auction algorithm for the transportation problem".
std::vector<RankCount> best_assignment(const Gains& gains, std::size_t* walks = nullptr);

/// Returns a column for each row by repeatedly taking the largest gain that is still possible,
/// which yields at least half of the largest sum. If gains are equal, the lower row comes first,
/// then the lower column.
/// @throws core::Error as validate does
/// Cost: O(entries * log entries); memory 16 bytes for each entry.
std::vector<RankCount> greedy_assignment(const Gains& gains);

}  // namespace tremula::index_calc
