// SPDX-License-Identifier: Apache-2.0
// The classical algorithm: for each coordinate of the other side, my blocks and the peer's are laid
// beside each other along the whole extent. It knows no period.
//
// Source: ASPEN paper, Eq. (1).
#include <algorithm>

#include "index_calc/blocks.hpp"
#include "index_calc/overlap_builder.hpp"

namespace tremula::index_calc {

void classical(const Distribution& mine, Index me, const Distribution& theirs,
               std::vector<Piece>& out) {
  const auto intersect = [&](auto a, auto b, Index peer) {
    while (!a.is_at_end() && !b.is_at_end()) {
      const Index from = std::max(a.begin, b.begin), to = std::min(a.end, b.end);
      if (from < to) add(out, peer, a.local + from - a.begin, b.local + from - b.begin, to - from);
      a.end <= b.end ? a.next() : b.next();
    }
  };
  std::visit(
      [&](const auto& a, const auto& b) {
        for (Index peer = 0; peer < b.grid; ++peer)
          intersect(blocks_of(a, me), blocks_of(b, peer), peer);
      },
      mine, theirs);
}

}  // namespace tremula::index_calc
