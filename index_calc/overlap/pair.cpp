// SPDX-License-Identifier: Apache-2.0
// The segments of one pair of coordinates, without a look at the others.
//
// Where a block of one side holds whole rounds of the other, each such block shares a family with
// the pair. Else, let r = b*P and R = B*Q be the rounds, and y(k) = (me*b + k*r - peer*B) mod R
// where my k-th block begins in the peer's round; a cut moves all blocks of its side back, block 0
// to before the array. It meets the peer exactly if z(k) = (y(k) + b - 1) mod R < W = b + B - 1. So
// the k wanted are those of an arithmetic progression modulo R that fall below W, and from one to
// the next there are at most three different steps (three-gap theorem): the shortest step that
// moves z forward by less than W, the shortest that moves it back by less than W, and both
// together.
//
// Source: Kennedy, Nedeljkovic & Sethi 1995, "A linear-time algorithm for computing the memory
// access sequence in data-parallel programs", for the steps; 1-D access sequence there, pairs of
// blocks here.
#include <algorithm>

#include "index_calc/layout/blocks.hpp"
#include "index_calc/overlap/overlap_builder.hpp"

namespace tremula::index_calc {
namespace {

__extension__ using Wide = __int128;

/// Smallest k >= 0 with low <= k*a mod m <= high; -1 if there is none. Euclid's algorithm on (m,
/// a).
/// @pre 0 <= a < m, 0 <= low <= high < m
Index first_multiple_in(Index a, Index m, Index low, Index high) {
  if (low == 0) return 0;
  if (a == 0) return -1;
  if (a > m - a) return first_multiple_in(m - a, m, m - high, m - low);
  const Index k = low / a + (low % a != 0);
  if (k <= high / a) return k;
  // No multiple of a lies in the range itself, so m must be added j times first: -high <= j*m mod a
  // <= -low.
  const Index j = first_multiple_in(m % a, a, (a - high % a) % a, (a - low % a) % a);
  if (j < 0) return -1;
  return static_cast<Index>((Wide{low} + Wide{m} * j + a - 1) / a);
}

/// The k >= 0 with (start + k*a) mod m < width, ascending.
class Progression {
public:
  /// @pre 0 <= start, a < m; 1 <= width <= m
  Progression(Index start, Index a, Index m, Index width) : width_(width) {
    forward_ = 1 + first_below(a, a, m);
    forward_by_ = static_cast<Index>(Wide{a} * forward_ % m);
    const Index back = (m - a) % m;
    back_ = 1 + first_below(back, back, m);
    back_by_ = static_cast<Index>(Wide{back} * back_ % m);
    k_ = first_below(start, a, m);
    if (k_ >= 0) z_ = static_cast<Index>((Wide{a} * k_ + start) % m);
  }
  /// True when no k below `end` is left.
  bool is_at_end(Index end) const { return k_ < 0 || k_ >= end; }
  Index k() const { return k_; }
  void next() {
    // Not both fit: their difference would be a shorter step back, or on, by less than the width.
    if (forward_by_ < width_ - z_) {
      k_ += forward_, z_ += forward_by_;
    } else if (z_ >= back_by_) {
      k_ += back_, z_ -= back_by_;
    } else {
      k_ += forward_ + back_, z_ += forward_by_ - back_by_;
    }
  }

private:
  /// Smallest k >= 0 with (from + k*a) mod m < width; -1 if there is none.
  Index first_below(Index from, Index a, Index m) const {
    return from < width_ ? 0 : first_multiple_in(a, m, m - from, m - from + width_ - 1);
  }
  Index width_;
  Index forward_ = 0, forward_by_ = 0;  ///< the shortest step of k that moves z on, and how far
  Index back_ = 0, back_by_ = 0;        ///< the shortest step of k that moves z back, and how far
  Index k_ = 0, z_ = 0;
};

/// Elements that the coordinate of this turn would have before its first one if block 0 were whole.
Index lacking_before(const BlockCyclic& d, Index turn) { return turn == 0 ? d.cut : 0; }

/// Calls emit(block, from, to, count) for the blocks of `small` that reach into `big`: [from, to)
/// of `block` does, and so do its next count - 1 successors as a whole.
template <class Emit>
void for_each_in(const Block& big, DealtBlocks small, Emit&& emit) {
  if (small.end <= big.begin) {
    small.skip(small.whole_blocks_within(big.begin - small.end));
    small.next();
  }
  for (; !small.is_at_end() && small.begin < big.end; small.next()) {
    const Index from = std::max(big.begin, small.begin), to = std::min(big.end, small.end);
    const bool begins_whole = from == small.begin && small.is_whole();
    const Index more = begins_whole ? small.whole_blocks_within(big.end - to) : 0;
    emit(small, from, to, 1 + more);
    small.skip(more);
  }
}

/// What is shared with one peer. Wherever a block is looked at, it has a piece.
class Pair {
public:
  Pair(Index me, Index peer, std::vector<Piece>& out) : me_(me), peer_(peer), out_(out) {}

  void operator()(const Splits& mine, const Splits& theirs) const {
    SplitsBlocks a(mine, me_), b(theirs, peer_);
    while (!a.is_at_end() && !b.is_at_end()) {
      const Index from = std::max(a.begin, b.begin), to = std::min(a.end, b.end);
      if (from < to) emit(a, b, from, to, 1);
      a.end <= b.end ? a.next() : b.next();
    }
  }
  void operator()(const Splits& mine, const BlockCyclic& theirs) const {
    in_each_of_mine(mine, theirs);
  }
  void operator()(const BlockCyclic& mine, const Splits& theirs) const {
    in_each_of_theirs(mine, theirs);
  }
  void operator()(const BlockCyclic& mine, const BlockCyclic& theirs) const {
    const Index my_round = saturating_product(mine.block, mine.grid);
    const Index their_round = saturating_product(theirs.block, theirs.grid);
    // Of rounds beyond 63 bits there is hardly more than one, which needs no progression.
    if (theirs.block > my_round || their_round == beyond) return in_each_of_theirs(mine, theirs);
    if (mine.block > their_round || my_round == beyond) return in_each_of_mine(mine, theirs);
    const DealtBlocks their_blocks(theirs, peer_);
    Block block = DealtBlocks(mine, me_);
    if (block.begin == mine.extent || their_blocks.is_at_end()) return;
    const Index lacking = lacking_before(mine, me_), first = block.begin - lacking;
    const Index their_first = their_blocks.begin - lacking_before(theirs, peer_);
    const auto my_blocks = static_cast<Index>((Wide{mine.extent} - first - 1) / my_round + 1);
    Wide z = (Wide{first} - their_first + mine.block - 1) % their_round;
    if (z < 0) z += their_round;
    const Wide width = std::min(Wide{mine.block} + theirs.block - 1, Wide{their_round});
    for (Progression p(static_cast<Index>(z), my_round % their_round, their_round,
                       static_cast<Index>(width));
         !p.is_at_end(my_blocks); p.next()) {
      const auto begin = static_cast<Index>(Wide{my_round} * p.k() + first);
      const Index cut = begin < 0 ? -begin : 0;
      block.begin = begin + cut;
      block.end = block.begin + std::min(mine.block - cut, mine.extent - block.begin);
      block.local = p.k() * mine.block - lacking + cut;
      in_block_of_mine(block, their_blocks);
    }
  }

private:
  void emit(const Block& mine, const Block& theirs, Index from, Index to, Index count) const {
    add(out_, peer_, mine.local + (from - mine.begin), theirs.local + (from - theirs.begin),
        to - from, count);
  }
  void in_block_of_mine(const Block& block, const DealtBlocks& theirs) const {
    for_each_in(block, theirs, [&](const Block& small, Index from, Index to, Index count) {
      emit(block, small, from, to, count);
    });
  }
  template <class Mine>
  void in_each_of_mine(const Mine& mine, const BlockCyclic& theirs) const {
    for (auto block = blocks_of(mine, me_); !block.is_at_end(); block.next())
      in_block_of_mine(block, DealtBlocks(theirs, peer_));
  }
  template <class Theirs>
  void in_each_of_theirs(const BlockCyclic& mine, const Theirs& theirs) const {
    for (auto block = blocks_of(theirs, peer_); !block.is_at_end(); block.next())
      for_each_in(block, DealtBlocks(mine, me_),
                  [&](const Block& small, Index from, Index to, Index count) {
                    emit(small, block, from, to, count);
                  });
  }

  Index me_, peer_;
  std::vector<Piece>& out_;
};

}  // namespace

void pair(const Distribution& mine, Index me, const Distribution& theirs, Index peer,
          std::vector<Piece>& out) {
  std::visit(Pair(me, peer, out), mine, theirs);
}

}  // namespace tremula::index_calc
