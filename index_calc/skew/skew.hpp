// SPDX-License-Identifier: Apache-2.0
#pragma once
// Owners that follow from the numbers of blocks: the block (b0, b1, ...) belongs to the ranks whose
// coordinate on each axis of a mesh that has an owner is either an expression
//
//     (sum of factor * (b_d div divisor) + constant) mod ranks
//
// or an entry of a table that is repeated over the grid of blocks. An outer product of block-cyclic
// dimensions is the expression of one dimension per axis; a sum over several dimensions skews the
// blocks; a table as large as the grid of blocks gives each block an owner of its own.
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/types.hpp"

namespace tremula::index_calc {

using core::Index;

/// The term factor * (b div divisor), where b is the number of a block along `dimension`.
struct OwnerTerm {
  std::size_t dimension = 0;
  Index divisor = 1;  ///< >= 1
  Index factor = 1;   ///< not 0; may be negative
  friend bool operator==(const OwnerTerm&, const OwnerTerm&) = default;
};

/// The coordinate (sum of the terms + constant) modulo the ranks along an axis, not negative.
struct OwnerExpression {
  std::vector<OwnerTerm> terms{};  ///< empty if all blocks have the same coordinate
  Index constant = 0;
  friend bool operator==(const OwnerExpression&, const OwnerExpression&) = default;
};

/// A table of coordinates that is repeated over the grid of blocks: block (b0, b1, ...) has the entry
/// (b0 mod extents[0], b1 mod extents[1], ...).
struct OwnerTable {
  std::vector<Index> extents{};  ///< >= 1; shape: [dimension]
  std::vector<Index> entries{};  ///< coordinates, last dimension fastest; shape: extents
  /// Returns the entry of a block.
  /// @param block  at least as many numbers as dimensions
  Index entry_of(std::span<const Index> block) const noexcept {
    Index place = 0;
    for (std::size_t d = 0; d < extents.size(); ++d)
      place = place * extents[d] + block[d] % extents[d];
    return entries[static_cast<std::size_t>(place)];
  }
  friend bool operator==(const OwnerTable&, const OwnerTable&) = default;
};

/// The coordinate of each block on one axis of a mesh: an expression in its numbers, or a table.
using BlockOwner = std::variant<OwnerExpression, OwnerTable>;

inline constexpr std::size_t max_owner_axes = 8, max_owner_terms = 16;
/// The largest absolute value of factors, constants and divisors, and of the extents of tables.
inline constexpr Index max_owner_number = (Index{1} << 31) - 1;

/// Returns the text that parse_owner reads, e.g. "b0/2-b1*3+1" or "2x3:0/1/1/2/0/2".
std::string to_string(const BlockOwner& owner);

/// Reads an expression or a table. An expression consists of terms of block numbers and at most one
/// constant, in any order, with signs: `b0/2` is b0 div 2, `b1*3` three times b1, `b0/2*3` three
/// times b0 div 2. A table consists of its extents with `x` between them, a colon, and its entries
/// with `/` between them, the last dimension fastest: `2x3:0/1/1/2/0/2`.
/// @param fail  gets the 0-based position of the mistake and what was expected there; must throw
BlockOwner parse_owner(std::string_view text,
                       const std::function<void(std::size_t, std::string_view)>& fail);

/// Checks the numbers, the dimensions and the table of an owner.
/// @param ranks  number of ranks along the axis
/// @param axis   for the error text
/// @throws core::Error invalid_argument naming the broken condition
void validate(const BlockOwner& owner, std::size_t dimensions, Index ranks, std::size_t axis);

}  // namespace tremula::index_calc
