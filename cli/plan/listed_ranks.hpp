// SPDX-License-Identifier: Apache-2.0
#pragma once
// Matches all ranks of two sides, at least one of which lists what its ranks own. Jobs match their
// ranks by messages; here all lists are known.
#include <optional>
#include <vector>

#include "index_calc/lists/match.hpp"

namespace tremula::cli {

/// The ranks of one side. Shape of both members: [rank of the group].
struct RanksOfSide {
  std::vector<index_calc::IndexList> lists;  ///< what each owns
  std::vector<std::vector<index_calc::PeerSegments>> segments;
};

struct ListedRanks {
  RanksOfSide producers, consumers;
  double seconds = 0;  ///< time that matching all ranks took
};

/// Matches the ranks of both sides.
/// @param producers, consumers  the lists of a side, shape: [rank of the group]; nullopt if its layout
///        determines what its ranks own
/// @throws core::Error mismatch if the shapes differ, if an element is on no rank of a side whose
///         layout is not partial, or if it is on two ranks of a side whose layout has no copies;
///         the error names the element and, if it is on two ranks, those ranks
/// Cost: proportional to the runs of all ranks and to the pairs of ranks.
ListedRanks match_all(const index_calc::Layout& from, const index_calc::Layout& to,
                      std::optional<std::vector<index_calc::IndexList>> producers,
                      std::optional<std::vector<index_calc::IndexList>> consumers);

}  // namespace tremula::cli
