// SPDX-License-Identifier: Apache-2.0
#pragma once
// Redistributions between random sides, at least one of which lists what its ranks own.
#include "cli/plan/redistribution.hpp"
#include "tests/index_calc/lists/random_lists.hpp"

namespace tremula::cli::testing {

using index_calc::testing::Random;
using Sides = std::pair<index_calc::testing::Side, index_calc::testing::Side>;

inline std::optional<std::vector<index_calc::IndexList>> lists_of(
    const index_calc::testing::Side& side) {
  if (!side.layout.front().listed()) return std::nullopt;
  std::vector<index_calc::IndexList> lists;
  for (const auto& layout : side.layout) lists.push_back(*layout.listed()->mine);
  return lists;
}

/// @param is_sink  whether consumers may list elements several times and have places without one
inline Sides random_sides(Random& random, const std::vector<Index>& shape, bool is_sink = false) {
  Sides sides{random_side(random, shape, true), {}};
  sides.second =
      random_side(random, shape, sides.first.layout.front().listed() != nullptr, is_sink);
  return sides;
}

inline Redistribution redistribution_of(const Sides& sides, Side side) {
  Redistribution r{
      .from = sides.first.layout.front(), .to = sides.second.layout.front(), .side = side};
  r.lists = match_all(r.from, r.to, lists_of(sides.first), lists_of(sides.second));
  return r;
}

inline RankPlan plan_of(const Redistribution& r, Rank rank) {
  return {.rank = rank, .plan = make_plan(r, r.side, rank), .part = planned_part(r, r.side, rank)};
}

}  // namespace tremula::cli::testing
