// SPDX-License-Identifier: Apache-2.0
// Splits on at least one side: my blocks in ascending order, and a cursor in theirs that only moves
// onward.
#include <algorithm>
#include <numeric>

#include "index_calc/blocks.hpp"
#include "index_calc/overlap_builder.hpp"

namespace tremula::index_calc {
namespace {

/// A cursor in the dealt blocks of theirs: one division per seek, none per step.
class DealtCursor {
public:
  explicit DealtCursor(const BlockCyclic& d) : d_(d) {}

  void seek(Index at) {
    const Index block = at / d_.block;
    round_begin_ = block / d_.grid * d_.block;
    turn_ = block % d_.grid;
    offset_ = at % d_.block;
  }
  Index peer() const {
    return turn_ < d_.grid - d_.source ? turn_ + d_.source : turn_ - (d_.grid - d_.source);
  }
  Index local() const { return round_begin_ + offset_; }
  Index left() const { return d_.block - offset_; }
  void next() {
    offset_ = 0;
    if (++turn_ == d_.grid) turn_ = 0, round_begin_ += d_.block;
  }

private:
  const BlockCyclic& d_;
  Index round_begin_ = 0, turn_ = 0, offset_ = 0;
};

/// A cursor in the intervals of theirs.
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

  void seek(Index at) {
    const auto from = d_.bounds.begin() + static_cast<std::ptrdiff_t>(interval_) + 1;
    interval_ =
        static_cast<std::size_t>(std::upper_bound(from, d_.bounds.end(), at) - d_.bounds.begin()) -
        1;
    offset_ = at - d_.bounds[interval_];
  }
  Index peer() const { return d_.owner[interval_]; }
  Index local() const { return local_begin_[interval_] + offset_; }
  Index left() const { return d_.bounds[interval_ + 1] - d_.bounds[interval_] - offset_; }
  void next() { ++interval_, offset_ = 0; }

private:
  const Splits& d_;
  std::vector<Index> local_begin_;  ///< local index of the first element of each interval
  std::size_t interval_ = 0;
  Index offset_ = 0;
};

template <class Cursor>
void merge_with(Blocks mine, Cursor theirs, std::vector<Piece>& out) {
  for (; !mine.is_at_end(); mine.next()) {
    Index local = mine.local, left = mine.end - mine.begin;
    theirs.seek(mine.begin);
    for (;;) {
      const Index length = std::min(left, theirs.left());
      out.push_back({theirs.peer(), {{local}, {theirs.local()}, length}});
      local += length;
      left -= length;
      if (left == 0) break;
      theirs.next();
    }
  }
}

}  // namespace

void merge(const Distribution& mine, GridCoord me, const Distribution& theirs,
           std::vector<Piece>& out) {
  const Blocks blocks(mine, me);
  if (const auto* dealt = std::get_if<BlockCyclic>(&theirs))
    merge_with(blocks, DealtCursor(*dealt), out);
  else
    merge_with(blocks, SplitsCursor(std::get<Splits>(theirs)), out);
}

}  // namespace tremula::index_calc
