// SPDX-License-Identifier: Apache-2.0
#pragma once
// Determines which copy of a source sends which lines to which copy of a sink if either has copies
// of its elements.
#include <cstdint>
#include <vector>

#include "core/types.hpp"

namespace tremula::index_calc {

using core::Index, core::Rank, core::RankCount;

/// Lines of elements that one copy of a source sends to one copy of a sink.
struct CopyShare {
  RankCount from = 0, to = 0;  ///< numbers of the copies
  Index first = 0, count = 0;  ///< lines
  friend bool operator==(const CopyShare&, const CopyShare&) = default;
};

/// The places of the copies of one cell. Shape of both members: [copy]; empty if not known.
struct CopyPlaces {
  std::vector<Rank> ranks;  ///< ranks in the one job that has both sides
  std::vector<std::uint32_t> hosts;
};

/// Two cells that share `lines` lines: every copy of the source has them, and every copy of the
/// sink needs them.
struct CopiedPair {
  Index lines = 0;
  RankCount from = 1, to = 1;  ///< numbers of copies
  CopyPlaces from_places{}, to_places{};
  /// Any number that both sides know. It decides which copy sends the lines that are left over.
  std::uint64_t turn = 0;
};

/// Assigns the lines that the copies of the sink need to the copies of the source. A rank that
/// holds a copy of both keeps its own lines. Each copy of the source sends an equal part of what
/// the other copies of the sink need, rounded down or up; copies on one host are matched first,
/// then all copies in turn. Every rank gets the same result.
/// @return shares, ordered by copies of the sink and their lines; none is empty
/// Cost: proportional to the copies of both sides, times a logarithm.
std::vector<CopyShare> deal_copies(const CopiedPair& pair);

/// Return the shares of one copy, of the source or of the sink.
/// Cost: that of deal_copies; if no places are known, proportional to the shares returned, times
/// the logarithm of the number of copies.
std::vector<CopyShare> shares_of_source(const CopiedPair& pair, RankCount copy);
std::vector<CopyShare> shares_of_sink(const CopiedPair& pair, RankCount copy);

/// Returns a turn for two positions. The turns of neighbouring positions differ.
std::uint64_t turn_of(Index source, Index sink) noexcept;

}  // namespace tremula::index_calc
