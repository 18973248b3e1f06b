// SPDX-License-Identifier: Apache-2.0
// The classical algorithm: for each coordinate of the other side, my blocks and the peer's are laid
// beside each other along the whole extent. It knows no period.
//
// Source: ASPEN paper, Eq. (1).
#include <algorithm>

#include "index_calc/layout/blocks.hpp"
#include "index_calc/overlap/overlap_builder.hpp"

namespace tremula::index_calc {

Index classical(const Distribution& mine, Index me, const Distribution& theirs,
                std::vector<Piece>& out, Scan scan) {
  Index steps = 0;
  const auto compare = [&](const auto& a, const auto& b, Index peer) {
    ++steps;
    const Index from = std::max(a.begin, b.begin), to = std::min(a.end, b.end);
    if (from < to)
      add(out, peer, a.local + (from - a.begin), b.local + (from - b.begin), to - from);
  };
  const auto with_all = [&](auto a, const auto& first, Index peer) {
    for (; !a.is_at_end(); a.next())
      for (auto b = first; !b.is_at_end(); b.next()) compare(a, b, peer);
  };
  const auto with_next = [&](auto a, auto b, Index peer) {
    while (!a.is_at_end() && !b.is_at_end()) {
      compare(a, b, peer);
      a.end <= b.end ? a.next() : b.next();
    }
  };
  std::visit(
      [&](const auto& a, const auto& b) {
        for (Index peer = 0; peer < b.grid; ++peer)
          if (scan == Scan::all_pairs)
            with_all(blocks_of(a, me), blocks_of(b, peer), peer);
          else
            with_next(blocks_of(a, me), blocks_of(b, peer), peer);
      },
      mine, theirs);
  return steps;
}

}  // namespace tremula::index_calc
