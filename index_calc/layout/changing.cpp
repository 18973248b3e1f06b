// SPDX-License-Identifier: Apache-2.0
#include "index_calc/layout/changing.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "index_calc/basics/mixed.hpp"
#include "index_calc/layout/process_grid.hpp"

namespace tremula::index_calc {
namespace {

Index slice_elements(const Layout& layout, const GridCoords& coords) {
  const Grid& grid = layout.changing()->grid;
  const std::size_t changing = layout.changing()->dimension;
  Index elements = 1;
  for (std::size_t d = 0; d < grid.dims.size(); ++d)
    core::expects(d == changing || !__builtin_mul_overflow(
                                       elements, local_extent(grid.dims[d], coords[d]), &elements),
                  [&] {
                    return fmt::format(
                        "\"{}\": expected at most 2^63 - 1 elements for each index along dimension "
                        "{}, found more",
                        to_string(layout), changing);
                  });
  return elements;
}

}  // namespace

Layout sized(const Layout& layout, Index extent) {
  const Changing& changing = *layout.changing();
  Grid grid = changing.grid;
  auto& dealt = std::get<BlockCyclic>(grid.dims[changing.dimension]);
  dealt.extent = extent;
  if (changing.is_even) dealt.block = plain_block(extent, dealt.grid);
  return Layout(std::move(grid), layout.ranks(), layout.storage());
}

Layout sized(const Layout& layout, std::span<const Index> counts) {
  Splits splits{.bounds = {0}, .owner = {}, .grid = static_cast<Index>(counts.size())};
  for (std::size_t c = 0; c < counts.size(); ++c) {
    if (counts[c] == 0) continue;
    Index end = 0;
    core::expects(counts[c] > 0 && !__builtin_add_overflow(splits.bounds.back(), counts[c], &end),
                  [&] {
                    return fmt::format(
                        "\"{}\": expected counts of at least 0 that add up to at most 2^63 - 1, "
                        "found {} at coordinate {}",
                        to_string(layout), counts[c], c);
                  });
    splits.bounds.push_back(end);
    splits.owner.push_back(static_cast<Index>(c));
  }
  Grid grid = layout.changing()->grid;
  grid.dims[layout.changing()->dimension] = std::move(splits);
  return Layout(std::move(grid), layout.ranks(), layout.storage());
}

Index coordinate_of(const Changing& changing, std::int64_t key) noexcept {
  const Index coordinates = changing.coordinates();
  if (coordinates == 1) return 0;
  if (!changing.ranges.empty())
    return std::ranges::upper_bound(changing.ranges, key) - changing.ranges.begin();
  return static_cast<Index>(mixed(static_cast<std::uint64_t>(key) + golden) %
                            static_cast<std::uint64_t>(coordinates));
}

Layout alone(const Layout& layout, Rank rank) {
  const Changing& changing = *layout.changing();
  std::vector<Distribution> dims = changing.grid.dims;
  std::get<BlockCyclic>(dims[changing.dimension]).grid = 1;
  return Layout(Changing{.grid = Grid(std::move(dims)), .dimension = changing.dimension},
                {.order = layout.ranks().order, .members = {{.first = rank, .count = 1}}},
                layout.storage());
}

Index slice_elements(const Layout& layout, Rank rank) {
  const auto coords = coords_of(layout, rank);
  return coords ? slice_elements(layout, *coords) : 0;
}

std::vector<Index> counts_along(const Layout& layout, std::span<const Index> counts) {
  const std::size_t d = layout.changing()->dimension;
  const auto coordinates = static_cast<std::size_t>(layout.changing()->coordinates());
  std::vector<Index> along(coordinates);
  std::vector<Rank> counted_by(coordinates, Rank{-1});
  const ProcessGrid grid(layout);
  Index sum = 0;
  for (const Rank rank : all_ranks(static_cast<RankCount>(counts.size()))) {
    const auto coords = grid.coords_of(rank);
    if (!coords || slice_elements(layout, *coords) == 0) continue;
    const auto c = static_cast<std::size_t>((*coords)[d].value);
    const Index count = counts[at(rank)];
    if (counted_by[c] >= Rank{0}) {
      if (along[c] == count) continue;
      throw core::Error(
          core::Errc::mismatch,
          fmt::format("\"{}\": expected ranks {} and {}, which have the same position along "
                      "dimension {}, to have the same number of elements along it, found {} and {}",
                      to_string(layout), counted_by[c].value, rank.value, d, along[c], count));
    }
    core::expects(count >= 0 && !__builtin_add_overflow(sum, count, &sum), [&] {
      return fmt::format(
          "\"{}\": expected counts of at least 0 that add up to at most 2^63 - 1, found {} of rank "
          "{}",
          to_string(layout), count, rank.value);
    });
    counted_by[c] = rank;
    along[c] = count;
  }
  return along;
}

}  // namespace tremula::index_calc
