// SPDX-License-Identifier: Apache-2.0
// FALLS: the blocks of one coordinate are a family of line segments (l, r, s, n): [l + i*s, r +
// i*s], i = 0 .. n-1. Two families are intersected within one period, for each coordinate of the
// other side: member i of mine meets those members j of theirs with l2 + j*s2 <= r1 + i*s1 and r2 +
// j*s2 >= l1 + i*s1. The first such j is calculated, the others follow onward.
//
// Source: Ramaswamy & Banerjee 1995, "Automatic generation of efficient array redistribution
// routines"; ASPEN paper, Eq. (2). Bounds are inclusive there, half-open here.
#include <algorithm>

#include "index_calc/layout/blocks.hpp"
#include "index_calc/overlap/overlap_builder.hpp"

namespace tremula::index_calc {

Index falls(const Distribution& mine, Index me, const Distribution& theirs, std::vector<Piece>& out,
            Scan scan) {
  const auto& a = std::get<BlockCyclic>(mine);
  const auto& b = std::get<BlockCyclic>(theirs);
  Index steps = 0;
  for (Index peer = 0; peer < b.grid; ++peer) {
    const DealtBlocks family(b, peer);
    if (family.is_at_end()) break;
    for (DealtBlocks i(a, me); !i.is_at_end(); i.next()) {
      DealtBlocks j = family;
      if (scan == Scan::onward && j.end <= i.begin) {
        j.skip(j.whole_blocks_within(i.begin - j.end));
        j.next();
      }
      for (; !j.is_at_end(); j.next()) {
        ++steps;
        if (scan == Scan::onward && j.begin >= i.end) break;
        const Index from = std::max(i.begin, j.begin), to = std::min(i.end, j.end);
        if (from < to)
          add(out, peer, i.local + (from - i.begin), j.local + (from - j.begin), to - from);
      }
    }
  }
  return steps;
}

}  // namespace tremula::index_calc
