// SPDX-License-Identifier: Apache-2.0
#pragma once
// Between the algorithms and Overlaps; private to this room.
#include <vector>

#include "index_calc/overlap.hpp"

namespace tremula::index_calc {

/// A family and the coordinate of the other side that it is shared with.
struct Piece {
  Index peer = 0;
  Family family;
};

/// More pieces than this are refused: layouts come from strangers, and memory is finite.
inline constexpr std::size_t most_pieces = std::size_t{1} << 24;

/// Makes room for at least one more piece.
/// @throws core::Error unsupported if there are `most` already, saying what to change
void grow(std::vector<Piece>& pieces, std::size_t most = most_pieces);

inline void add(std::vector<Piece>& pieces, Index peer, Index begin, Index peer_begin, Index length,
                Index count = 1) {
  if (pieces.size() == pieces.capacity()) grow(pieces);
  pieces.push_back({peer, {{{begin}, {peer_begin}, length}, count}});
}

// The algorithms. Each appends all pieces of coordinate `me` of `mine`, for each peer in ascending
// global order. BlockCyclic dimensions come with source 0: `me` and `peer` count in dealing order
// there.

/// One pass over my blocks; pieces for all peers at once.  O(my blocks + pieces), and once the
/// intervals of Splits
void aspen(const Distribution& mine, Index me, const Distribution& theirs, std::vector<Piece>& out);
/// Peer by peer, the family of my blocks against the family of theirs.  O(peers * my blocks)  @pre
/// both BlockCyclic
void falls(const Distribution& mine, Index me, const Distribution& theirs, std::vector<Piece>& out);
/// Peer by peer, all my blocks against all of the peer's.  O(peers * my blocks + their blocks)
void classical(const Distribution& mine, Index me, const Distribution& theirs,
               std::vector<Piece>& out);

/// The pieces that are shared with `peer`, without a look at the others.  O(pieces + log), and once
/// the intervals of Splits
void pair(const Distribution& mine, Index me, const Distribution& theirs, Index peer,
          std::vector<Piece>& out);

/// How the pieces repeat along the dimension, and who their peers are.
struct Repetition {
  Index family_stride = 0, family_peer_stride = 0;  ///< from one segment of a family to the next
  Index repeat = 0;  ///< whole periods; 0: the pieces are those of the whole extent
  Index stride = 0, peer_stride = 0;  ///< elements of mine and of each peer in one period
  Index rest = 0;                     ///< my elements behind the last whole period
  Index peers = 1;                    ///< coordinates of the other side
  Index source = 0;                   ///< of the other side: from dealing order to coordinates
};

/// Groups pieces by peer. Costs the pieces, however many coordinates the other side has.
class OverlapsBuilder {
public:
  static Overlaps build(const std::vector<Piece>& pieces, const Repetition& repetition);
};

}  // namespace tremula::index_calc
