// SPDX-License-Identifier: Apache-2.0
#include "index_calc/layout/placements.hpp"

#include <algorithm>

#include "index_calc/layout/check.hpp"

namespace tremula::index_calc {
namespace {

struct Interval {
  Index begin = 0, end = 0;
};
using Intervals = std::vector<Interval>;  ///< ascending

/// An axis that cuts the dimension at hand.
struct Cut {
  std::size_t axis = 0;
  Index ranks = 1, split_factor = 1;
};

/// Elements number first .. end - 1 of all these.
void take(const Intervals& from, Index first, Index end, Intervals& to) {
  Index before = 0;
  for (const Interval& i : from) {
    const Index begin = std::max(first, before), stop = std::min(end, before + i.end - i.begin);
    if (begin < stop) {
      const Interval taken{i.begin + begin - before, i.begin + stop - before};
      if (!to.empty() && to.back().end == taken.begin)
        to.back().end = taken.end;
      else
        to.push_back(taken);
    }
    before += i.end - i.begin;
  }
}

Index elements_of(const Intervals& intervals) {
  Index count = 0;
  for (const Interval& i : intervals) count += i.end - i.begin;
  return count;
}

/// What each rank along an axis gets of `all`, by the definition.
std::vector<Intervals> cut(const Intervals& all, const Cut& by) {
  const Index count = elements_of(all), chunks = by.ranks * by.split_factor;
  const Index chunk = plain_block(count, chunks);
  std::vector<Intervals> parts(static_cast<std::size_t>(by.ranks));
  for (Index k = 0; k < chunks && k * chunk < count; ++k)
    take(all, k * chunk, std::min(count, (k + 1) * chunk),
         parts[static_cast<std::size_t>(k % by.ranks)]);
  return parts;
}

/// Axes from the outermost cut to the innermost, as an even dimension is cut; empty: no such order.
std::vector<std::size_t> nesting_of(std::span<const Cut> cuts) {
  std::vector<Cut> inside;
  for (auto cut = cuts.rbegin(); cut != cuts.rend(); ++cut) {
    Index ranks = 1;
    auto at = inside.begin();
    while (ranks < cut->split_factor && at != inside.end()) ranks *= at++->ranks;
    if (ranks != cut->split_factor) return {};
    inside.insert(at, *cut);
  }
  std::vector<std::size_t> axes;
  for (const Cut& cut : inside) axes.push_back(cut.axis);
  return axes;
}

Distribution cut_all(Index extent, Index grid, std::span<const Cut> cuts) {
  Index chunks = 1;
  for (const Cut& by : cuts) {
    constexpr Index most = Index{1} << 24;
    check(!__builtin_mul_overflow(chunks, by.ranks * by.split_factor, &chunks) && chunks <= most,
          "expected an extent that its {} ranks divide, or at most {} chunks to list, found an "
          "extent of {} and more",
          grid, most, extent);
  }
  std::vector<Intervals> parts{{{0, extent}}};
  for (const Cut& by : cuts) {
    std::vector<Intervals> finer;
    for (const Intervals& part : parts)
      for (Intervals& each : cut(part, by)) finer.push_back(std::move(each));
    parts = std::move(finer);
  }
  struct Owned {
    Interval interval;
    Index owner = 0;
  };
  std::vector<Owned> all;
  for (std::size_t c = 0; c < parts.size(); ++c)
    for (const Interval& i : parts[c]) all.push_back({i, static_cast<Index>(c)});
  std::ranges::sort(all, {}, [](const Owned& o) { return o.interval.begin; });
  Splits splits{.bounds = {0}, .owner = {}, .grid = grid};
  for (const Owned& o : all) {
    splits.bounds.push_back(o.interval.end);
    splits.owner.push_back(o.owner);
  }
  return splits;
}

}  // namespace

Layout layout_on_mesh(std::span<const Index> shape, std::span<const Index> mesh,
                      std::span<const Placement> placements) {
  check(placements.size() == mesh.size(),
        "placements: expected one for each of the {} axes of the mesh, found {}", mesh.size(),
        placements.size());
  check(!mesh.empty() && mesh.size() <= max_mesh_axes, "mesh: expected 1 to {} axes, found {}",
        max_mesh_axes, mesh.size());
  for (const Index extent : shape)
    check(extent >= 0, "expected an extent of at least 0, found {}", extent);
  Index cells = 1;
  for (const Index ranks : mesh)
    check(ranks >= 1 && !__builtin_mul_overflow(cells, ranks, &cells) && cells < Index{1} << 31,
          "mesh: expected axes of at least 1 rank and fewer than 2^31 in all, found one of {}",
          ranks);
  for (std::size_t a = 0; a < mesh.size(); ++a) {
    const Placement& p = placements[a];
    check(!p.dimension || *p.dimension < shape.size(),
          "placement of axis {}: expected a dimension from 0 to {}, found {}", a, shape.size() - 1,
          p.dimension.value_or(0));
    constexpr Index most = Index{1} << 20;
    check(p.split_factor >= 1 && p.split_factor <= most,
          "placement of axis {}: expected a split factor from 1 to {}, found {}", a, most,
          p.split_factor);
    check(p.dimension || p.split_factor == 1,
          "placement of axis {}: expected no split factor where it makes copies, found {}", a,
          p.split_factor);
  }
  Layout layout;
  layout.mesh.extents.assign(mesh.begin(), mesh.end());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::vector<Cut> cuts;
    Index grid = 1;
    for (std::size_t a = 0; a < mesh.size(); ++a)
      if (placements[a].dimension == d) {
        cuts.push_back({a, mesh[a], placements[a].split_factor});
        grid *= mesh[a];
      }
    auto& axes = layout.mesh.axes.emplace_back(nesting_of(cuts));
    const bool is_plain = cuts.size() == 1 && cuts.front().split_factor == 1;
    if (cuts.empty() || is_plain || (!axes.empty() && shape[d] % grid == 0)) {
      layout.dims.emplace_back(
          BlockCyclic{.extent = shape[d], .block = plain_block(shape[d], grid), .grid = grid});
      continue;
    }
    axes.clear();
    for (const Cut& each : cuts) axes.push_back(each.axis);
    layout.dims.push_back(cut_all(shape[d], grid, cuts));
  }
  validate(layout);
  return layout;
}

}  // namespace tremula::index_calc
