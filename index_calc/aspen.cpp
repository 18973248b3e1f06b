// SPDX-License-Identifier: Apache-2.0
// ASPEN, the adjacency-shift algorithm: one pass over my blocks yields the pieces for all peers. A
// block [s, e) of mine begins at `offset = s mod B` in block `s div B` of theirs; its first piece
// has min(B - offset, e - s) elements, every following one at most B and belongs to the next
// coordinate. No block of theirs is looked for, and from one block of mine to the next (s div B, s
// mod B) moves by a constant, so that a piece costs an add and a compare.
//
// Beyond the paper: blocks of one side that lie in one block of the other, round after round, are
// stored as one family; and either side may be Splits, whose blocks are merged onward in ascending
// order.
//
// Source: ASPEN paper, Eq. (4).
#include <algorithm>
#include <numeric>
#include <type_traits>

#include "index_calc/blocks.hpp"
#include "index_calc/overlap_builder.hpp"

namespace tremula::index_calc {
namespace {

/// A place in the dealt blocks of theirs.
class DealtCursor {
public:
  explicit DealtCursor(const BlockCyclic& d)
      : block_(d.block), grid_(d.grid), round_(saturating_product(d.block, d.grid)) {}

  /// Divides only if the way from the last seek is not the same as before that.
  void seek(Index at) {
    if (at - sought_ != hop_) {
      hop_ = at - sought_;
      by_ = {.offset = hop_ % block_,
             .peer = hop_ / block_ % grid_,
             .begin = hop_ / block_ / grid_ * block_};
    }
    sought_ = at;
    base_.offset += by_.offset;
    base_.peer += by_.peer;
    base_.begin += by_.begin;
    if (base_.offset >= block_) base_.offset -= block_, ++base_.peer;
    if (base_.peer >= grid_) base_.peer -= grid_, base_.begin += block_;
    now_ = base_;
  }
  void next() {
    now_.offset = 0;
    if (++now_.peer == grid_) now_.peer = 0, now_.begin += block_;
  }
  Index peer() const { return now_.peer; }
  Index local() const { return now_.begin + now_.offset; }
  Index left() const { return block_ - now_.offset; }

  Index block() const { return block_; }
  Index grid() const { return grid_; }
  Index round() const { return round_; }

private:
  struct Place {
    Index offset = 0;  ///< in the block
    Index peer = 0;    ///< that owns the block
    Index begin = 0;   ///< local index of the block's first element
  };
  Index block_, grid_, round_;
  Index sought_ = 0, hop_ = 0;
  Place base_, by_, now_;
};

/// A place in the intervals of theirs. Refers to the distribution.
class SplitsCursor {
public:
  explicit SplitsCursor(const Splits& d) : d_(d), local_begin_(d.owner.size()) {
    // Sorted by owner instead of summed up per owner: there may be far more coordinates than
    // intervals.
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

  /// @pre not before the last seek
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

DealtCursor cursor_in(const BlockCyclic& d) { return DealtCursor(d); }
SplitsCursor cursor_in(const Splits& d) { return SplitsCursor(d); }

/// The pieces of `left` elements of mine from `local` on, where a block of theirs begins and more
/// than one round of theirs follows: one family for each peer, and what is left of the last block.
void emit_rounds(DealtCursor& theirs, Index local, Index left, std::vector<Piece>& out) {
  const Index rounds = left / theirs.round();
  left -= rounds * theirs.round();
  for (Index k = 0; k < theirs.grid(); ++k, local += theirs.block(), theirs.next()) {
    const bool once_more = left >= theirs.block();
    add(out, theirs.peer(), local, theirs.local(), theirs.block(), rounds + once_more);
    if (!once_more && left > 0)
      add(out, theirs.peer(), local + rounds * theirs.round(),
          theirs.local() + rounds * theirs.block(), left);
    left = once_more ? left - theirs.block() : 0;
  }
}

template <class Blocks, class Cursor>
void walk(Blocks mine, Cursor theirs, std::vector<Piece>& out) {
  for (; !mine.is_at_end(); mine.next()) {
    theirs.seek(mine.begin);
    Index local = mine.local, left = mine.end - mine.begin;
    Index length = std::min(left, theirs.left());
    add(out, theirs.peer(), local, theirs.local(), length);
    if constexpr (std::is_same_v<Blocks, DealtBlocks>) {
      // How many more blocks of mine lie in the same block of theirs?
      if (length == left) {
        const Index more = mine.whole_blocks_within(theirs.left() - length);
        out.back().family.count += more;
        mine.skip(more);
      }
    }
    while ((left -= length) > 0) {
      local += length;
      theirs.next();
      if constexpr (std::is_same_v<Cursor, DealtCursor>) {
        if (left > theirs.round()) {
          emit_rounds(theirs, local, left, out);
          break;
        }
      }
      length = std::min(left, theirs.left());
      add(out, theirs.peer(), local, theirs.local(), length);
    }
  }
}

}  // namespace

void aspen(const Distribution& mine, Index me, const Distribution& theirs,
           std::vector<Piece>& out) {
  std::visit([&](const auto& a, const auto& b) { walk(blocks_of(a, me), cursor_in(b), out); }, mine,
             theirs);
}

}  // namespace tremula::index_calc
