// SPDX-License-Identifier: Apache-2.0
#include "index_calc/plan/volumes.hpp"

#include <fmt/format.h>

#include <utility>

#include "core/error.hpp"
#include "index_calc/overlap/overlap.hpp"

namespace tremula::index_calc {
namespace {

constexpr Index most_pairs = Index{1} << 24;

}  // namespace

Volumes::Volumes(const Layout& mine, const Layout& theirs) {
  validate_pair(mine, theirs);
  rows_ = rank_count(mine);
  columns_ = rank_count(theirs);
  const std::size_t dimensions = mine.dims.size();
  std::vector<Index> step(dimensions);  // in the positions of mine
  Index cells = 1;
  for (std::size_t k = 0; k < dimensions; ++k) {
    const std::size_t d = kth_fastest(mine.rank_order, dimensions, k);
    step[d] = std::exchange(cells, cells * grid(mine.dims[d]));
  }
  OverlapFinder finder;
  for (std::size_t k = dimensions; k-- > 0;) {
    const std::size_t d = kth_fastest(theirs.rank_order, dimensions, k);
    const Distribution &from = mine.dims[d], &to = theirs.dims[d];
    Dimension& dimension = dims_.emplace_back();
    dimension.step = step[d];
    dimension.their_grid = grid(to);
    Index pairs = 0;  // of coordinates
    for (Index c = 0; c < grid(from); ++c) {
      const Overlaps& overlaps = finder.find(from, {c}, to);
      pairs += static_cast<Index>(overlaps.size());
      if (pairs > most_pairs)
        throw core::Error(
            core::Errc::unsupported,
            fmt::format("expected at most {} pairs of coordinates that overlap along dimension {}, "
                        "found more, grid {} against grid {}; take coarser grids, or larger blocks",
                        most_pairs, d, grid(from), grid(to)));
      std::vector<Volume>& row = dimension.factor.emplace_back();
      row.reserve(overlaps.size());
      for (std::size_t i = 0; i < overlaps.size(); ++i)
        row.push_back({static_cast<Rank>(overlaps.peers()[i].value), overlaps.elements(i)});
    }
  }
}

std::vector<Volume> Volumes::row(Rank mine) const {
  core::expects(mine >= 0 && mine < rows_, [&] {
    return fmt::format("expected a position from 0 to {}, found {}", rows_ - 1, mine);
  });
  std::vector<Volume> row{{0, 1}}, longer;
  for (const Dimension& d : dims_) {
    const auto coordinate = static_cast<std::size_t>(mine / d.step) % d.factor.size();
    longer.clear();
    longer.reserve(row.size() * d.factor[coordinate].size());
    for (const Volume& slower : row)
      for (const Volume& faster : d.factor[coordinate])
        longer.push_back({static_cast<Rank>(slower.peer * d.their_grid + faster.peer),
                          slower.elements * faster.elements});
    row.swap(longer);
  }
  return row;
}

}  // namespace tremula::index_calc
