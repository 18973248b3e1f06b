// SPDX-License-Identifier: Apache-2.0
#pragma once
// The blocks along one dimension, numbered from 0, in closed form or given by their bounds.
#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "core/types.hpp"

namespace tremula::index_calc {

using core::Index;

/// Block b is [begin(b), begin(b + 1)); blocks of an equal cut or with given bounds may be empty.
/// Only at() allocates.
class BlockCuts {
public:
  /// Returns blocks of `block` elements; `cut` of them are missing at the beginning of the first
  /// block.
  static BlockCuts cyclic(Index extent, Index block, Index cut) {
    return {Kind::cyclic, extent, block, cut};
  }
  /// Returns `count` blocks; block b begins at extent * b div count.
  static BlockCuts equal(Index extent, Index count) { return {Kind::equal, extent, count, 0}; }
  /// Returns blocks with given bounds.
  /// @param bounds  at least one: the first is 0, each is at least the one before, and the last is
  ///                the extent
  static BlockCuts at(std::vector<Index> bounds) {
    BlockCuts cuts(Kind::bounds, bounds.back(), 0, 0);
    cuts.bounds_ = std::make_shared<const std::vector<Index>>(std::move(bounds));
    return cuts;
  }

  Index extent() const noexcept { return extent_; }
  bool is_equal() const noexcept { return kind_ == Kind::equal; }
  /// Returns the `block` of cyclic() or the `count` of equal(); 0 for given bounds.
  Index size_or_count() const noexcept { return number_; }
  /// Returns the bounds of at(), else none. Valid while this object or a copy of it exists.
  std::span<const Index> bounds() const noexcept {
    return bounds_ ? std::span<const Index>(*bounds_) : std::span<const Index>();
  }
  /// Returns the `cut` of cyclic(), else 0.
  Index cut() const noexcept { return cut_; }
  friend bool operator==(const BlockCuts& a, const BlockCuts& b) noexcept {
    return a.kind_ == b.kind_ && a.extent_ == b.extent_ && a.number_ == b.number_ &&
           a.cut_ == b.cut_ && std::ranges::equal(a.bounds(), b.bounds());
  }
  /// Returns the number of blocks; for an equal cut, the number of blocks that may have elements;
  /// for given bounds, without the empty blocks at the end. O(1), or O(log n) for n given bounds.
  Index count() const noexcept {
    if (extent_ == 0) return 0;
    if (kind_ == Kind::equal) return std::min(number_, extent_);
    return block_of(extent_ - 1) + 1;
  }
  /// Returns one more than the largest number of a block with elements, 0 if there is none. In an
  /// equal cut with empty blocks, it is larger than count(). As count()
  Index numbers_end() const noexcept { return extent_ == 0 ? 0 : block_of(extent_ - 1) + 1; }
  Index begin(Index b) const noexcept {
    if (kind_ == Kind::bounds) return (*bounds_)[static_cast<std::size_t>(b)];
    if (kind_ == Kind::equal) return static_cast<Index>(Wide{extent_} * b / number_);
    return static_cast<Index>(std::clamp(Wide{b} * number_ - cut_, Wide{0}, Wide{extent_}));
  }
  Index end(Index b) const noexcept { return begin(b + 1); }
  Index size(Index b) const noexcept { return end(b) - begin(b); }
  /// Returns the block that contains an element. O(1), or O(log n) for n given bounds.
  Index block_of(Index element) const noexcept {
    if (kind_ == Kind::bounds)
      return std::upper_bound(bounds_->begin() + 1, bounds_->end(), element) - bounds_->begin() - 1;
    if (kind_ == Kind::equal)
      return static_cast<Index>((Wide{number_} * (Wide{element} + 1) - 1) / extent_);
    return static_cast<Index>((Wide{element} + cut_) / number_);
  }
  /// Calls visit(b) for the blocks that have elements in [first, end), in ascending order. block_of()
  /// finds the first block; each further block is the next one that is not empty.
  template <class Visit>
  void for_each_between(Index first, Index end, Visit&& visit) const {
    if (first >= end) return;
    for (Index b = block_of(first); begin(b) < end; ++b) {
      if (begin(b) == this->end(b)) b = block_of(begin(b));  // skips empty blocks
      visit(b);
      if (this->end(b) >= end) return;
    }
  }

private:
  __extension__ using Wide = __int128;
  enum class Kind { cyclic, equal, bounds };
  BlockCuts(Kind kind, Index extent, Index number, Index cut)
      : kind_(kind), extent_(extent), number_(number), cut_(cut) {}
  Kind kind_;
  Index extent_, number_, cut_;
  std::shared_ptr<const std::vector<Index>> bounds_;  ///< null if in closed form
};

}  // namespace tremula::index_calc
