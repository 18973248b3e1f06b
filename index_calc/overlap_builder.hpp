// SPDX-License-Identifier: Apache-2.0
#pragma once
// Between the algorithms and Overlaps; private to this room.
#include <limits>
#include <vector>

#include "index_calc/overlap.hpp"

namespace tremula::index_calc {

/// A segment and the coordinate of the other side that it is shared with.
struct Piece {
  Index peer = 0;
  Segment segment;
};

/// A block-cyclic dimension in dealing order: *turn* t owns the blocks t, t + grid, ... Coordinate
/// c has turn (c - source) mod grid.
struct Deal {
  Index block = 1;
  Index grid = 1;
};

/// a * b for a, b >= 0; the largest Index, which is beyond the end of every dimension, if that
/// exceeds 63 bits.
inline Index saturating_product(Index a, Index b) noexcept {
  Index result = 0;
  return __builtin_mul_overflow(a, b, &result) ? std::numeric_limits<Index>::max() : result;
}

// The algorithms. Each appends the pieces of the elements [0, end) that turn (coordinate) `me` of
// `mine` owns, for each peer in ascending global order; `peer` is a turn where theirs is a Deal, a
// coordinate otherwise.

/// One pass over my blocks; pieces for all peers in ascending global order.  O(my blocks + pieces)
void aspen(const Deal& mine, Index me, const Deal& theirs, Index end, std::vector<Piece>& out);
/// For each peer, each family of blocks of mine against the family of blocks of the peer.  O(peers
/// * my blocks)
void falls(const Deal& mine, Index me, const Deal& theirs, Index end, std::vector<Piece>& out);
/// For each peer, all blocks of mine against all blocks of the peer.  O(peers * (my blocks + the
/// peer's blocks))
void classical(const Distribution& mine, GridCoord me, const Distribution& theirs,
               std::vector<Piece>& out);
/// As aspen, where at least one side is Splits.  O(my blocks + pieces + intervals)
void merge(const Distribution& mine, GridCoord me, const Distribution& theirs,
           std::vector<Piece>& out);

/// How the pattern of the pieces repeats along the dimension.
struct Repetition {
  Index repeat = 0;  ///< whole periods in the extent; 0: the pieces are those of the whole extent
  Index stride = 0;  ///< my elements in one period
  Index peer_stride = 0;  ///< elements of each peer in one period
  Index rest = 0;         ///< my elements behind the last whole period
  Index peers = 1;        ///< coordinates of the other side
  Index source = 0;       ///< added to `peer`, modulo `peers`: from turns to coordinates
};

/// Groups pieces by peer. Costs the pieces, however many coordinates the other side has.
class OverlapsBuilder {
public:
  static Overlaps build(std::vector<Piece> pieces, const Repetition& repetition);
};

}  // namespace tremula::index_calc
