// SPDX-License-Identifier: Apache-2.0
// ASPEN, the adjacency-shift algorithm. A block [s, e) of mine begins at `offset = s mod B` in the
// block `s div B` of theirs; its first piece has min(B - offset, e - s) elements, every following
// one at most B and belongs to the next turn. From one block of mine to the next, (s div B, s mod
// B) moves by a constant: the divisions are made once.
//
// Source: ASPEN paper, Eq. (4).
#include <algorithm>

#include "index_calc/overlap_builder.hpp"

namespace tremula::index_calc {
namespace {

/// A position in the dealt blocks of theirs.
struct Position {
  Index offset = 0;  ///< in the block
  Index turn = 0;    ///< that owns the block
  Index round = 0;   ///< blocks of this turn before it

  Position(const Deal& d, Index at)
      : offset(at % d.block), turn(at / d.block % d.grid), round(at / d.block / d.grid) {}

  void advance(const Position& by, const Deal& d) {
    offset += by.offset;
    turn += by.turn;
    round += by.round;
    if (offset >= d.block) offset -= d.block, ++turn;
    if (turn >= d.grid) turn -= d.grid, ++round;
  }
};

}  // namespace

void aspen(const Deal& mine, Index me, const Deal& theirs, Index end, std::vector<Piece>& out) {
  const Index hop = saturating_product(mine.block, mine.grid);
  Index start = saturating_product(mine.block, me);
  if (start >= end) return;
  Position at(theirs, start);
  const Position by(theirs, hop);
  for (Index local = 0;;) {
    Index left = std::min(mine.block, end - start);
    Index turn = at.turn, block_begin = at.round * theirs.block;
    Index length = std::min(theirs.block - at.offset, left);
    out.push_back({turn, {{local}, {block_begin + at.offset}, length}});
    for (;;) {
      local += length;
      left -= length;
      if (left == 0) break;
      if (++turn == theirs.grid) turn = 0, block_begin += theirs.block;
      length = std::min(theirs.block, left);
      out.push_back({turn, {{local}, {block_begin}, length}});
    }
    if (end - start <= hop) return;
    start += hop;
    at.advance(by, theirs);
  }
}

}  // namespace tremula::index_calc
