// SPDX-License-Identifier: Apache-2.0
#pragma once
// Types that every room uses.
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tremula::core {

/// Counts, extents and offsets in elements. Signed, so that differences are safe; 64 bits, so that
/// an array may have more than 2^31 elements.
using Index = std::int64_t;

/// An index of one kind. Two kinds never mix without a named conversion
/// (index_calc/layout/distribution.hpp).
template <class Kind>
struct Tagged {
  Index value = 0;
  friend constexpr auto operator<=>(Tagged, Tagged) = default;
};
using GlobalIndex = Tagged<struct GlobalKind>;  ///< position in the whole array, 0-based
using LocalIndex =
    Tagged<struct LocalKind>;  ///< position in the part that one rank stores, 0-based
using GridCoord =
    Tagged<struct GridKind>;  ///< position in one dimension of a process grid, 0-based

/// Position of a process in its own group, 0-based.
using Rank = std::int32_t;

using Bytes = std::vector<std::byte>;
using BytesView = std::span<const std::byte>;

}  // namespace tremula::core
