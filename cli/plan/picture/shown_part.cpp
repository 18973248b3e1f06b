// SPDX-License-Identifier: Apache-2.0
#include "cli/plan/picture/shown_part.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

namespace tremula::cli {

namespace {

using index_calc::BlockCuts, index_calc::BlockCyclic, index_calc::Layout, index_calc::Splits;

/// The largest number of blocks drawn along a dimension. If there are more, only `corner_blocks`
/// are drawn, each large enough for a number.
constexpr Index most_blocks = 64, corner_blocks = 24;
/// Elements per block if ranks list what they own. Listed elements are drawn individually, so 512
/// along a dimension are each about the size of a point.
constexpr Index listed_block = 8;

/// Returns where the first `blocks` blocks end, but not before that many elements, because blocks
/// may be empty; at most the extent.
Index end_of_blocks(const BlockCuts& cuts, Index blocks) {
  return cuts.count() <= blocks ? cuts.extent()
                                : std::min(cuts.extent(), std::max(cuts.begin(blocks), blocks));
}

/// Returns the least common multiple of the rounds of both sides; nullopt if a side has no rounds
/// or the multiple is not below the extent.
std::optional<Index> period(const Layout& from, const Layout& to, std::size_t dimension) {
  Index result = 1;
  for (const Layout* const layout : {&from, &to}) {
    const index_calc::Grid* const grid = layout->grid();
    const auto* const dealt =
        grid != nullptr ? std::get_if<BlockCyclic>(&grid->dims[dimension]) : nullptr;
    Index round = 0;
    if (dealt == nullptr || __builtin_mul_overflow(dealt->block, dealt->grid, &round) ||
        __builtin_mul_overflow(result, round / std::gcd(result, round), &result) ||
        result >= dealt->extent)
      return std::nullopt;
  }
  return result;
}

}  // namespace

BlockCuts block_cuts(const Layout& layout, std::size_t dimension) {
  if (layout.listed() != nullptr)
    return BlockCuts::cyclic(extent(layout, dimension), listed_block, 0);
  if (layout.skewed() != nullptr) return layout.skewed()->cuts[dimension];
  const auto& distribution = expect_grid(layout, "picture").dims[dimension];
  if (const auto* splits = std::get_if<Splits>(&distribution)) return BlockCuts::at(splits->bounds);
  const auto& dealt = std::get<BlockCyclic>(distribution);
  return BlockCuts::cyclic(dealt.extent, dealt.block, dealt.cut);
}

ShownAxis shown_axis(const Layout& from, const Layout& to, std::size_t dimension) {
  ShownAxis axis{.extent = extent(from, dimension)};
  const BlockCuts from_cuts = block_cuts(from, dimension), to_cuts = block_cuts(to, dimension);
  const auto end = [&](Index blocks) {
    return std::min(end_of_blocks(from_cuts, blocks), end_of_blocks(to_cuts, blocks));
  };
  axis.shown = end(most_blocks);
  if (!axis.is_whole()) {
    const Index corner = end(corner_blocks);
    const Index one = period(from, to, dimension).value_or(axis.extent);
    axis.periods = one <= axis.shown ? std::max(Index{1}, corner / one) : 0;
    axis.shown = axis.periods > 0 ? axis.periods * one : corner;
  }
  return axis;
}

ShownPart::ShownPart(const Redistribution& redistribution)
    : dimensions(index_calc::dimensions(redistribution.from)),
      rows{.extent = 1, .shown = 1},
      columns(shown_axis(redistribution.from, redistribution.to, dimensions - 1)) {
  if (dimensions == 2) rows = shown_axis(redistribution.from, redistribution.to, 0);
}

}  // namespace tremula::cli
