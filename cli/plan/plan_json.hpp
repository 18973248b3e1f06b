// SPDX-License-Identifier: Apache-2.0
#pragma once
// The output of `tremula plan --json`. It is written piece by piece, because it may contain the
// plans of very many ranks. The format is an interface, documented in README.md of this folder.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/plan/redistribution.hpp"

namespace tremula::cli {

/// `repeat` segments of `length` elements, the i-th of which begins at `begin + i * stride` in the
/// local indices of the rank and at `peer_begin + i * peer_stride` in the peer's.
struct RepeatedSegment {
  Index begin = 0, peer_begin = 0, length = 0;
  Index repeat = 1, stride = 0, peer_stride = 0;
};

/// Returns the segments of `list` with one level of repetition. The result contains every element
/// once, but not in wire order. It has, for each family, as many entries as the family has segments
/// or turns, whichever is smaller; the incomplete turn at the end has one more for each of its
/// families, and a slice has one for each family of each turn.
std::vector<RepeatedSegment> flattened(const index_calc::SegmentList& list);

/// Returns the text before the first rank.
std::string plan_json_begin(const Redistribution& redistribution);
/// Writes the text of one rank, in pieces of at most one package.
void plan_json_rank(const Redistribution& redistribution, const RankPlan& plan, bool is_first,
                    const std::function<void(std::string_view)>& print);
/// Returns the text after the last rank.
std::string plan_json_end();

}  // namespace tremula::cli
