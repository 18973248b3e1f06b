// SPDX-License-Identifier: Apache-2.0
#pragma once
// Owners in closed form: the block with the numbers (b0, b1, ...) belongs to the ranks whose coordinates
// on the axes of a mesh are
//
//     owner_e = (sum of factor * (b_d div divisor) + constant) mod ranks_e
//
// From a block to the next one along a dimension a coordinate moves by a constant, at every block or at
// every `divisor`-th one. An outer product of block-cyclic dimensions is the case of one dimension for
// each axis; a sum of several skews the blocks.
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.hpp"

namespace tremula::index_calc {

using core::Index;

/// factor * (b div divisor), b the number of a block along `dimension`.
struct OwnerTerm {
  std::size_t dimension = 0;
  Index divisor = 1;  ///< >= 1
  Index factor = 1;   ///< not 0; may be negative
  friend bool operator==(const OwnerTerm&, const OwnerTerm&) = default;
};

/// (sum of the terms + constant) modulo the ranks along an axis, from 0 on.
struct OwnerExpression {
  std::vector<OwnerTerm> terms{};  ///< none: the same coordinate for all blocks
  Index constant = 0;
  friend bool operator==(const OwnerExpression&, const OwnerExpression&) = default;
};

/// What a layout has beyond its shape and its mesh where owners are expressions. A few bytes, whatever
/// the blocks and the ranks.
struct Skew {
  /// Blocks into which a dimension of n elements is cut, block i from n * i div k on; 0: it is cut as its
  /// distribution says. Shape: [dimension]
  std::vector<Index> equal{};
  /// Shape: [axis of the mesh]; none: the axis makes copies.
  std::vector<std::optional<OwnerExpression>> owners{};
  friend bool operator==(const Skew&, const Skew&) = default;
};

inline constexpr std::size_t max_owner_axes = 8, max_owner_terms = 16;
/// Of factors, constants and divisors, without their signs.
inline constexpr Index max_owner_number = (Index{1} << 31) - 1;

/// As parse_owner reads it: "b0/2-b1*3+1".
std::string to_string(const OwnerExpression& owner);

/// Terms of block numbers and one constant at most, in any order, with signs: `b0/2` is b0 div 2, `b1*3`
/// three times b1, `b0/2*3` three times b0 div 2.
/// @param fail  throws; is told the 0-based character of the mistake and what was expected there
OwnerExpression parse_owner(std::string_view text,
                            const std::function<void(std::size_t, std::string_view)>& fail);

/// That there is an owner for an axis, and that all numbers are in their ranges.
/// @throws core::Error invalid_argument naming the broken condition
void validate(const Skew& skew, std::size_t dimensions, std::size_t axes);

}  // namespace tremula::index_calc
