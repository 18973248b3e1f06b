// SPDX-License-Identifier: Apache-2.0
#pragma once
// The layer between the algorithms and Overlaps; private to this room.
#include <cstdint>
#include <vector>

#include "index_calc/overlap/overlap.hpp"

namespace tremula::index_calc {

/// A family and the coordinate of the other side that shares it.
struct Piece {
  Index peer = 0;
  Family family;
};

/// Largest number of pieces. More are refused: a layout may come from another job, and memory is
/// finite.
inline constexpr std::size_t most_pieces = std::size_t{1} << 24;

/// Throws an error whose text says what to change.
/// @throws core::Error unsupported
[[noreturn]] void refuse_more_than(std::size_t most);

/// Makes room for at least one more piece.
/// @throws core::Error unsupported if there are `most` already
void grow(std::vector<Piece>& pieces, std::size_t most = most_pieces);

inline void add(std::vector<Piece>& pieces, Index peer, Index begin, Index peer_begin, Index length,
                Index count = 1) {
  if (pieces.size() == pieces.capacity()) grow(pieces);
  pieces.push_back({peer, {{{begin}, {peer_begin}, length}, count}});
}

/// Estimates how many blocks one coordinate has, and how many all coordinates have together.
inline double blocks_of_one(const BlockCyclic& d) {
  const double round = static_cast<double>(d.block) * static_cast<double>(d.grid);
  return static_cast<double>(d.extent) / round + 1;
}
inline double blocks_of_all(const BlockCyclic& d) {
  return static_cast<double>(d.extent) / static_cast<double>(d.block) + 1;
}
inline double blocks_of_one(const Splits& d) { return static_cast<double>(d.owner.size()); }
inline double blocks_of_all(const Splits& d) { return static_cast<double>(d.owner.size()); }

/// Estimates how many blocks, or intervals, are passed to find those of every coordinate: each
/// coordinate's are found among all intervals of Splits.
inline double passed_for_all(const BlockCyclic& d) { return blocks_of_all(d); }
inline double passed_for_all(const Splits& d) {
  return static_cast<double>(d.grid) * blocks_of_all(d);
}

/// Checks that there are at most 2^30 pairs, because more would take seconds.
/// @throws core::Error unsupported with `why`
void refuse_pairs(double pairs, std::string_view why);

// The algorithms that treat one peer at a time. Each appends all pieces of coordinate `me` of
// `mine`: peers ascend, and the pieces of a peer are in ascending global order. It returns the
// number of blocks that it looked at. BlockCyclic dimensions must have source 0, because `me` and
// `peer` count in round-robin order.

/// Intersects the family of my blocks with the family of each peer. O(peers * my blocks), or
/// O(their blocks) if one of theirs is longer than a round of mine.
/// @throws core::Error unsupported as refuse_pairs does
Index falls(const BlockCyclic& mine, Index me, const BlockCyclic& theirs, std::vector<Piece>& out);
/// Compares all my blocks with all blocks of each peer. O(peers * my blocks + their blocks); a side
/// that is Splits counts with all its intervals for each peer
/// @throws core::Error unsupported as refuse_pairs does
Index classical(const Distribution& mine, Index me, const Distribution& theirs,
                std::vector<Piece>& out);

/// How the pieces repeat along the dimension, and how their peers are numbered.
struct Repetition {
  Index family_stride = 0, family_peer_stride = 0;  ///< from one segment of a family to the next
  Index repeat = 0;                   ///< whole periods; 0: the pieces cover the whole extent
  Index stride = 0, peer_stride = 0;  ///< elements of mine and of each peer in one period
  Index rest = 0;                     ///< my elements after the last whole period
  Index peers = 1;                    ///< coordinates of the other side
  Index source = 0;                   ///< coordinate that owns block 0 of the other side
};

/// The input of the algorithms, and the repetition to which their pieces refer.
struct Prepared {
  Distribution mine, theirs;  ///< in round-robin order: their source is 0
  Index me = 0;
  Repetition repetition;
};

/// Makes lists of pieces, one for each peer. The cost is proportional to the number of pieces,
/// however many coordinates the other side has. Its memory is reused.
class OverlapsBuilder {
public:
  /// Builds the lists with the algorithm ASPEN.
  void build(const Prepared& prepared);
  /// Empties and returns the buffer to which another algorithm appends its pieces.
  std::vector<Piece>& pieces() {
    pieces_.clear();
    return pieces_;
  }
  /// Builds the lists from pieces().  @pre the peers of the pieces ascend
  void build_from_pieces(const Repetition& repetition, Index steps);

  Overlaps& result() { return result_; }

private:
  struct Key {
    Index peer;
    std::uint32_t piece;  ///< number of the piece, below most_pieces
  };
  void begin(const Repetition& repetition);
  void build_dense(const Prepared& prepared);
  void build_sparse(const Prepared& prepared);
  void sort_keys(Index peers);
  template <class Keys, class PieceOf>
  void group(const Keys& sorted, PieceOf&& piece_of);
  void reserve(std::size_t families, std::size_t lists);
  void add_list(Index coordinate, std::size_t begin, std::size_t end);

  Repetition repetition_;
  Overlaps result_;
  std::vector<Piece> pieces_;
  std::vector<Key> keys_, other_keys_;  ///< sort keys of pieces_, and the buffer to sort into
  std::vector<std::uint32_t> places_;   ///< shape: [peer in round-robin order], or [digit]
};

}  // namespace tremula::index_calc
