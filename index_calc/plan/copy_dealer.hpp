// SPDX-License-Identifier: Apache-2.0
#pragma once
// Applies shares.hpp to the cells of two process grids; private to this folder.
#include <span>
#include <vector>

#include "index_calc/plan/plan.hpp"
#include "index_calc/plan/shares.hpp"

namespace tremula::index_calc {

/// Calculates this rank's shares of the lines that its cell shares with other cells, if a side has
/// copies.
class CopyDealer {
public:
  CopyDealer(const ProcessGrid& mine, const ProcessGrid& theirs, Rank me, Role role,
             const Hosts& hosts)
      : mine_(mine), theirs_(theirs), cell_(*mine.cell_of(me)), role_(role), hosts_(hosts) {
    my_places_ = places_of(hosts.of_mine, mine, cell_.coords);
  }

  /// Returns this rank's shares of `lines` lines.
  /// @param coords  coordinates of the other side's cell
  std::vector<CopyShare> shares(const GridCoords& coords, Index lines) const {
    const bool is_source = role_ == Role::source;
    const Index here = mine_.position_of(cell_.coords), there = theirs_.position_of(coords);
    const CopyPlaces their_places = places_of(hosts_.of_theirs, theirs_, coords);
    const CopiedPair pair{.lines = lines,
                          .from = is_source ? mine_.copies() : theirs_.copies(),
                          .to = is_source ? theirs_.copies() : mine_.copies(),
                          .from_places = is_source ? my_places_ : their_places,
                          .to_places = is_source ? their_places : my_places_,
                          .turn = is_source ? turn_of(here, there) : turn_of(there, here)};
    return is_source ? shares_of_source(pair, cell_.copy) : shares_of_sink(pair, cell_.copy);
  }
  /// Returns the number of the peer's copy.
  RankCount peer_copy(const CopyShare& share) const noexcept {
    return role_ == Role::source ? share.to : share.from;
  }

private:
  CopyPlaces places_of(std::span<const std::uint32_t> of_ranks, const ProcessGrid& grid,
                       const GridCoords& coords) const {
    CopyPlaces places;
    for (RankCount copy = 0; copy < grid.copies(); ++copy) {
      const Rank rank = grid.rank_at(coords, copy);
      if (hosts_.is_one_job) places.ranks.push_back(rank);
      if (!of_ranks.empty()) places.hosts.push_back(of_ranks[at(rank)]);
    }
    return places;
  }

  const ProcessGrid &mine_, &theirs_;
  GridCell cell_;
  Role role_;
  const Hosts& hosts_;
  CopyPlaces my_places_;
};

}  // namespace tremula::index_calc
