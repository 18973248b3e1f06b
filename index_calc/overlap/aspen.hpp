// SPDX-License-Identifier: Apache-2.0
#pragma once
// ASPEN, the adjacency-shift algorithm: one pass over my blocks yields the pieces for all peers. A
// block [s, e) of mine begins at `offset = s mod B` in block `s div B` of theirs. Its first piece
// has min(B - offset, e - s) elements; every further piece has at most B and belongs to the next
// coordinate. There is no search for blocks of theirs. From one block of mine to the next,
// (s div B, s mod B) moves by a constant, so a pass divides once, and a piece costs an addition and
// a comparison.
//
// This implementation goes beyond the paper in three ways. Blocks of one side that are inside one
// block of the other, round after round, are stored as one family. Blocks that have either n or
// n + 1 pieces are cut without a branch; in fine layouts, for example, they reach into at most two
// blocks of theirs. Either side may be Splits, whose blocks are merged in ascending order.
//
// Source: ASPEN paper, Eq. (4).
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <type_traits>
#include <vector>

#include "index_calc/layout/blocks.hpp"

namespace tremula::index_calc::aspen {

/// Returns `value` if `is_so`, else 0, in a form that the compiler does not turn into a branch.
inline Index when(bool is_so, Index value) { return value & -Index{is_so}; }

/// A position in the blocks of theirs, or the distance from one position to another.
struct Position {
  Index offset = 0;  ///< offset in the block
  Index peer = 0;    ///< coordinate that owns the block
  Index begin = 0;   ///< local index of the block's first element

  /// Returns the position of `index`. Divides only if it must, because short layouts spend all
  /// their time in set-up.
  static Position at(Index index, const BlockCyclic& d) {
    if (index < d.block) return {.offset = index};
    const Index turn = index / d.block, offset = index - turn * d.block;
    if (turn < d.grid) return {.offset = offset, .peer = turn};
    const Index round = turn / d.grid;
    return {.offset = offset, .peer = turn - round * d.grid, .begin = round * d.block};
  }
  void move(const Position& by, Index block, Index grid) {
    // With a cut, the sum of the two may need 64 bits.
    const auto sum = static_cast<std::uint64_t>(offset) + static_cast<std::uint64_t>(by.offset);
    const bool carries = sum >= static_cast<std::uint64_t>(block);
    offset = static_cast<Index>(sum - static_cast<std::uint64_t>(when(carries, block)));
    peer += by.peer + Index{carries};
    const bool wraps = peer >= grid;
    peer -= when(wraps, grid);
    begin += by.begin + when(wraps, block);
  }
};

/// A position in the blocks of theirs.
class DealtCursor {
public:
  explicit DealtCursor(const BlockCyclic& d)
      : d_(d), round_(saturating_product(d.block, d.grid)), base_{.offset = d.cut} {}

  /// Moves to element `at`. Divides only if the distance from the last seek differs from the
  /// previous distance.
  void seek(Index at) {
    if (at - sought_ != hop_) {
      hop_ = at - sought_;
      by_ = Position::at(hop_, d_);
    }
    sought_ = at;
    base_.move(by_, d_.block, d_.grid);
    now_ = base_;
  }
  void next() {
    now_.offset = 0;
    if (++now_.peer == d_.grid) now_.peer = 0, now_.begin += d_.block;
  }
  Index peer() const { return now_.peer; }
  Index local() const { return now_.begin + now_.offset - when(now_.peer == 0, d_.cut); }
  Index left() const { return d_.block - now_.offset; }

  Index block() const { return d_.block; }
  Index grid() const { return d_.grid; }
  Index round() const { return round_; }

private:
  BlockCyclic d_;
  Index round_;
  Index sought_ = 0, hop_ = 0;
  Position base_, by_, now_;
};

/// A position in the intervals of theirs.
/// @pre the distribution outlives the object
class SplitsCursor {
public:
  explicit SplitsCursor(const Splits& d) : d_(d), local_begin_(d.owner.size()) {
    // The intervals are sorted by owner, not added up per owner, because there may be far more
    // coordinates than intervals.
    std::vector<std::size_t> order(d.owner.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return d.owner[a] < d.owner[b]; });
    for (std::size_t k = 1; k < order.size(); ++k) {
      const std::size_t before = order[k - 1], here = order[k];
      if (d.owner[before] == d.owner[here])
        local_begin_[here] = local_begin_[before] + d.bounds[before + 1] - d.bounds[before];
    }
  }

  /// Moves to element `at`.  @pre at is not before the last seek
  void seek(Index at) {
    const auto from = d_.bounds.begin() + static_cast<std::ptrdiff_t>(interval_) + 1;
    interval_ =
        static_cast<std::size_t>(std::upper_bound(from, d_.bounds.end(), at) - d_.bounds.begin()) -
        1;
    offset_ = at - d_.bounds[interval_];
  }
  void next() { ++interval_, offset_ = 0; }
  Index peer() const { return d_.owner[interval_]; }
  Index local() const { return local_begin_[interval_] + offset_; }
  Index left() const { return d_.bounds[interval_ + 1] - d_.bounds[interval_] - offset_; }

private:
  const Splits& d_;
  std::vector<Index> local_begin_;  ///< local index of the first element of each interval
  std::size_t interval_ = 0;
  Index offset_ = 0;
};

/// Puts the pieces of the `left` elements of mine that begin at `local`: one family for each peer,
/// and the rest of the last block.
/// @pre a block of theirs begins there, and more than one round of theirs follows
template <class Sink>
void put_rounds(DealtCursor& theirs, Index local, Index left, Sink& sink) {
  const Index rounds = left / theirs.round();
  left -= rounds * theirs.round();
  for (Index k = 0; k < theirs.grid(); ++k, local += theirs.block(), theirs.next()) {
    const bool once_more = left >= theirs.block();
    sink.put(theirs.peer(), local, theirs.local(), theirs.block(), rounds + once_more);
    if (!once_more && left > 0)
      sink.put(theirs.peer(), local + rounds * theirs.round(),
               theirs.local() + rounds * theirs.block(), left, 1);
    left = once_more ? left - theirs.block() : 0;
  }
}

template <class Blocks, class Cursor, class Sink>
Index walk(Blocks mine, Cursor theirs, Sink& sink) {
  Index steps = 0;
  for (; !mine.is_at_end(); mine.next()) {
    ++steps;
    theirs.seek(mine.begin);
    Index local = mine.local, left = mine.end - mine.begin, count = 1;
    Index length = std::min(left, theirs.left());
    if constexpr (std::is_same_v<Blocks, DealtBlocks>) {
      // Count further blocks of mine that are in the same block of theirs.
      if (length == left && mine.is_whole()) {
        const Index more = mine.whole_blocks_within(theirs.left() - length);
        mine.skip(more);
        count += more;
      }
    }
    sink.put(theirs.peer(), local, theirs.local(), length, count);
    while ((left -= length) > 0) {
      local += length;
      theirs.next();
      if constexpr (std::is_same_v<Cursor, DealtCursor>) {
        if (left > theirs.round()) {
          put_rounds(theirs, local, left, sink);
          break;
        }
      }
      length = std::min(left, theirs.left());
      sink.put(theirs.peer(), local, theirs.local(), length, 1);
    }
  }
  return steps;
}

/// Puts `length` elements of mine, the first at `at`, piece by piece, for any layout of theirs.
template <class Sink>
void put_block(Position at, Index length, Index local, const BlockCyclic& theirs, Sink& sink) {
  while (true) {
    const Index piece = std::min(length, theirs.block - at.offset);
    sink.put(at.peer, local, at.begin + at.offset, piece, 1);
    if ((length -= piece) == 0) return;
    local += piece;
    at.offset = 0;
    if (++at.peer == theirs.grid) at.peer = 0, at.begin += theirs.block;
  }
}

/// Walks layouts in which no two blocks of mine are in one block of theirs, and no block of mine
/// holds more than a round of theirs. A block of mine then has ceil(b / B) pieces or one more. A
/// branch predictor cannot predict which, so the loop has no branch for it.
/// @tparam is_short  b <= B: the first piece may be the only one
/// @pre b > B or B <= round of mine; b <= round of theirs; neither has a cut
template <bool is_short, class Sink>
Index walk_mixed_blocks(const BlockCyclic& mine, Index me, const BlockCyclic& theirs, Sink& out) {
  Sink sink = out;  // a copy, which stays in registers
  const Index begin = saturating_product(mine.block, me);
  if (begin >= mine.extent) return 0;
  const Index round = saturating_product(mine.block, mine.grid);
  const Index blocks = (mine.extent - begin - 1) / round + 1;
  const Index block = mine.block, their_block = theirs.block, grid = theirs.grid;
  const Index pieces = is_short ? 1 : (block - 1) / their_block + 1;
  const Position by = Position::at(round, theirs);
  Position position = Position::at(begin, theirs);
  Index local = 0;
  for (Index k = 1; k < blocks; ++k, local += block) {
    const Index first = std::min(block, their_block - position.offset);
    sink.put(position.peer, local, position.begin + position.offset, first, 1);
    Index left = block - first, peer = position.peer, peer_block = position.begin;
    const auto next = [&] {
      const bool wraps = ++peer == grid;
      peer -= when(wraps, grid);
      peer_block += when(wraps, their_block);
    };
    next();
    for (Index i = 1; i < pieces; ++i, next()) {
      const Index length = std::min(left, their_block);
      sink.put(peer, local + block - left, peer_block, length, 1);
      left -= length;
    }
    sink.put_if(left > 0, peer, local + block - left, peer_block, left, 1);
    position.move(by, their_block, grid);
  }
  const Index last = begin + (blocks - 1) * round;
  put_block(position, std::min(block, mine.extent - last), local, theirs, sink);
  out = sink;
  return blocks;
}

/// Walks layouts in which every block of theirs holds several blocks of mine: a family, and
/// possibly one more block that reaches into the next block of theirs. In a block of theirs, the
/// first block of mine begins at `offset`. From one block of theirs to the next, `offset` moves by
/// a constant, modulo the round of mine.
/// @pre round of mine < B; neither has a cut
template <class Sink>
Index walk_small_blocks(const BlockCyclic& mine, Index me, const BlockCyclic& theirs, Sink& sink) {
  const Index round = mine.block * mine.grid, begin = mine.block * me;
  if (begin >= mine.extent) return 0;
  const Index blocks = (mine.extent - begin - 1) / round + 1;
  const Index least = theirs.block / round, rest = theirs.block % round;
  const Index last_length = mine.extent - begin - (blocks - 1) * round;
  const bool is_cut = last_length < mine.block;
  Index steps = 0, local = 0, offset = begin, peer = 0, peer_block = 0;
  for (Index left = blocks - (is_cut ? 1 : 0); left > 0; ++steps) {
    const Index here = std::min(left, least + (offset < rest ? 1 : 0));
    const Index last = offset + (here - 1) * round, room = theirs.block - mine.block;
    const bool crosses = last > room;
    const Index reach = when(crosses, last - room);
    const Index whole = here - (crosses ? 1 : 0);
    sink.put_if(whole > 0, peer, local, peer_block + offset, mine.block, whole);
    const Index cut = local + whole * mine.block;
    sink.put_if(crosses, peer, cut, peer_block + last, mine.block - reach, 1);
    const bool is_over = last >= theirs.block - round;
    const bool wraps = is_over && peer + 1 == theirs.grid;
    peer = wraps ? 0 : peer + (is_over ? 1 : 0);
    peer_block += wraps ? theirs.block : 0;
    sink.put_if(crosses, peer, cut + mine.block - reach, peer_block, reach, 1);
    left -= here;
    local += here * mine.block;
    offset = is_over ? last - (theirs.block - round) : last + round;
  }
  if (!is_cut) return steps;
  put_block({.offset = offset, .peer = peer, .begin = peer_block}, last_length, local, theirs,
            sink);
  return steps + 1;
}

/// Passes all pieces of coordinate `me` of `mine` to `sink`, for each peer in ascending global
/// order:
///
///     put(peer, begin, peer_begin, length, count)         count = segments of the family
///     put_if(is_there, peer, begin, peer_begin, length, count)
///
/// BlockCyclic dimensions must have source 0, because `me` and `peer` count in round-robin order.
/// Cost: proportional to my blocks and the pieces, and to the intervals of Splits.
/// @return number of blocks of mine looked at, with a family counted as one: N_local of Eq. (4)
template <class Sink>
Index pass(const BlockCyclic& mine, Index me, const BlockCyclic& theirs, Sink& sink) {
  if (mine.cut != 0 || theirs.cut != 0)
    return walk(DealtBlocks(mine, me), DealtCursor(theirs), sink);
  if (saturating_product(mine.block, mine.grid) < theirs.block)
    return walk_small_blocks(mine, me, theirs, sink);
  if (mine.block <= theirs.block) return walk_mixed_blocks<true>(mine, me, theirs, sink);
  if (mine.block <= saturating_product(theirs.block, theirs.grid))
    return walk_mixed_blocks<false>(mine, me, theirs, sink);
  return walk(DealtBlocks(mine, me), DealtCursor(theirs), sink);
}
template <class Sink>
Index pass(const Splits& mine, Index me, const BlockCyclic& theirs, Sink& sink) {
  return walk(SplitsBlocks(mine, me), DealtCursor(theirs), sink);
}
template <class Mine, class Sink>
Index pass(const Mine& mine, Index me, const Splits& theirs, Sink& sink) {
  return walk(blocks_of(mine, me), SplitsCursor(theirs), sink);
}
template <class Sink>
Index pass(const Distribution& mine, Index me, const Distribution& theirs, Sink& sink) {
  return std::visit([&](const auto& a, const auto& b) { return pass(a, me, b, sink); }, mine,
                    theirs);
}

}  // namespace tremula::index_calc::aspen
