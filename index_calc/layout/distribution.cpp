// SPDX-License-Identifier: Apache-2.0
#include "index_calc/layout/distribution.hpp"

#include <algorithm>
#include <cstdint>

#include "index_calc/basics/check.hpp"

namespace tremula::index_calc {
namespace {

/// Calls `action` as std::visit does, but cannot throw.
template <class Action>
auto visit(const Distribution& d, Action&& action) noexcept {
  const auto* dealt = std::get_if<BlockCyclic>(&d);
  return dealt != nullptr ? action(*dealt) : action(*std::get_if<Splits>(&d));
}

void validate_one(const BlockCyclic& d) {
  check(d.extent >= 0, "expected an extent of at least 0, found {}", d.extent);
  check(d.block >= 1, "expected a block of at least 1 element, found {}", d.block);
  check(d.grid >= 1, "expected a grid of at least 1 coordinate, found {}", d.grid);
  check(d.source >= 0 && d.source < d.grid, "expected a source coordinate from 0 to {}, found {}",
        d.grid - 1, d.source);
  check(d.cut >= 0 && d.cut < d.block, "expected a cut from 0 to {}, found {}", d.block - 1, d.cut);
}

void validate_one(const Splits& d) {
  check(d.grid >= 1, "expected a grid of at least 1 coordinate, found {}", d.grid);
  check(!d.bounds.empty(), "expected bounds that begin with 0, found none");
  check(d.bounds.front() == 0, "expected bounds that begin with 0, found {}", d.bounds.front());
  for (std::size_t i = 1; i < d.bounds.size(); ++i)
    check(d.bounds[i - 1] < d.bounds[i],
          "expected bounds that increase, found {} after {}; leave out empty intervals and "
          "their owners",
          d.bounds[i], d.bounds[i - 1]);
  check(d.owner.size() + 1 == d.bounds.size(),
        "expected one owner for each of the {} intervals between {} bounds, found {} owners",
        d.bounds.size() - 1, d.bounds.size(), d.owner.size());
  for (std::size_t i = 0; i < d.owner.size(); ++i)
    check(d.owner[i] >= 0 && d.owner[i] < d.grid,
          "expected owners from 0 to {}, found {} for interval {}", d.grid - 1, d.owner[i], i);
}

/// Returns the position of `c` in round-robin order.
Index turn_of(const BlockCyclic& d, GridCoord c) noexcept {
  return c.value >= d.source ? c.value - d.source : c.value + (d.grid - d.source);
}

/// A distribution whose elements are counted from the position where a whole block 0 would begin.
/// Such positions take 64 bits.
struct Wide {
  explicit Wide(const BlockCyclic& d)
      : block(static_cast<std::uint64_t>(d.block)),
        grid(static_cast<std::uint64_t>(d.grid)),
        cut(static_cast<std::uint64_t>(d.cut)) {}
  std::uint64_t place(Index i) const { return static_cast<std::uint64_t>(i) + cut; }
  /// Returns how many elements the first block of the coordinate with this turn lacks.
  std::uint64_t lacking(std::uint64_t turn) const { return turn == 0 ? cut : 0; }
  std::uint64_t block, grid, cut;
};

Index extent_of(const BlockCyclic& d) noexcept { return d.extent; }

GridCoord owner_in(const BlockCyclic& d, GlobalIndex i) noexcept {
  const Wide dealt(d);
  const auto turn = static_cast<Index>(dealt.place(i.value) / dealt.block % dealt.grid);
  return {turn < d.grid - d.source ? turn + d.source : turn - (d.grid - d.source)};
}

LocalIndex to_local_in(const BlockCyclic& d, GlobalIndex i) noexcept {
  const Wide dealt(d);
  const std::uint64_t at = dealt.place(i.value), block = at / dealt.block;
  // Two divisions, because block * grid may exceed 63 bits.
  const std::uint64_t round = block / dealt.grid, turn = block - round * dealt.grid;
  return {static_cast<Index>(round * dealt.block + at % dealt.block - dealt.lacking(turn))};
}

GlobalIndex to_global_in(const BlockCyclic& d, GridCoord c, LocalIndex i) noexcept {
  const Wide dealt(d);
  const auto turn = static_cast<std::uint64_t>(turn_of(d, c));
  const std::uint64_t at = static_cast<std::uint64_t>(i.value) + dealt.lacking(turn);
  return {static_cast<Index>((at / dealt.block * dealt.grid + turn) * dealt.block +
                             at % dealt.block - dealt.cut)};
}

Index local_extent_in(const BlockCyclic& d, GridCoord c) noexcept {
  const Wide dealt(d);
  const auto turn = static_cast<std::uint64_t>(turn_of(d, c));
  const std::uint64_t end = dealt.place(d.extent), full_blocks = end / dealt.block;
  const std::uint64_t rounds = full_blocks / dealt.grid, left = full_blocks % dealt.grid;
  const std::uint64_t last = turn < left ? dealt.block : turn == left ? end % dealt.block : 0;
  return static_cast<Index>(rounds * dealt.block + last - dealt.lacking(turn));
}

/// Returns the interval that holds `i`.
std::size_t interval_of(const Splits& d, GlobalIndex i) noexcept {
  return static_cast<std::size_t>(std::upper_bound(d.bounds.begin() + 1, d.bounds.end(), i.value) -
                                  d.bounds.begin() - 1);
}

/// Returns how many elements of the first `intervals` intervals belong to `c`.
Index elements_before(const Splits& d, std::size_t intervals, Index c) noexcept {
  Index sum = 0;
  for (std::size_t k = 0; k < intervals; ++k)
    if (d.owner[k] == c) sum += d.bounds[k + 1] - d.bounds[k];
  return sum;
}

Index extent_of(const Splits& d) noexcept { return d.bounds.empty() ? 0 : d.bounds.back(); }

GridCoord owner_in(const Splits& d, GlobalIndex i) noexcept { return {d.owner[interval_of(d, i)]}; }

LocalIndex to_local_in(const Splits& d, GlobalIndex i) noexcept {
  const std::size_t here = interval_of(d, i);
  return {elements_before(d, here, d.owner[here]) + (i.value - d.bounds[here])};
}

GlobalIndex to_global_in(const Splits& d, GridCoord c, LocalIndex i) noexcept {
  Index rest = i.value;
  for (std::size_t k = 0;; ++k) {
    if (d.owner[k] != c.value) continue;
    const Index length = d.bounds[k + 1] - d.bounds[k];
    if (rest < length) return {d.bounds[k] + rest};
    rest -= length;
  }
}

Index local_extent_in(const Splits& d, GridCoord c) noexcept {
  return elements_before(d, d.owner.size(), c.value);
}

}  // namespace

void validate(const Distribution& d) {
  std::visit([](const auto& one) { validate_one(one); }, d);
}

Index extent(const Distribution& d) noexcept {
  return visit(d, [](const auto& one) { return extent_of(one); });
}

Index grid(const Distribution& d) noexcept {
  return visit(d, [](const auto& one) { return one.grid; });
}

GridCoord owner(const Distribution& d, GlobalIndex i) noexcept {
  return visit(d, [i](const auto& one) { return owner_in(one, i); });
}

LocalIndex to_local(const Distribution& d, GlobalIndex i) noexcept {
  return visit(d, [i](const auto& one) { return to_local_in(one, i); });
}

GlobalIndex to_global(const Distribution& d, GridCoord c, LocalIndex i) noexcept {
  return visit(d, [c, i](const auto& one) { return to_global_in(one, c, i); });
}

Index local_extent(const Distribution& d, GridCoord c) noexcept {
  return visit(d, [c](const auto& one) { return local_extent_in(one, c); });
}

}  // namespace tremula::index_calc
