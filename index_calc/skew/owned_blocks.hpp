// SPDX-License-Identifier: Apache-2.0
#pragma once
// The blocks that a rank of a skewed layout owns, and where it stores them: one after the other in
// ascending block number (row order of the numbers), each block dense.
//
// The coordinate on an axis is a sum over the dimensions. So the blocks along the last dimension of such
// a sum are sorted by their contribution. Whatever the blocks of the preceding dimensions contribute, the
// blocks that complete a given coordinate are adjacent in that order, so no block of another rank is
// examined. The elements before a block along that dimension are counted once for all ranks.
//
// If a coordinate is the entry of a table, the blocks along the last dimension are sorted by it for
// each row of the table, so all rows of blocks that repeat a row of the table share one order.
#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "index_calc/skew/block_cuts.hpp"
#include "index_calc/skew/skew.hpp"

namespace tremula::index_calc {

inline constexpr std::size_t max_block_dimensions = 8;
/// The numbers of a block along each dimension.
using BlockNumbers = std::array<Index, max_block_dimensions>;
/// The coordinates on each axis that has an owner, in the order of the axes.
using OwnerCoords = std::array<Index, max_owner_axes>;

class OwnedBlocks {
public:
  struct Axis {
    BlockOwner owner;
    Index ranks = 1;
  };
  /// @throws core::Error unsupported if a dimension has more than 2^24 blocks, or the last one more
  ///         than 2^24 divided by the number of different rows of the tables
  /// Cost: time and memory proportional to the blocks along each dimension, not to their product; for
  /// the last one, multiplied by the number of different rows of the tables.
  OwnedBlocks(std::vector<BlockCuts> cuts, std::vector<Axis> axes);

  const BlockCuts& cuts(std::size_t dimension) const { return cuts_[dimension]; }
  std::size_t dimensions() const noexcept { return cuts_.size(); }
  OwnerCoords owner_of(const BlockNumbers& block) const;
  /// Returns the number of elements of each rank at these coordinates.
  /// Cost: that of for_each_block, without the blocks of the last dimension.
  Index elements(const OwnerCoords& owner) const;
  /// Returns the number of blocks at these coordinates that are not empty. Cost: as elements().
  Index count(const OwnerCoords& owner) const;

  /// Calls visit(numbers) for each block at these coordinates that is not empty, in ascending order.
  /// Cost: proportional to the number of these blocks, plus the number of rows that may contain one of
  /// them. A row consists of all blocks with the same numbers along all dimensions but the last.
  template <class Visit>
  void for_each_block(const OwnerCoords& owner, Visit&& visit) const {
    for_each_row(owner, [&](BlockNumbers numbers, Index, std::span<const Block> blocks) {
      for (const Block& b : blocks) {
        numbers[dimensions() - 1] = b.number;
        visit(std::as_const(numbers));
      }
    });
  }

  /// The places of the blocks in the buffers of the ranks at given coordinates.
  class Places {
  public:
    /// @param blocks  must outlive this object
    /// Cost: that of elements(); memory 16 bytes for each row of blocks.
    Places(const OwnedBlocks& blocks, const OwnerCoords& owner);
    /// Returns the place of the block's first element in the buffer. Cost: a logarithm.
    /// @pre the block belongs to these coordinates and is not empty
    Index of(const BlockNumbers& block) const;

  private:
    struct Row {
      Index number = 0;  ///< ascends with the numbers of its blocks, without the last
      Index before = 0;  ///< elements of the preceding rows
    };
    const OwnedBlocks& blocks_;
    std::vector<Row> rows_;
  };

private:
  /// A block along one dimension.
  struct Block {
    /// Row of the tables, then the terms in the coordinates that end with this dimension, as one
    /// number
    Index key = 0;
    Index number = 0;
    Index before = 0;  ///< elements along this dimension of the earlier blocks with this key
  };
  struct Owner {
    BlockOwner rule;
    Index ranks = 1;
    std::size_t last = 0;      ///< last dimension on which it depends
    bool is_constant = false;  ///< depends on none
    Index constant = 0;        ///< of its expression, 0 to ranks - 1
  };

  /// Return what a block along a dimension adds to the coordinates, or to one of them. A table adds its
  /// entry with the last dimension.
  /// @param block  only its numbers along `dimension` and, for a table, the preceding ones count
  OwnerCoords added(std::size_t dimension, const BlockNumbers& block) const;
  Index added(const Owner& owner, std::size_t dimension, const BlockNumbers& block) const;
  /// Returns the number of the row of the tables that a row of blocks repeats, 0-based.
  Index table_row(const BlockNumbers& block) const;
  /// Returns the numbers of the first block that repeats this row of the tables; the last is 0.
  BlockNumbers first_in_row(Index row) const;
  /// Adds an owner, and its table to period_.
  void add(Axis axis);
  /// Sorts the blocks along a dimension, for each of `rows` rows of the tables.
  void sort_blocks(std::size_t dimension, Index rows);
  Index key_of(std::size_t dimension, const OwnerCoords& added, Index row) const;
  /// Returns the number of elements of a row of blocks along all dimensions but the last.
  Index thickness(const BlockNumbers& block) const;
  Index row_number(const BlockNumbers& block) const;
  std::span<const Block> with_key(std::size_t dimension, Index key) const;

  /// Calls visit(numbers, thickness, blocks along the last dimension) for each row of blocks.
  template <class Visit>
  void for_each_row(const OwnerCoords& owner, Visit&& visit) const {
    if (std::ranges::any_of(cuts_, [](const BlockCuts& c) { return c.extent() == 0; })) return;
    OwnerCoords missing{};
    for (std::size_t e = 0; e < owners_.size(); ++e) {
      missing[e] = reduced(owner[e] - owners_[e].constant, owners_[e].ranks);
      if (owners_[e].is_constant && missing[e] != 0) return;
    }
    BlockNumbers numbers{};
    const auto walk = [&](const auto& deeper, std::size_t d, const OwnerCoords& left) -> void {
      const bool is_last = d + 1 == dimensions();
      const auto blocks = with_key(d, key_of(d, left, is_last ? table_row(numbers) : 0));
      if (blocks.empty()) return;
      if (is_last) return visit(numbers, thickness(numbers), blocks);
      for (const Block& b : blocks) {
        numbers[d] = b.number;
        const OwnerCoords more = added(d, numbers);
        OwnerCoords rest = left;
        for (std::size_t e = 0; e < owners_.size(); ++e)
          rest[e] = reduced(left[e] - more[e], owners_[e].ranks);
        deeper(deeper, d + 1, rest);
      }
    };
    walk(walk, 0, missing);
  }
  static Index reduced(Index value, Index ranks) noexcept {
    const Index rest = value % ranks;
    return rest < 0 ? rest + ranks : rest;
  }

  std::vector<BlockCuts> cuts_;
  std::vector<Owner> owners_;
  /// After how many blocks the rows of all tables repeat; shape: [dimension without the last]
  std::vector<Index> period_;
  std::vector<std::vector<Block>> blocks_;  ///< shape: [dimension]; ascending by key and number
};

}  // namespace tremula::index_calc
