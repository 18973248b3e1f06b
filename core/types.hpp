// SPDX-License-Identifier: Apache-2.0
#pragma once
// Types that every room uses.
#include <algorithm>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <type_traits>
#include <vector>

namespace tremula::core {

/// Counts, extents and offsets in elements. Signed, so that differences are safe; 64 bits, so that
/// an array may have more than 2^31 elements.
using Index = std::int64_t;

struct RankKind;
/// An index of one kind. Two kinds never mix without a named conversion (below for ranks, and in
/// index_calc/layout/distribution.hpp). Only ranks can be incremented, for loops over them.
template <class Kind, class Value = Index>
struct Tagged {
  Value value = 0;
  friend constexpr auto operator<=>(Tagged, Tagged) = default;
  constexpr Tagged& operator++() noexcept requires std::same_as<Kind, RankKind> {
    ++value;
    return *this;
  }
};
using GlobalIndex = Tagged<struct GlobalKind>;  ///< position in the whole array, 0-based
using LocalIndex =
    Tagged<struct LocalKind>;  ///< position in the part that one rank stores, 0-based
using GridCoord =
    Tagged<struct GridKind>;  ///< position in one dimension of a process grid, 0-based

/// Position of a process in its own group, 0-based.
using Rank = Tagged<RankKind, std::int32_t>;
static_assert(sizeof(Rank) == sizeof(std::int32_t) && std::is_trivially_copyable_v<Rank>);
/// A count of processes, or of things no more numerous than processes (copies, layers, cells,
/// hosts, places); also the 0-based number of one of these.
using RankCount = std::int32_t;

/// Returns the place of a rank in a container that has one entry for each.
constexpr std::size_t at(Rank rank) noexcept { return static_cast<std::size_t>(rank.value); }
/// Returns the rank at a place of such a container.
/// @pre place < 2^31
constexpr Rank to_rank(std::size_t place) noexcept { return {static_cast<std::int32_t>(place)}; }

/// Returns the ranks 0 to count - 1 in ascending order; none if count <= 0.
inline auto all_ranks(RankCount count) {
  return std::views::iota(RankCount{0}, std::max(count, RankCount{0})) |
         std::views::transform([](RankCount number) { return Rank{number}; });
}

using Bytes = std::vector<std::byte>;
using BytesView = std::span<const std::byte>;

}  // namespace tremula::core
