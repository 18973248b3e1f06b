// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many elements each pair of ranks shares: the volume matrix of two layouts of one array.
//
// Layouts are outer products of dimensions, and so are their volumes:
//
//     V(p, q) = prod_d v_d(p_d, q_d)
//
// v_d(i, j) is the number of indices of dimension d that both coordinate i of mine and coordinate j
// of theirs own. The small matrices v_d are stored as sparse matrices; V itself is computed row by
// row. If a side has copies, V counts the elements that a plan sends between the two ranks. Ranks are
// positions: position k is the k-th rank that takes part, in grid order, and ranks_of(layout)[k] is its
// group rank.
#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "index_calc/plan/plan.hpp"
#include "index_calc/plan/shares.hpp"

namespace tremula::index_calc {

/// The number of elements that a position shares with a position of the other side.
struct Volume {
  RankCount peer = 0;  ///< position in the other side's grid
  Index elements = 0;  ///< >= 1
  friend bool operator==(const Volume&, const Volume&) = default;
};

class Volumes {
public:
  /// @pre both layouts are valid
  /// @param role   role of the ranks of `mine`; matters only if a side has copies
  /// @param hosts  as for make_plan; must outlive this object
  /// @throws core::Error mismatch if the shapes differ, unsupported if more than 2^24 pairs of
  /// coordinates overlap along one dimension
  /// Cost: in each dimension, proportional to the number of segments in one period of each
  /// coordinate of mine; if a side is Splits, to the intervals of both, times a logarithm, and the
  /// pairs of coordinates that overlap. Memory: 16 bytes for each such pair, up to 32 if a side is
  /// Splits, and 24 for each coordinate of mine; for a while, a few hundred bytes for each interval.
  Volumes(const Layout& mine, const Layout& theirs, Role role = Role::source,
          const Hosts& hosts = {});

  RankCount rows() const noexcept { return mine_.size(); }
  RankCount columns() const noexcept { return theirs_.size(); }
  /// Returns the positions of theirs that share elements with position `mine`, in ascending order.
  /// @pre 0 <= mine < rows()
  /// Cost: about one step for each entry of the row.
  std::vector<Volume> row(RankCount mine) const;

  /// Calls visit(peers, elements) for each cell of theirs that shares elements with position
  /// `mine`. `peers` are the positions of the cell's copies, each of which owns all these elements.
  template <class Visit>
  void for_each_cell(RankCount mine, Visit&& visit) const {
    std::vector<RankCount> peers(static_cast<std::size_t>(theirs_.copies()));
    walk_row(mine_.cell_of(Rank{mine})->coords, [&](const GridCoords& peer, Index elements, Index) {
      for (RankCount copy = 0; copy < theirs_.copies(); ++copy)
        peers[static_cast<std::size_t>(copy)] =
            static_cast<RankCount>(theirs_.position_of(peer, copy));
      visit(std::span<const RankCount>(peers), elements);
    });
  }

private:
  struct Overlap {
    GridCoord peer;
    Index elements = 0;
  };
  /// v_d. Shape: [coordinate of mine][coordinates of theirs that overlap with it, ascending]
  using Factor = std::vector<std::vector<Overlap>>;
  /// Input of CopyDealer, used if the places of copies decide which copy sends what.
  struct Dealing {
    ProcessGrid mine, theirs;
    std::vector<Rank> ranks;  ///< shape: [position of mine]
    Hosts hosts;
  };
  /// Calls visit(coordinates, elements, lines) for each cell of theirs that shares elements with a cell of mine.
  template <class Visit>
  void walk_row(const GridCoords& cell, Visit&& visit) const {
    GridCoords peer{};
    const auto walk = [&](const auto& deeper, std::size_t k, Index elements, Index lines) -> void {
      if (k == slowest_.size()) return visit(std::as_const(peer), elements, lines);
      const std::size_t d = slowest_[k];
      for (const Overlap& o : factors_[d][static_cast<std::size_t>(cell[d].value)]) {
        peer[d] = o.peer;
        deeper(deeper, k + 1, elements * o.elements, std::max(lines, o.elements));
      }
    };
    walk(walk, 0, 1, 0);
  }
  std::vector<CopyShare> shares(RankCount mine, const GridCell& cell, const GridCoords& peer,
                                Index lines) const;
  /// Return v_d of dimension d: from each interval once if a side is Splits, else coordinate by
  /// coordinate.
  static Factor factor_of_intervals(const Distribution& mine, const Distribution& theirs,
                                    std::size_t dimension);
  static Factor factor_of_blocks(const Distribution& mine, const Distribution& theirs,
                                 std::size_t dimension);

  ProcessGrid mine_, theirs_;  ///< grids without members, so that ranks are positions
  Role role_;
  std::optional<Dealing> dealing_;
  std::vector<Factor> factors_;       ///< shape: [dimension]
  std::vector<std::size_t> slowest_;  ///< all dimensions, from slowest to fastest in theirs
};

}  // namespace tremula::index_calc
