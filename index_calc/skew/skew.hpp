// SPDX-License-Identifier: Apache-2.0
#pragma once
// Owners in closed form: the block with the numbers (b0, b1, ...) belongs to the ranks whose coordinates
// on the axes of a mesh are
//
//     owner_e = (sum of factor * (b_d div divisor) + constant) mod ranks_e
//
// From one block to the next along a dimension, a coordinate moves by a constant, at every block or
// at every `divisor`-th block. An outer product of block-cyclic dimensions is the case of one
// dimension per axis; a sum over several dimensions skews the blocks.
#include <functional>
#include <string>
#include <string_view>
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

inline constexpr std::size_t max_owner_axes = 8, max_owner_terms = 16;
/// Largest absolute value of factors, constants and divisors.
inline constexpr Index max_owner_number = (Index{1} << 31) - 1;

/// Returns the text that parse_owner reads, e.g. "b0/2-b1*3+1".
std::string to_string(const OwnerExpression& owner);

/// Reads terms of block numbers and at most one constant, in any order, with signs: `b0/2` is b0 div 2,
/// `b1*3` three times b1, `b0/2*3` three times b0 div 2.
/// @param fail  gets the 0-based position of the mistake and what was expected there; must throw
OwnerExpression parse_owner(std::string_view text,
                            const std::function<void(std::size_t, std::string_view)>& fail);

/// Checks the numbers and the dimensions of an owner.
/// @param axis  for the error text
/// @throws core::Error invalid_argument naming the broken condition
void validate(const OwnerExpression& owner, std::size_t dimensions, std::size_t axis);

}  // namespace tremula::index_calc
