// SPDX-License-Identifier: Apache-2.0
// The classical algorithm: for each coordinate of the other side, the blocks of mine and the blocks
// of theirs are laid beside each other along the whole extent. It knows no period and takes any
// distribution.
//
// Source: ASPEN paper, Eq. (1).
#include <algorithm>

#include "index_calc/blocks.hpp"
#include "index_calc/overlap_builder.hpp"

namespace tremula::index_calc {
void classical(const Distribution& mine, GridCoord me, const Distribution& theirs,
               std::vector<Piece>& out) {
  for (Index peer = 0; peer < grid(theirs); ++peer) {
    Blocks a(mine, me), b(theirs, {peer});
    while (!a.is_at_end() && !b.is_at_end()) {
      const Index from = std::max(a.begin, b.begin), to = std::min(a.end, b.end);
      if (from < to)
        out.push_back({peer, {{a.local + from - a.begin}, {b.local + from - b.begin}, to - from}});
      a.end <= b.end ? a.next() : b.next();
    }
  }
}

}  // namespace tremula::index_calc
