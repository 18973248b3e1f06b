// SPDX-License-Identifier: Apache-2.0
// The classical algorithm: for each coordinate of the other side, it walks my blocks and the peer's
// side by side along the whole extent. It does not use periods.
//
// Source: ASPEN paper, Eq. (1).
#include <algorithm>

#include "index_calc/layout/blocks.hpp"
#include "index_calc/overlap/overlap_builder.hpp"

namespace tremula::index_calc {

Index classical(const Distribution& mine, Index me, const Distribution& theirs,
                std::vector<Piece>& out) {
  Index steps = 0;
  const auto lay_beside = [&](auto a, auto b, Index peer) {
    while (!a.is_at_end() && !b.is_at_end()) {
      ++steps;
      const Index from = std::max(a.begin, b.begin), to = std::min(a.end, b.end);
      if (from < to)
        add(out, peer, a.local + (from - a.begin), b.local + (from - b.begin), to - from);
      a.end <= b.end ? a.next() : b.next();
    }
  };
  std::visit(
      [&](const auto& a, const auto& b) {
        refuse_pairs(static_cast<double>(b.grid) * blocks_of_one(a) + passed_for_all(b),
                     "classical compares the blocks of the whole extent with those of each "
                     "coordinate of the other side; choose the algorithm aspen, which looks only "
                     "at the blocks of one period");
        for (Index peer = 0; peer < b.grid; ++peer)
          lay_beside(blocks_of(a, me), blocks_of(b, peer), peer);
      },
      mine, theirs);
  return steps;
}

}  // namespace tremula::index_calc
