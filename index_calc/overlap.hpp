// SPDX-License-Identifier: Apache-2.0
#pragma once
// One dimension: which elements of my coordinate belong to which coordinate of the other side.
//
// Definitions. `mine` deals blocks of b elements to P coordinates, `theirs` blocks of B to Q coordinates; both
// cover the same extent n. A *segment* is a maximal run of elements that lie in one block of mine, in one block of
// theirs. The pattern of segments repeats with the period lcm(b*P, B*Q): only one period is stored.
//
// Sources: ASPEN paper, Eqs. (1), (2), (4); FALLS: Ramaswamy & Banerjee 1995; periodicity: Prylli & Tourancheau 1997.
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "index_calc/distribution.hpp"

namespace tremula::index_calc {

/// A run along one dimension that lies in one block of either side.
struct Segment {
  LocalIndex begin;       ///< in the local indices of the rank that made the plan
  LocalIndex peer_begin;  ///< in the local indices of the peer
  Index length = 0;       ///< elements, >= 1
  friend bool operator==(const Segment&, const Segment&) = default;
};

/// The segments of one pair of coordinates in ascending global order: `period` is walked `repeat` times, each turn
/// `stride` further in my local indices and `peer_stride` further in the peer's; then the first `tail` segments
/// once more (turn number `repeat`), the last of them with `tail_length` elements.
/// If repeat == 0, `period` holds just the tail's segments.
struct SegmentList {
  std::span<const Segment> period;
  Index repeat = 0, stride = 0, peer_stride = 0;
  Index tail = 0, tail_length = 0;

  Index elements() const noexcept;  ///< O(period)
  Index segments() const noexcept {  ///< O(1)
    return static_cast<Index>(period.size()) * repeat + tail;
  }

  /// Segment number i in ascending global order; 0 <= i < segments().  O(1)
  Segment operator[](Index i) const noexcept {
    const Index count = static_cast<Index>(period.size()), turn = i / count;
    Segment s = period[static_cast<std::size_t>(i % count)];
    s.begin.value += turn * stride;
    s.peer_begin.value += turn * peer_stride;
    if (i + 1 == segments() && tail > 0) s.length = tail_length;
    return s;
  }

  /// Calls visit(Segment) for each segment in ascending global order.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (Index turn = 0; turn <= repeat; ++turn) {
      const std::size_t count = turn < repeat ? period.size() : static_cast<std::size_t>(tail);
      for (std::size_t i = 0; i < count; ++i) {
        Segment s = period[i];
        s.begin.value += turn * stride;
        s.peer_begin.value += turn * peer_stride;
        if (turn == repeat && i + 1 == count) s.length = tail_length;
        visit(s);
      }
    }
  }

  /// Calls visit(begin, length) for each run of neighbours in my local indices: segments that touch are one run.
  template <class Visit>
  void for_each_run(Visit&& visit) const {
    Index begin = 0, length = 0;
    for_each([&](const Segment& s) {
      if (s.begin.value == begin + length) {
        length += s.length;
        return;
      }
      if (length > 0) visit(begin, length);
      begin = s.begin.value;
      length = s.length;
    });
    if (length > 0) visit(begin, length);
  }
};

enum class Algorithm { aspen, falls, classical };

std::string_view to_string(Algorithm a) noexcept;
/// @throws core::Error invalid_argument naming the three algorithms
Algorithm parse_algorithm(std::string_view text);

/// All that coordinate `me` of `mine` shares with the coordinates of `theirs`. Owns the segments.
class Overlaps {
 public:
  /// Peers (coordinates of theirs) with at least one element in common, ascending.
  std::span<const GridCoord> peers() const noexcept { return peers_; }
  std::size_t size() const noexcept { return peers_.size(); }
  /// The list of peers()[i]. Valid as long as this object.
  SegmentList operator[](std::size_t i) const noexcept;
  /// Elements in common with peers()[i].  O(1)
  Index elements(std::size_t i) const noexcept;
  std::size_t memory_bytes() const noexcept;

 private:
  friend class OverlapsBuilder;
  std::vector<GridCoord> peers_;
  std::vector<Segment> segments_;
  struct List {
    std::size_t begin = 0, count = 0;
    Index repeat = 0, tail = 0, tail_length = 0, elements = 0;
  };
  std::vector<List> lists_;
  Index stride_ = 0, peer_stride_ = 0;
};

/// @pre both are valid and have the same extent; 0 <= me < grid(mine)
Overlaps overlaps(const Distribution& mine, GridCoord me, const Distribution& theirs,
                  Algorithm algorithm = Algorithm::aspen);

}  // namespace tremula::index_calc
