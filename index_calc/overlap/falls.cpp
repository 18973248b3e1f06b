// SPDX-License-Identifier: Apache-2.0
// FALLS: the blocks of one coordinate are a family of line segments (l, r, s, n): [l + i*s, r +
// i*s], i = 0 .. n-1. Two families are intersected within one period, for each coordinate of the
// other side. Member i of mine meets those members j of theirs with l2 + j*s2 <= r1 + i*s1 and r2 +
// j*s2 >= l1 + i*s1. The first such j is calculated, and the others follow in order; members that
// are completely inside member i also form a family and are found in one step. If a member of
// theirs may hold several of mine, the two families are swapped.
//
// Source: Ramaswamy & Banerjee 1995, "Automatic generation of efficient array redistribution
// routines"; ASPEN paper, Eq. (2). Bounds are inclusive there, half-open here.
#include <algorithm>

#include "index_calc/layout/blocks.hpp"
#include "index_calc/overlap/overlap_builder.hpp"

namespace tremula::index_calc {
namespace {

/// Calls emit(block, from, to, count) for the blocks of `small` that reach into `big`: [from, to)
/// of `block` is inside `big`, and so are all elements of the next count - 1 blocks.
/// @return number of blocks looked at, with a family counted as one
template <class Emit>
Index for_each_in(const Block& big, DealtBlocks small, Emit&& emit) {
  if (small.end <= big.begin) {
    small.skip(small.whole_blocks_within(big.begin - small.end));
    small.next();
  }
  Index steps = 0;
  for (; !small.is_at_end(); small.next()) {
    ++steps;
    if (small.begin >= big.end) break;
    const Index from = std::max(big.begin, small.begin), to = std::min(big.end, small.end);
    const bool begins_whole = from == small.begin && small.is_whole();
    const Index more = begins_whole ? small.whole_blocks_within(big.end - to) : 0;
    emit(small, from, to, 1 + more);
    small.skip(more);
  }
  return steps;
}

}  // namespace

Index falls(const BlockCyclic& mine, Index me, const BlockCyclic& theirs, std::vector<Piece>& out) {
  const bool lie_in_theirs = saturating_product(mine.block, mine.grid) < theirs.block;
  if (!lie_in_theirs)
    refuse_pairs(
        blocks_of_one(mine) * std::min(static_cast<double>(theirs.grid), blocks_of_all(theirs)),
        "falls intersects each block of one period with the blocks of each coordinate of the other "
        "side; choose the algorithm aspen, which looks only at the blocks");
  const DealtBlocks my_blocks(mine, me);
  Index steps = 0;
  for (Index peer = 0; peer < theirs.grid; ++peer) {
    const DealtBlocks their_blocks(theirs, peer);
    if (their_blocks.is_at_end()) break;
    const auto put = [&](const Block& i, const Block& j, Index from, Index to, Index count) {
      add(out, peer, i.local + (from - i.begin), j.local + (from - j.begin), to - from, count);
    };
    if (lie_in_theirs)
      for (DealtBlocks j = their_blocks; !j.is_at_end(); j.next())
        steps += for_each_in(j, my_blocks, [&](const Block& i, Index from, Index to, Index count) {
          put(i, j, from, to, count);
        });
    else
      for (DealtBlocks i = my_blocks; !i.is_at_end(); i.next())
        steps += for_each_in(
            i, their_blocks,
            [&](const Block& j, Index from, Index to, Index count) { put(i, j, from, to, count); });
  }
  return steps;
}

}  // namespace tremula::index_calc
