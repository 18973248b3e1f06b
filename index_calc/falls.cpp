// SPDX-License-Identifier: Apache-2.0
// FALLS: the blocks of one turn are a family of line segments (l, r, s, n): [l + i*s, r + i*s], i =
// 0 .. n-1. Two families are intersected within one period, for each turn of the other side in
// turn: member i of mine meets the members j of theirs with l2 + j*s2 <= r1 + i*s1 and r2 + j*s2 >=
// l1 + i*s1.
//
// Source: Ramaswamy & Banerjee 1995, "Automatic generation of efficient array redistribution
// routines"; ASPEN paper, Eq. (2). Bounds are inclusive there, half-open here.
#include <algorithm>

#include "index_calc/overlap_builder.hpp"

namespace tremula::index_calc {
namespace {

struct Family {
  Index left, right;  ///< the first member, [left, right)
  Index stride;       ///< from one member to the next
  Index block;        ///< elements of a member = local distance between members

  Family(const Deal& d, Index turn)
      : left(saturating_product(d.block, turn)),
        right(left > std::numeric_limits<Index>::max() - d.block ? std::numeric_limits<Index>::max()
                                                                 : left + d.block),
        stride(saturating_product(d.block, d.grid)),
        block(d.block) {}

  /// The first member that ends behind `at`.
  Index first_behind(Index at) const { return at < right ? 0 : (at - right) / stride + 1; }
};

}  // namespace

void falls(const Deal& mine, Index me, const Deal& theirs, Index end, std::vector<Piece>& out) {
  const Family my_family(mine, me);
  for (Index turn = 0; turn < theirs.grid; ++turn) {
    const Family their_family(theirs, turn);
    if (their_family.left >= end) break;
    for (Index i = 0, left = my_family.left; left < end; ++i, left += my_family.stride) {
      const Index right = std::min(end - left, my_family.block) + left;
      const Index first = their_family.first_behind(left);
      // Compared as distances, because the next member may lie beyond 63 bits.
      Index begin = their_family.left, j = first;
      if (first > 0 && (end - begin) / their_family.stride < first) continue;
      begin += first * their_family.stride;
      for (; begin < right; ++j, begin += their_family.stride) {
        const Index from = std::max(left, begin);
        const Index to = std::min(right - begin, their_family.block) + begin;
        out.push_back({turn,
                       {{i * my_family.block + from - left},
                        {j * their_family.block + from - begin},
                        to - from}});
        if (end - begin <= their_family.stride) break;
      }
      if (end - left <= my_family.stride) break;
    }
  }
}

}  // namespace tremula::index_calc
