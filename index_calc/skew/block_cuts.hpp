// SPDX-License-Identifier: Apache-2.0
#pragma once
// The blocks along one dimension, numbered from 0, in closed form or given by their bounds.
#include <algorithm>
#include <span>

#include "core/types.hpp"

namespace tremula::index_calc {

using core::Index;

/// Block b is [begin(b), begin(b + 1)); blocks of an equal cut may be empty. No call allocates.
class BlockCuts {
public:
  /// Returns blocks of `block` elements; `cut` of them are missing at the beginning of the first
  /// block.
  static BlockCuts cyclic(Index extent, Index block, Index cut) {
    return {Kind::cyclic, extent, block, cut, {}};
  }
  /// Returns `count` blocks; block b begins at extent * b div count.
  static BlockCuts equal(Index extent, Index count) { return {Kind::equal, extent, count, 0, {}}; }
  /// Returns blocks with given bounds.
  /// @param bounds  as in Splits; must outlive this object
  static BlockCuts at(std::span<const Index> bounds) {
    return {Kind::bounds, bounds.back(), 0, 0, bounds};
  }

  Index extent() const noexcept { return extent_; }
  bool is_equal() const noexcept { return kind_ == Kind::equal; }
  /// Returns the `block` of cyclic() or the `count` of equal(); 0 for given bounds.
  Index size_or_count() const noexcept { return number_; }
  /// Returns the `cut` of cyclic(), else 0.
  Index cut() const noexcept { return cut_; }
  friend bool operator==(const BlockCuts& a, const BlockCuts& b) noexcept {
    return a.kind_ == b.kind_ && a.extent_ == b.extent_ && a.number_ == b.number_ &&
           a.cut_ == b.cut_ && std::ranges::equal(a.bounds_, b.bounds_);
  }
  /// Returns the number of blocks; for an equal cut, the number of blocks that may have elements.
  /// O(1)
  Index count() const noexcept {
    if (extent_ == 0) return 0;
    if (kind_ == Kind::equal) return std::min(number_, extent_);
    return block_of(extent_ - 1) + 1;
  }
  Index begin(Index b) const noexcept {
    if (kind_ == Kind::bounds) return bounds_[static_cast<std::size_t>(b)];
    if (kind_ == Kind::equal) return static_cast<Index>(Wide{extent_} * b / number_);
    return static_cast<Index>(std::clamp(Wide{b} * number_ - cut_, Wide{0}, Wide{extent_}));
  }
  Index end(Index b) const noexcept { return begin(b + 1); }
  Index size(Index b) const noexcept { return end(b) - begin(b); }
  /// Returns the block that contains an element. O(1), or O(log n) for n given bounds.
  Index block_of(Index element) const noexcept {
    if (kind_ == Kind::bounds)
      return std::upper_bound(bounds_.begin() + 1, bounds_.end(), element) - bounds_.begin() - 1;
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
  BlockCuts(Kind kind, Index extent, Index number, Index cut, std::span<const Index> bounds)
      : kind_(kind), extent_(extent), number_(number), cut_(cut), bounds_(bounds) {}
  Kind kind_;
  Index extent_, number_, cut_;
  std::span<const Index> bounds_;
};

}  // namespace tremula::index_calc
