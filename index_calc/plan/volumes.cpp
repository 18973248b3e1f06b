// SPDX-License-Identifier: Apache-2.0
#include "index_calc/plan/volumes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "index_calc/overlap/overlap.hpp"
#include "index_calc/plan/copy_dealer.hpp"

namespace tremula::index_calc {
namespace {

constexpr Index most_pairs = Index{1} << 24;

Layout without_members(Layout layout) {
  layout.members.clear();
  return layout;
}

}  // namespace

Volumes::Volumes(const Layout& mine, const Layout& theirs, Role role, const Hosts& hosts)
    : mine_(without_members(mine)), theirs_(without_members(theirs)), role_(role) {
  validate_pair(mine, theirs);
  for (const Layout* const layout : {&mine, &theirs})
    expect_computed(*layout, "the volumes between ranks");
  const bool are_places_known =
      hosts.is_one_job || (!hosts.of_mine.empty() && !hosts.of_theirs.empty());
  if (are_places_known && (mine_.copies() > 1 || theirs_.copies() > 1))
    dealing_.emplace(ProcessGrid(mine), ProcessGrid(theirs), ranks_of(mine), hosts);
  OverlapFinder finder;
  for (std::size_t d = 0; d < mine.dims.size(); ++d) {
    const Distribution &from = mine.dims[d], &to = theirs.dims[d];
    Factor& factor = factors_.emplace_back();
    Index pairs = 0;  // pairs of coordinates
    for (Index c = 0; c < grid(from); ++c) {
      const Overlaps& overlaps = finder.find(from, {c}, to);
      pairs += static_cast<Index>(overlaps.size());
      if (pairs > most_pairs)
        throw core::Error(
            core::Errc::unsupported,
            fmt::format("expected at most {} pairs of coordinates that overlap along dimension {}, "
                        "found more, grid {} against grid {}; take coarser grids, or larger blocks",
                        most_pairs, d, grid(from), grid(to)));
      auto& row = factor.emplace_back();
      row.reserve(overlaps.size());
      for (std::size_t i = 0; i < overlaps.size(); ++i)
        row.push_back({overlaps.peers()[i], overlaps.elements(i)});
    }
    slowest_.push_back(kth_fastest(theirs.rank_order, mine.dims.size(), mine.dims.size() - 1 - d));
  }
}

std::vector<CopyShare> Volumes::shares(Rank mine, const GridCell& cell, const GridCoords& peer,
                                       Index lines) const {
  if (dealing_)
    return CopyDealer(dealing_->mine, dealing_->theirs,
                      dealing_->ranks[static_cast<std::size_t>(mine)], role_, dealing_->hosts)
        .shares(peer, lines);
  const bool is_source = role_ == Role::source;
  const Index here = mine_.position_of(cell.coords), there = theirs_.position_of(peer);
  const CopiedPair pair{.lines = lines,
                        .from = is_source ? mine_.copies() : theirs_.copies(),
                        .to = is_source ? theirs_.copies() : mine_.copies(),
                        .turn = is_source ? turn_of(here, there) : turn_of(there, here)};
  return is_source ? shares_of_source(pair, cell.copy) : shares_of_sink(pair, cell.copy);
}

std::vector<Volume> Volumes::row(Rank mine) const {
  core::expects(mine >= 0 && mine < rows(), [&] {
    return fmt::format("expected a position from 0 to {}, found {}", rows() - 1, mine);
  });
  const GridCell cell = *mine_.cell_of(mine);
  const bool is_source = role_ == Role::source;
  std::vector<Volume> row;
  walk_row(cell.coords, [&](const GridCoords& peer, Index elements, Index lines) {
    if (mine_.copies() == 1 && theirs_.copies() == 1) {
      row.push_back({static_cast<Rank>(theirs_.position_of(peer)), elements});
      return;
    }
    // A copy may have several shares; shares with one peer are added up.
    const std::size_t begin = row.size();
    for (const CopyShare& s : shares(mine, cell, peer, lines)) {
      const auto at = static_cast<Rank>(theirs_.position_of(peer, is_source ? s.to : s.from));
      const auto known = std::find_if(row.begin() + static_cast<std::ptrdiff_t>(begin), row.end(),
                                      [&](const Volume& v) { return v.peer == at; });
      const Index count = elements / lines * s.count;
      if (known == row.end())
        row.push_back({at, count});
      else
        known->elements += count;
    }
  });
  // A mesh may number the coordinates in another order.
  if (!std::ranges::is_sorted(row, {}, &Volume::peer)) std::ranges::sort(row, {}, &Volume::peer);
  return row;
}

}  // namespace tremula::index_calc
