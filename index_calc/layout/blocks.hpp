// SPDX-License-Identifier: Apache-2.0
#pragma once
// Iterates over the blocks of one coordinate; private to this room.
#include <algorithm>
#include <limits>
#include <span>
#include <variant>

#include "index_calc/layout/distribution.hpp"

namespace tremula::index_calc {

/// An index that no element has.
inline constexpr Index beyond = std::numeric_limits<Index>::max();

/// Returns a * b for a, b >= 0; `beyond` if the product exceeds 63 bits.
inline Index saturating_product(Index a, Index b) noexcept {
  Index result = 0;
  return __builtin_mul_overflow(a, b, &result) ? beyond : result;
}

/// Returns a + b for a, b >= 0; `beyond` if the sum exceeds 63 bits.
inline Index saturating_sum(Index a, Index b) noexcept {
  Index result = 0;
  return __builtin_add_overflow(a, b, &result) ? beyond : result;
}

/// Returns the number of elements of an array; `beyond` if it exceeds 63 bits. An array with an
/// extent of 0 has none, however large its other extents are.
inline Index elements_of(std::span<const Index> shape) noexcept {
  Index elements = 1;
  for (const Index extent : shape) elements = saturating_product(elements, extent);
  return elements;
}

/// The position of a walk over the blocks of one coordinate: the block is [begin, end), and its
/// first element has local index `local`. begin == extent after the last block.
struct Block {
  Index begin = 0, end = 0, local = 0;
};

/// The position of a walk over the blocks of a BlockCyclic distribution.
/// @pre the distribution has source 0
class DealtBlocks : public Block {
public:
  DealtBlocks(const BlockCyclic& d, Index turn)
      : extent_(d.extent),
        block_(d.block),
        round_(saturating_product(d.block, d.grid)),
        gap_(saturating_product(d.block, d.grid - 1)) {
    end = std::min(d.block - d.cut, extent_);
    if (turn > 0) move_on(saturating_product(d.block, turn - 1));
  }
  bool is_at_end() const { return begin == extent_; }
  /// Returns whether the block is cut neither by the beginning nor by the end of the extent.
  bool is_whole() const { return end - begin == block_; }
  void next() {
    local += end - begin;
    move_on(gap_);
  }
  /// Returns how many whole blocks of this coordinate are in the `room` elements after this block.
  /// Divides only if there are any.
  Index whole_blocks_within(Index room) const {
    room = std::min(room, extent_ - end);
    return room < round_ ? 0 : room / round_;
  }
  /// Moves on by `blocks` blocks.  @pre at least that many whole blocks follow
  void skip(Index blocks) {
    if (blocks == 0) return;
    local += end - begin + (blocks - 1) * block_;
    end += blocks * round_;
    begin = end - block_;
  }

private:
  /// Moves to the block that begins `gap` elements after the end of this one.
  void move_on(Index gap) {
    begin = extent_ - end <= gap ? extent_ : end + gap;
    end = begin + std::min(block_, extent_ - begin);
  }
  Index extent_, block_, round_;
  Index gap_;  ///< elements between two blocks; not round_ - block_ if round_ is saturated
};

/// The position of a walk over the intervals of a Splits distribution.
/// @pre the distribution outlives the object
class SplitsBlocks : public Block {
public:
  SplitsBlocks(const Splits& d, Index coordinate) : d_(d), coordinate_(coordinate) { find_from(0); }
  bool is_at_end() const { return interval_ == d_.owner.size(); }
  void next() {
    local += end - begin;
    find_from(interval_ + 1);
  }

private:
  void find_from(std::size_t interval) {
    interval_ = interval;
    while (!is_at_end() && d_.owner[interval_] != coordinate_) ++interval_;
    begin = d_.bounds[interval_];
    end = is_at_end() ? begin : d_.bounds[interval_ + 1];
  }

  const Splits& d_;
  Index coordinate_;
  std::size_t interval_ = 0;
};

inline DealtBlocks blocks_of(const BlockCyclic& d, Index turn) { return {d, turn}; }
inline SplitsBlocks blocks_of(const Splits& d, Index coordinate) { return {d, coordinate}; }

/// Calls visit(Block) for the blocks of one coordinate in ascending order. Cost: one pass over the
/// blocks of the coordinate, or over all intervals.
template <class Visit>
void for_each_block(const BlockCyclic& d, GridCoord c, Visit&& visit) {
  const Index turn = (c.value - d.source + d.grid) % d.grid;
  for (DealtBlocks block = blocks_of(d, turn); !block.is_at_end(); block.next()) visit(block);
}
template <class Visit>
void for_each_block(const Splits& d, GridCoord c, Visit&& visit) {
  for (SplitsBlocks block = blocks_of(d, c.value); !block.is_at_end(); block.next()) visit(block);
}
template <class Visit>
void for_each_block(const Distribution& d, GridCoord c, Visit&& visit) {
  std::visit([&](const auto& one) { for_each_block(one, c, visit); }, d);
}

}  // namespace tremula::index_calc
