// SPDX-License-Identifier: Apache-2.0
#pragma once
// Moves elements from one buffer to the other along a walk. If one axis is the closest one in both
// buffers, its bars are moved one by one; if the buffers differ in their closest axis, tiles of
// both axes are transposed.
#include <array>
#include <cstddef>
#include <type_traits>

#include "index_calc/pack/pack_bars.hpp"
#include "index_calc/pack/pack_tiles.hpp"
#include "index_calc/pack/pack_walk.hpp"

namespace tremula::index_calc {

/// @tparam Unit  bytes of a unit in `from`: std::integral_constant if it can be transposed
template <class Unit, class Mover>
class Kernel {
public:
  Kernel(const Walk& walk, const Mover& mover, CacheUse use, const std::byte* from, std::byte* to)
      : walk_(walk), copy_(mover, use), from_(from), to_(to) {}

  /// Moves all elements of the walk.
  void operator()() {
    if (walk_.is_transposed && is_tiled)
      places(2, walk_.from, walk_.to, [this](const Axis* axes, std::ptrdiff_t f, std::ptrdiff_t t) {
        tiles(axes[0], axes[1], f, t);
      });
    else if (walk_.depth > 1 && walk_.axes[walk_.depth - 1].most_combs() <= most_kept)
      rows_alike(walk_.axes[walk_.depth - 1]);
    else if (walk_.depth > 0)
      places(1, walk_.from, walk_.to,
             [this](const Axis* axes, std::ptrdiff_t f, std::ptrdiff_t t) { rows(*axes, f, t); });
    else
      copy_(to_ + walk_.to, from_ + walk_.from, 1, walk_.to_unit, walk_.from_unit);
    copy_.finish();
  }

private:
  static constexpr bool is_tiled = !std::is_same_v<Unit, std::ptrdiff_t>;
  static constexpr Index most_kept = 32;

  /// Calls inner(axes, from, to) with the last `kept` axes for each position on the other axes.
  template <class Inner>
  void places(std::size_t kept, std::ptrdiff_t from, std::ptrdiff_t to, const Inner& inner,
              std::size_t level = 0) {
    const Axis* axis = walk_.axes.data() + level;
    if (level + kept == walk_.depth) return inner(axis, from, to);
    axis->for_each_bar([&](const Bar& bar) {
      for (Index i = 0; i < bar.count; ++i)
        places(kept, from + bar.from + i * bar.from_step, to + bar.to + i * bar.to_step, inner,
               level + 1);
    });
  }

  void rows(const Axis& axis, std::ptrdiff_t from, std::ptrdiff_t to) {
    axis.for_each_comb([&]<class T>(const T& it) {
      if constexpr (std::is_same_v<T, Bar>)
        copy_(to_ + (to + it.to), from_ + (from + it.from), it.count, it.to_step, it.from_step);
      else
        copy_(to_ + (to + it.bar.to), from_ + (from + it.bar.from), it);
    });
  }

  /// Moves short rows, all with the combs of the first row: finding the combs of each row would
  /// take longer than moving them.
  void rows_alike(const Axis& axis) {
    std::array<Comb, most_kept> kept;
    std::size_t count = 0;
    axis.for_each_comb([&]<class T>(const T& it) {
      if constexpr (std::is_same_v<T, Bar>)
        kept.at(count++) = {.bar = it, .count = 1};
      else
        kept.at(count++) = it;
    });
    places(1, walk_.from, walk_.to, [&](const Axis*, std::ptrdiff_t f, std::ptrdiff_t t) {
      for (std::size_t i = 0; i < count; ++i)
        copy_(to_ + (t + kept[i].bar.to), from_ + (f + kept[i].bar.from), kept[i]);
    });
  }

  void tiles(const Axis& near, const Axis& far, std::ptrdiff_t from, std::ptrdiff_t to) {
    if constexpr (is_tiled)
      near.for_each_bar([&](const Bar& n) {
        far.for_each_bar([&](const Bar& f) {
          copy_tiles<std::size_t{Unit::value}>(n, f, from_ + (from + n.from + f.from),
                                               to_ + (to + n.to + f.to), copy_);
        });
      });
  }

  const Walk& walk_;
  BarCopier<Mover> copy_;
  const std::byte* from_;
  std::byte* to_;
};

/// Moves all elements of the walk with mover_of(unit); for `unit` see Kernel.
template <class MoverOf>
void move_elements(const Walk& walk, const std::byte* from, std::byte* to, CacheUse use,
                   const MoverOf& mover_of) {
  const auto with = [&](auto unit) {
    const auto mover = mover_of(unit);
    Kernel<decltype(unit), std::decay_t<decltype(mover)>>(walk, mover, use, from, to)();
  };
  switch (walk.from_unit) {
    case 1:
      return with(std::integral_constant<std::ptrdiff_t, 1>{});
    case 2:
      return with(std::integral_constant<std::ptrdiff_t, 2>{});
    case 4:
      return with(std::integral_constant<std::ptrdiff_t, 4>{});
    case 8:
      return with(std::integral_constant<std::ptrdiff_t, 8>{});
    case 16:
      return with(std::integral_constant<std::ptrdiff_t, 16>{});
    default:
      return with(walk.from_unit);
  }
}

}  // namespace tremula::index_calc
