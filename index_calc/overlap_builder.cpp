// SPDX-License-Identifier: Apache-2.0
#include "index_calc/overlap_builder.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace tremula::index_calc {
namespace {

/// Sorts by peer and keeps the order of pieces of one peer: radix sort with a digit that never has
/// more values than there are pieces, so that neither time nor memory knows how many peers there
/// could be.
void sort_by_peer(std::vector<Piece>& pieces, Index peers) {
  const auto peer = [](const Piece& p) { return static_cast<std::size_t>(p.peer); };
  if (std::is_sorted(pieces.begin(), pieces.end(),
                     [](auto& a, auto& b) { return a.peer < b.peer; }))
    return;
  const int digit = std::clamp(static_cast<int>(std::bit_width(pieces.size())) - 1, 1, 11);
  const std::size_t mask = (std::size_t{1} << digit) - 1;
  std::vector<Piece> sorted(pieces.size());
  std::vector<std::size_t> place(mask + 1);
  for (int shift = 0; (static_cast<std::size_t>(peers - 1) >> shift) != 0; shift += digit) {
    std::fill(place.begin(), place.end(), std::size_t{0});
    for (const Piece& p : pieces) ++place[peer(p) >> shift & mask];
    std::size_t before = 0;
    for (std::size_t& n : place) before += std::exchange(n, before);
    for (const Piece& p : pieces) sorted[place[peer(p) >> shift & mask]++] = p;
    pieces.swap(sorted);
  }
}

}  // namespace

Overlaps OverlapsBuilder::build(std::vector<Piece> pieces, const Repetition& repetition) {
  Overlaps result;
  result.stride_ = repetition.stride;
  result.peer_stride_ = repetition.peer_stride;
  sort_by_peer(pieces, repetition.peers);

  // Turns become coordinates by a rotation: those that wrap around come first.
  const auto wraps = std::partition_point(pieces.begin(), pieces.end(), [&](const Piece& p) {
    return p.peer < repetition.peers - repetition.source;
  });
  result.segments_.reserve(pieces.size());
  const auto add = [&](auto begin, auto end, Index shift) {
    while (begin != end) {
      const auto stop =
          std::find_if(begin, end, [peer = begin->peer](const Piece& p) { return p.peer != peer; });
      Overlaps::List list{.begin = result.segments_.size(),
                          .count = static_cast<std::size_t>(stop - begin),
                          .repeat = repetition.repeat,
                          .tail = 0,
                          .tail_length = 0,
                          .elements = 0};
      Index in_period = 0, in_tail = 0;
      for (auto p = begin; p != stop; ++p) {
        result.segments_.push_back(p->segment);
        in_period += p->segment.length;
        if (p->segment.begin.value < repetition.rest) {
          ++list.tail;
          list.tail_length = std::min(p->segment.length, repetition.rest - p->segment.begin.value);
          in_tail += list.tail_length;
        }
      }
      list.elements = in_period * list.repeat + in_tail;
      result.peers_.push_back({begin->peer + shift});
      result.lists_.push_back(list);
      begin = stop;
    }
  };
  add(wraps, pieces.end(), repetition.source - repetition.peers);
  add(pieces.begin(), wraps, repetition.source);
  return result;
}

}  // namespace tremula::index_calc
