// SPDX-License-Identifier: Apache-2.0
#include "index_calc/layout/changing.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "index_calc/layout/mixed.hpp"
#include "index_calc/layout/process_grid.hpp"

namespace tremula::index_calc {
namespace {

Index slice_elements(const Layout& layout, const GridCoords& coords) {
  Index elements = 1;
  for (std::size_t d = 0; d < layout.dims.size(); ++d)
    core::expects(
        d == layout.changing->dimension ||
            !__builtin_mul_overflow(elements, local_extent(layout.dims[d], coords[d]), &elements),
        [&] {
          return fmt::format(
              "\"{}\": expected at most 2^63 - 1 elements for each index along dimension "
              "{}, found more",
              to_string(layout), layout.changing->dimension);
        });
  return elements;
}

}  // namespace

Layout sized(const Layout& layout, Index extent) {
  Layout result = layout;
  auto& dealt = std::get<BlockCyclic>(result.dims[layout.changing->dimension]);
  dealt.extent = extent;
  if (layout.changing->is_even) dealt.block = plain_block(extent, dealt.grid);
  result.changing.reset();
  validate(result);
  return result;
}

Layout sized(const Layout& layout, std::span<const Index> counts) {
  Layout result = layout;
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
  result.dims[layout.changing->dimension] = std::move(splits);
  result.changing.reset();
  validate(result);
  return result;
}

Index coordinate_of(const Layout& layout, std::int64_t key) noexcept {
  const Changing& changing = *layout.changing;
  const Index coordinates = grid(layout.dims[changing.dimension]);
  if (coordinates == 1) return 0;
  if (!changing.ranges.empty())
    return std::ranges::upper_bound(changing.ranges, key) - changing.ranges.begin();
  return static_cast<Index>(mixed(static_cast<std::uint64_t>(key) + golden) %
                            static_cast<std::uint64_t>(coordinates));
}

Layout alone(const Layout& layout, Rank rank) {
  Layout result = layout;
  std::get<BlockCyclic>(result.dims[layout.changing->dimension]).grid = 1;
  result.mesh = {};
  result.members = {{.first = rank, .count = 1}};
  result.changing = Changing{.dimension = layout.changing->dimension};
  return result;
}

Index slice_elements(const Layout& layout, Rank rank) {
  const auto coords = coords_of(layout, rank);
  return coords ? slice_elements(layout, *coords) : 0;
}

std::vector<Index> counts_along(const Layout& layout, std::span<const Index> counts) {
  const std::size_t d = layout.changing->dimension;
  const auto coordinates = static_cast<std::size_t>(grid(layout.dims[d]));
  std::vector<Index> along(coordinates);
  std::vector<Rank> counted_by(coordinates, -1);
  const ProcessGrid grid(layout);
  Index sum = 0;
  for (Rank rank = 0; rank < static_cast<Rank>(counts.size()); ++rank) {
    const auto coords = grid.coords_of(rank);
    if (!coords || slice_elements(layout, *coords) == 0) continue;
    const auto c = static_cast<std::size_t>((*coords)[d].value);
    const Index count = counts[static_cast<std::size_t>(rank)];
    if (counted_by[c] >= 0) {
      if (along[c] == count) continue;
      throw core::Error(
          core::Errc::mismatch,
          fmt::format("\"{}\": expected ranks {} and {}, which have the same position along "
                      "dimension {}, to have the same number of elements along it, found {} and {}",
                      to_string(layout), counted_by[c], rank, d, along[c], count));
    }
    core::expects(count >= 0 && !__builtin_add_overflow(sum, count, &sum), [&] {
      return fmt::format(
          "\"{}\": expected counts of at least 0 that add up to at most 2^63 - 1, found {} of rank "
          "{}",
          to_string(layout), count, rank);
    });
    counted_by[c] = rank;
    along[c] = count;
  }
  return along;
}

}  // namespace tremula::index_calc
