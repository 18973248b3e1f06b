// SPDX-License-Identifier: Apache-2.0
#pragma once
// The output of `tremula plan --json`, piece by piece, because a program may ask for the plans of
// very many ranks. The form is an interface, documented in README.md of this folder.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/plan/redistribution.hpp"

namespace tremula::cli {

/// `repeat` segments of `length` elements, the i-th at `begin + i * stride` in the local indices of
/// the rank and at `peer_begin + i * peer_stride` in those of the peer.
struct RepeatedSegment {
  Index begin = 0, peer_begin = 0, length = 0;
  Index repeat = 1, stride = 0, peer_stride = 0;
};

/// Returns a segment list with one level of repetition: every element once, not in wire order. It
/// has as few entries as that allows: for each family, the smaller of its numbers of segments and
/// turns.
std::vector<RepeatedSegment> flattened(const index_calc::SegmentList& list);

/// Returns the text before the first rank.
std::string plan_json_begin(const Redistribution& redistribution);
/// Writes one rank, in pieces of at most one package.
void plan_json_rank(const Redistribution& redistribution, const RankPlan& plan, bool is_first,
                    const std::function<void(std::string_view)>& print);
/// Returns the text after the last rank.
std::string plan_json_end();

}  // namespace tremula::cli
