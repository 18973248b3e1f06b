// SPDX-License-Identifier: Apache-2.0
#include "index_calc/plan/volumes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <variant>
#include <vector>

#include "core/error.hpp"
#include "index_calc/overlap/overlap.hpp"
#include "index_calc/plan/copy_dealer.hpp"

namespace tremula::index_calc {
namespace {

constexpr Index most_pairs = Index{1} << 24;

[[noreturn]] void refuse_more_pairs(const Distribution& mine, const Distribution& theirs,
                                    std::size_t dimension) {
  throw core::Error(
      core::Errc::unsupported,
      fmt::format("expected at most {} pairs of coordinates that overlap along dimension {}, "
                  "found more, grid {} against grid {}; take coarser grids, or larger blocks",
                  most_pairs, dimension, grid(mine), grid(theirs)));
}

/// How many elements one coordinate shares with those of the other side, as changes from one of
/// them to the next. Numbers are modulo 2^64, so that elements may also be taken away.
class Row {
public:
  /// Adds `elements` for each of the coordinates begin .. end - 1.
  void add(Index begin, Index end, std::uint64_t elements) {
    if (begin == end || elements == 0) return;
    changes_.push_back({begin, elements});
    changes_.push_back({end, 0 - elements});
  }
  /// Calls visit(begin, end, elements) for coordinates begin .. end - 1 that share equally many
  /// elements, at least 1, in ascending order. Empties the row.
  template <class Visit>
  void take(const Visit& visit) {
    std::ranges::sort(changes_, {}, &Change::coordinate);
    std::uint64_t elements = 0;
    for (std::size_t i = 0; i < changes_.size(); ++i) {
      elements += changes_[i].elements;
      if (elements == 0) continue;  // as after the last change
      const Index begin = changes_[i].coordinate, end = changes_[i + 1].coordinate;
      if (begin < end) visit(begin, end, static_cast<Index>(elements));
    }
    changes_.clear();
  }

private:
  struct Change {
    Index coordinate;
    std::uint64_t elements;
  };
  std::vector<Change> changes_;
};

/// Adds the elements begin .. end - 1 for the coordinates of d that own them.
void add_owners(const Splits& d, Index begin, Index end, Row& row) {
  auto i = static_cast<std::size_t>(std::ranges::upper_bound(d.bounds, begin) - d.bounds.begin());
  for (; begin < end; ++i) {
    const Index owner = d.owner[i - 1], until = std::min(end, d.bounds[i]);
    row.add(owner, owner + 1, static_cast<std::uint64_t>(until - begin));
    begin = until;
  }
}

/// Does the same in constant time: adds whole blocks for ranges of coordinates, and takes away what
/// the first and the last block have outside.
void add_owners(const BlockCyclic& d, Index begin, Index end, Row& row) {
  const auto block = static_cast<std::uint64_t>(d.block), grid = static_cast<std::uint64_t>(d.grid);
  const auto from = static_cast<std::uint64_t>(begin) + static_cast<std::uint64_t>(d.cut);
  const auto to = static_cast<std::uint64_t>(end) + static_cast<std::uint64_t>(d.cut);
  const std::uint64_t first_block = from / block, last_block = (to - 1) / block;
  const std::uint64_t blocks = last_block - first_block + 1;
  row.add(0, d.grid, blocks / grid * block);
  const Index first = owner(d, {begin}).value, last = owner(d, {end - 1}).value;
  if (blocks % grid != 0) {
    row.add(first, last < first ? d.grid : last + 1, block);
    if (last < first) row.add(0, last + 1, block);
  }
  row.add(first, first + 1, first_block * block - from);
  row.add(last, last + 1, to - (last_block + 1) * block);
}

}  // namespace

Volumes::Factor Volumes::factor_of_intervals(const Distribution& mine, const Distribution& theirs,
                                             std::size_t dimension) {
  const bool is_mine = std::holds_alternative<Splits>(mine);
  const auto& intervals = std::get<Splits>(is_mine ? mine : theirs);
  const auto owner = [&](std::size_t i) { return intervals.owner[i]; };
  std::vector<std::size_t> order(intervals.owner.size());  // intervals, sorted by owner
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, owner);
  Factor factor(static_cast<std::size_t>(grid(mine)));
  Index pairs = 0;  // pairs of coordinates
  Row row;
  for (std::size_t k = 0; k < order.size();) {
    const Index one = owner(order[k]);
    for (; k < order.size() && owner(order[k]) == one; ++k) {
      const auto bounds = intervals.bounds.begin() + static_cast<std::ptrdiff_t>(order[k]);
      std::visit([&](const auto& d) { add_owners(d, bounds[0], bounds[1], row); },
                 is_mine ? theirs : mine);
    }
    row.take([&](Index begin, Index end, Index elements) {
      pairs += end - begin;
      if (pairs > most_pairs) refuse_more_pairs(mine, theirs, dimension);
      for (Index c = begin; c < end; ++c) {
        const Index my = is_mine ? one : c, their = is_mine ? c : one;
        factor[static_cast<std::size_t>(my)].push_back({{their}, elements});
      }
    });
  }
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
    : mine_(mine.with_members({})), theirs_(theirs.with_members({})), role_(role) {
  validate_pair(mine, theirs);
  constexpr std::string_view what = "volumes between ranks";
  const auto &my_dims = expect_grid(mine, what).dims, &their_dims = expect_grid(theirs, what).dims;
  const bool are_places_known =
      hosts.is_one_job || (!hosts.of_mine.empty() && !hosts.of_theirs.empty());
  if (are_places_known && (mine_.copies() > 1 || theirs_.copies() > 1))
    dealing_.emplace(ProcessGrid(mine), ProcessGrid(theirs), ranks_of(mine), hosts);
  for (std::size_t d = 0; d < my_dims.size(); ++d) {
    const Distribution &from = my_dims[d], &to = their_dims[d];
    const bool has_intervals =
        std::holds_alternative<Splits>(from) || std::holds_alternative<Splits>(to);
    factors_.push_back(has_intervals ? factor_of_intervals(from, to, d)
                                     : factor_of_blocks(from, to, d));
    slowest_.push_back(kth_fastest(theirs.ranks().order, my_dims.size(), my_dims.size() - 1 - d));
  }
}

std::vector<CopyShare> Volumes::shares(RankCount mine, const GridCell& cell, const GridCoords& peer,
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

std::vector<Volume> Volumes::row(RankCount mine) const {
  core::expects(mine >= 0 && mine < rows(), [&] {
    return fmt::format("expected a position from 0 to {}, found {}", rows() - 1, mine);
  });
  const GridCell cell = *mine_.cell_of(Rank{mine});
  const bool is_source = role_ == Role::source;
  std::vector<Volume> row;
  walk_row(cell.coords, [&](const GridCoords& peer, Index elements, Index lines) {
    if (mine_.copies() == 1 && theirs_.copies() == 1) {
      row.push_back({static_cast<RankCount>(theirs_.position_of(peer)), elements});
      return;
    }
    // A copy may have several shares; shares with one peer are added up.
    const std::size_t begin = row.size();
    for (const CopyShare& s : shares(mine, cell, peer, lines)) {
      const auto at = static_cast<RankCount>(theirs_.position_of(peer, is_source ? s.to : s.from));
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
