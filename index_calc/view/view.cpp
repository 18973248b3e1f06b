// SPDX-License-Identifier: Apache-2.0
#include "index_calc/view/view.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>

#include "index_calc/basics/check.hpp"
#include "index_calc/layout/blocks.hpp"
#include "index_calc/layout/process_grid.hpp"
#include "index_calc/lists/index_list.hpp"

namespace tremula::index_calc {
namespace {

using Axes = std::span<const std::size_t>;

void check_selection(const Layout& layout, const Selection& selection) {
  const std::size_t dimensions = index_calc::dimensions(layout);
  check(selection.origin.size() == dimensions && selection.extents.size() == dimensions,
        "selection: expected an origin and an extent for each of the {} dimensions, "
        "found {} and {}",
        dimensions, selection.origin.size(), selection.extents.size());
  for (std::size_t d = 0; d < dimensions; ++d) {
    const Index origin = selection.origin[d], extent = selection.extents[d];
    const Index whole = index_calc::extent(layout, d);
    check(origin >= 0 && origin <= whole && extent >= 0 && extent <= whole - origin,
          "selection, dimension {}: expected elements of the array's {}, found {} elements "
          "beginning with {}",
          d, whole, extent, origin);
  }
}

void check_axes(Axes axes, std::size_t dimensions) {
  std::array<bool, max_dimensions> seen{};
  bool ok = axes.size() == dimensions && dimensions <= max_dimensions;
  for (const std::size_t axis : axes) {
    ok = ok && axis < dimensions && !seen[axis];
    if (ok) seen[axis] = true;
  }
  core::expects(ok, [&] {
    return fmt::format("axes: expected each of the {} dimensions once, counted from 0, found {}",
                       dimensions, fmt::join(axes, ", "));
  });
}

/// Returns the distribution of elements [origin, origin + extent) of one dimension.
Distribution part_of(const BlockCyclic& d, Index origin, Index extent) {
  // A complete block 0 may begin before element 0, so this sum needs all 64 bits.
  const auto at = static_cast<std::uint64_t>(origin) + static_cast<std::uint64_t>(d.cut);
  const auto block = static_cast<std::uint64_t>(d.block), grid = static_cast<std::uint64_t>(d.grid);
  const std::uint64_t turn = static_cast<std::uint64_t>(d.source) + at / block % grid;
  return BlockCyclic{.extent = extent,
                     .block = d.block,
                     .grid = d.grid,
                     .source = static_cast<Index>(turn % grid),
                     .cut = static_cast<Index>(at % block)};
}

Distribution part_of(const Splits& d, Index origin, Index extent) {
  Splits part{.bounds = {0}, .owner = {}, .grid = d.grid};
  for (std::size_t i = 0; i < d.owner.size(); ++i) {
    const Index end = std::min(d.bounds[i + 1] - origin, extent);
    if (end <= part.bounds.back()) continue;
    part.bounds.push_back(end);
    part.owner.push_back(d.owner[i]);
  }
  return part;
}

Distribution part_of(const Distribution& d, Index origin, Index extent) {
  return std::visit([&](const auto& one) { return part_of(one, origin, extent); }, d);
}

/// Returns the order that numbers the permuted dimensions as `order` numbers the unpermuted ones;
/// nullopt if no order does. Ignores dimensions for which `counts`, called with the unpermuted
/// dimension, is false.
template <class Counts>
std::optional<Order> same_order(Order order, Axes axes, Counts&& counts) {
  const auto fastest_first = [&](Order by, auto&& dimension_of) {
    std::vector<std::size_t> result;
    for (std::size_t k = 0; k < axes.size(); ++k)
      if (const std::size_t d = dimension_of(kth_fastest(by, axes.size(), k)); counts(d))
        result.push_back(d);
    return result;
  };
  const auto unpermuted = fastest_first(order, [](std::size_t d) { return d; });
  const Order other = order == Order::row ? Order::column : Order::row;
  for (const Order by : {order, other})
    if (fastest_first(by, [&](std::size_t d) { return axes[d]; }) == unpermuted) return by;
  return std::nullopt;
}

/// Returns the view of an array whose ranks list what they own, with the given shape and with the
/// list that `change` makes of this rank's list, if that is known.
template <class Change>
Layout listed_view(const Layout& layout, std::span<const Index> shape, const Change& change) {
  const auto& list = layout.listed()->mine;
  return listed_layout(shape, layout, list ? std::optional(change(*list)) : std::nullopt);
}

}  // namespace

Layout selected(const Layout& layout, const Selection& selection) {
  if (layout.listed() != nullptr) {
    check_selection(layout, selection);
    return listed_view(layout, selection.extents, [&](const IndexList& list) {
      return list.selected(shape(layout), selection.origin, selection.extents);
    });
  }
  Grid grid = expect_grid(layout, "selection");
  check_selection(layout, selection);
  for (std::size_t d = 0; d < grid.dims.size(); ++d)
    grid.dims[d] = part_of(grid.dims[d], selection.origin[d], selection.extents[d]);
  return Layout(std::move(grid), layout.ranks(), {.order = layout.storage().order});
}

LocalPart selected_part(const Layout& layout, const Selection& selection, Rank rank) {
  if (layout.listed() != nullptr) return local_part(selected(layout, selection), rank);
  return selected_part(local_part(layout, rank), layout, selection, rank);
}

LocalPart selected_part(LocalPart part, const Layout& layout, const Selection& selection,
                        Rank rank) {
  const Grid& grid = expect_grid(layout, "selection");
  check_selection(layout, selection);
  const auto coords = coords_of(layout, rank);
  if (!coords) return part;
  part.elements = 1;
  Index before = 0;
  for (std::size_t d = 0; d < part.dimensions; ++d) {
    const Index origin = selection.origin[d];
    const auto count = [&](Index from, Index extent) {
      return local_extent(part_of(grid.dims[d], from, extent), (*coords)[d]);
    };
    part.extent[d] = count(origin, selection.extents[d]);
    part.elements = saturating_product(part.elements, part.extent[d]);  // an extent may be 0
    before += count(0, origin) * part.stride[d];
  }
  if (part.elements > 0) part.first += before;
  return part;
}

Layout permuted(const Layout& layout, Axes axes) {
  if (layout.listed() != nullptr) {
    check_axes(axes, dimensions(layout));
    const std::vector<Index> before = shape(layout);
    std::vector<Index> after;
    for (const std::size_t axis : axes) after.push_back(before[axis]);
    return listed_view(layout, after,
                       [&](const IndexList& list) { return list.permuted(before, axes); });
  }
  const Grid& grid = expect_grid(layout, "axes");
  check_axes(axes, grid.dims.size());
  const Storage& before = layout.storage();
  Storage storage{.order = before.order};
  if (const auto order = same_order(before.order, axes, [](std::size_t) { return true; })) {
    storage = {.order = *order, .ghost = {}, .leading = before.leading};
    for (const std::size_t axis : axes)
      if (!before.ghost.empty()) storage.ghost.push_back(before.ghost[axis]);
  }
  std::vector<Distribution> dims;
  for (const std::size_t axis : axes) dims.push_back(grid.dims[axis]);
  const auto is_dealt = [&](std::size_t d) { return index_calc::grid(grid.dims[d]) > 1; };
  const auto order = same_order(layout.ranks().order, axes, is_dealt);
  if (order && grid.is_plain())
    return Layout(Grid(std::move(dims)), {*order, layout.ranks().members}, std::move(storage));
  const std::vector<std::size_t> moved_to = inverse(axes, axes.size());
  std::vector<MeshAxis> grid_axes = grid.axes;
  for (MeshAxis& axis : grid_axes)
    if (const Along* const along = axis.along())
      axis.use = Along{.dimension = moved_to[along->dimension], .level = along->level};
  return Layout(Grid(std::move(dims), std::move(grid_axes)), layout.ranks(), std::move(storage));
}

LocalPart permuted(const LocalPart& part, Axes axes) {
  if (part.dimensions == 0) return part;
  check_axes(axes, part.dimensions);
  LocalPart result = part;
  for (std::size_t d = 0; d < axes.size(); ++d) {
    result.extent[d] = part.extent[axes[d]];
    result.stride[d] = part.stride[axes[d]];
  }
  return result;
}

std::vector<std::size_t> inverse(Axes axes, std::size_t dimensions) {
  check_axes(axes, dimensions);
  std::vector<std::size_t> result(dimensions);
  for (std::size_t d = 0; d < dimensions; ++d) result[axes[d]] = d;
  return result;
}

RankCount layer_count(const Layout& layout) noexcept {
  Index layers = 1;
  for (const MeshAxis& axis : axes_of(layout)) layers *= axis.has_sums() ? axis.ranks : 1;
  return static_cast<RankCount>(layers);
}

namespace {

/// Returns the members of one layer, in the order of their cells.
std::vector<RankRange> members_of_layer(const Layout& layout, RankCount number) {
  const auto axes = axes_of(layout);
  std::vector<Index> place_of(axes.size()), step_of(axes.size());
  Index step = 1, left = number;
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const std::size_t a = kth_fastest(layout.ranks().order, axes.size(), k);
    step_of[a] = step;
    step *= axes[a].ranks;
  }
  for (std::size_t a = axes.size(); a-- > 0;) {
    if (!axes[a].has_sums()) continue;
    place_of[a] = left % axes[a].ranks;
    left /= axes[a].ranks;
  }
  std::vector<RankRange> members;
  const std::vector<Rank> ranks = ranks_of(layout);
  for (Index cell = 0; cell < Index{rank_count(layout)} / layer_count(layout); ++cell) {
    Index rest = cell, position = 0;
    for (std::size_t k = 0; k < axes.size(); ++k) {
      const std::size_t a = kth_fastest(layout.ranks().order, axes.size(), k);
      Index place = place_of[a];
      if (!axes[a].has_sums()) place = rest % axes[a].ranks, rest /= axes[a].ranks;
      position += place * step_of[a];
    }
    const Rank rank = ranks[static_cast<std::size_t>(position)];
    RankRange* const last = members.empty() ? nullptr : &members.back();
    if (last != nullptr && last->first.value + last->count == rank.value)
      ++last->count;
    else
      members.push_back({rank, 1});
  }
  return members;
}

}  // namespace

Layout layer(const Layout& layout, RankCount number) {
  if (!has_sums(layout)) return layout;
  Ranks ranks{layout.ranks().order, members_of_layer(layout, number)};
  if (const Skewed* const skewed = layout.skewed()) {
    Skewed summand = *skewed;
    std::erase_if(summand.axes, std::mem_fn(&MeshAxis::has_sums));
    return Layout(std::move(summand), std::move(ranks), layout.storage());
  }
  Grid summand = expect_grid(layout, "layer");
  std::erase_if(summand.axes, std::mem_fn(&MeshAxis::has_sums));
  if (summand.axes.empty()) summand = Grid(std::move(summand.dims));
  return Layout(std::move(summand), std::move(ranks), layout.storage());
}

}  // namespace tremula::index_calc
