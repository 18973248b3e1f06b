// SPDX-License-Identifier: Apache-2.0
#include "index_calc/plan/volumes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <variant>

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

[[noreturn]] void refuse_more_pairs(const Distribution& mine, const Distribution& theirs,
                                    std::size_t dimension) {
  throw core::Error(
      core::Errc::unsupported,
      fmt::format("expected at most {} pairs of coordinates that overlap along dimension {}, "
                  "found more, grid {} against grid {}; take coarser grids, or larger blocks",
                  most_pairs, dimension, grid(mine), grid(theirs)));
}

/// Calls visit(coordinate of a, coordinate of b, elements) for each piece that both cut out.
template <class Visit>
void for_each_common(const Splits& a, const Splits& b, const Visit& visit) {
  Index begin = 0;
  for (std::size_t i = 0, j = 0; i < a.owner.size();) {
    const Index end = std::min(a.bounds[i + 1], b.bounds[j + 1]);
    visit(a.owner[i], b.owner[j], end - begin);
    begin = end;
    const bool ends_a = a.bounds[i + 1] == end, ends_b = b.bounds[j + 1] == end;
    i += ends_a ? 1 : 0;
    j += ends_b ? 1 : 0;
  }
}

/// Does the same for each interval of a and each coordinate of b that owns elements of it.
template <class Visit>
void for_each_common(const Splits& a, const BlockCyclic& b, const Visit& visit) {
  const auto block_of = [&](Index i) {
    return (static_cast<std::uint64_t>(i) + static_cast<std::uint64_t>(b.cut)) /
           static_cast<std::uint64_t>(b.block);
  };
  BlockCyclic before = b, until = b;  // all elements before the interval, and before its end
  for (std::size_t i = 0; i < a.owner.size(); ++i) {
    before.extent = a.bounds[i];
    until.extent = a.bounds[i + 1];
    const std::uint64_t blocks = block_of(until.extent - 1) - block_of(before.extent) + 1;
    const auto peers = static_cast<Index>(std::min(blocks, static_cast<std::uint64_t>(b.grid)));
    const Index first = owner(b, {before.extent}).value;
    for (Index k = 0; k < peers; ++k) {
      const GridCoord c{(first + k) % b.grid};
      visit(a.owner[i], c.value, local_extent(until, c) - local_extent(before, c));
    }
  }
}

/// Calls visit(coordinate of mine, coordinate of theirs, elements) for elements that both own; a
/// pair may be visited several times.
/// @pre a side is Splits
template <class Visit>
void for_each_common(const Distribution& mine, const Distribution& theirs, const Visit& visit) {
  const auto* const intervals = std::get_if<Splits>(&mine);
  if (intervals != nullptr) {
    std::visit([&](const auto& b) { for_each_common(*intervals, b, visit); }, theirs);
    return;
  }
  for_each_common(std::get<Splits>(theirs), std::get<BlockCyclic>(mine),
                  [&](Index their, Index my, Index elements) { visit(my, their, elements); });
}

}  // namespace

Volumes::Factor Volumes::factor_of_intervals(const Distribution& mine, const Distribution& theirs,
                                             std::size_t dimension) {
  std::map<std::pair<Index, Index>, Index> pairs;  // coordinates of mine and theirs -> elements
  for_each_common(mine, theirs, [&](Index my, Index their, Index elements) {
    pairs[{my, their}] += elements;
    if (static_cast<Index>(pairs.size()) > most_pairs) refuse_more_pairs(mine, theirs, dimension);
  });
  Factor factor(static_cast<std::size_t>(grid(mine)));
  for (const auto& [pair, elements] : pairs)
    factor[static_cast<std::size_t>(pair.first)].push_back({{pair.second}, elements});
  return factor;
}

Volumes::Factor Volumes::factor_of_blocks(const Distribution& mine, const Distribution& theirs,
                                          std::size_t dimension) {
  OverlapFinder finder;
  Factor factor;
  Index pairs = 0;  // pairs of coordinates
  for (Index c = 0; c < grid(mine); ++c) {
    const Overlaps& overlaps = finder.find(mine, {c}, theirs);
    pairs += static_cast<Index>(overlaps.size());
    if (pairs > most_pairs) refuse_more_pairs(mine, theirs, dimension);
    auto& row = factor.emplace_back();
    row.reserve(overlaps.size());
    for (std::size_t i = 0; i < overlaps.size(); ++i)
      row.push_back({overlaps.peers()[i], overlaps.elements(i)});
  }
  return factor;
}

Volumes::Volumes(const Layout& mine, const Layout& theirs, Role role, const Hosts& hosts)
    : mine_(without_members(mine)), theirs_(without_members(theirs)), role_(role) {
  validate_pair(mine, theirs);
  for (const Layout* const layout : {&mine, &theirs})
    expect_computed(*layout, "volumes between ranks");
  const bool are_places_known =
      hosts.is_one_job || (!hosts.of_mine.empty() && !hosts.of_theirs.empty());
  if (are_places_known && (mine_.copies() > 1 || theirs_.copies() > 1))
    dealing_.emplace(ProcessGrid(mine), ProcessGrid(theirs), ranks_of(mine), hosts);
  for (std::size_t d = 0; d < mine.dims.size(); ++d) {
    const Distribution &from = mine.dims[d], &to = theirs.dims[d];
    const bool has_intervals =
        std::holds_alternative<Splits>(from) || std::holds_alternative<Splits>(to);
    factors_.push_back(has_intervals ? factor_of_intervals(from, to, d)
                                     : factor_of_blocks(from, to, d));
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
