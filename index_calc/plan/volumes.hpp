// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many elements each pair of ranks shares: the volume matrix of two layouts of one array.
//
// Layouts are outer products of dimensions, and so are their volumes:
//
//     V(p, q) = prod_d v_d(p_d, q_d)
//
// v_d(i, j) is the number of indices of dimension d that coordinate i of mine and coordinate j of
// theirs own. The small matrices v_d are held, sparse; V itself is made row by row. Ranks are
// positions: the k-th rank that takes part, in grid order; ranks_of(layout)[k] is its group rank.
#include <vector>

#include "index_calc/layout/layout.hpp"

namespace tremula::index_calc {

/// What a position shares with one of the other side.
struct Volume {
  Rank peer = 0;       ///< position in the other side's grid
  Index elements = 0;  ///< >= 1
  friend bool operator==(const Volume&, const Volume&) = default;
};

class Volumes {
public:
  /// @pre both layouts are valid
  /// @throws core::Error mismatch if the shapes differ, unsupported if more than 2^24 pairs of
  /// coordinates overlap along one dimension
  /// Cost: the segments of one period for each coordinate of mine, dimension by dimension; memory
  /// 16 bytes for each pair of coordinates that overlap.
  Volumes(const Layout& mine, const Layout& theirs);

  Rank rows() const noexcept { return rows_; }
  Rank columns() const noexcept { return columns_; }
  /// The positions of theirs that share elements with position `mine`, ascending; no others.
  /// @pre 0 <= mine < rows()
  /// Cost: as many steps as the row has entries, about.
  std::vector<Volume> row(Rank mine) const;

private:
  struct Dimension {
    /// v_d. Shape: [coordinate of mine][coordinates of theirs that overlap with it, ascending]
    std::vector<std::vector<Volume>> factor;
    Index step = 1;  ///< positions from one coordinate of mine to the next
    Index their_grid = 1;
  };
  std::vector<Dimension> dims_;  ///< theirs counts the first slowest
  Rank rows_ = 0, columns_ = 0;
};

}  // namespace tremula::index_calc
