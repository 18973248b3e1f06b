// SPDX-License-Identifier: Apache-2.0
#pragma once
// One dimension: which elements of my coordinate belong to which coordinate of the other side.
//
// Definitions. `mine` has blocks of b elements on P coordinates, `theirs` blocks of B on Q
// coordinates; both cover the same extent n. A *segment* is a maximal run of consecutive elements
// that one coordinate of mine and one of theirs own. It is inside one block of each side, where
// neighbouring blocks (or intervals) of one coordinate count as one block. The pattern of segments
// repeats with the period lcm(b*P, B*Q): only one period is stored, beginning with element 0. (If
// both sides have a cut, blocks of both may extend across the border of two periods, which then
// divides the segment.) If a block of one side is longer than a whole round b*P of the other, the
// segments in it form equally spaced *families*, and only the first segment of each is stored. So
// the cost of a plan depends neither on the extent nor on the blocks inside blocks.
//
// Sources: ASPEN paper, Eqs. (1), (2), (4); FALLS: Ramaswamy & Banerjee 1995; periodicity: Prylli &
// Tourancheau 1997.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "index_calc/layout/distribution.hpp"

namespace tremula::index_calc {

/// A run along one dimension that is inside one block of each side.
struct Segment {
  LocalIndex begin;       ///< local index on the rank that made the plan
  LocalIndex peer_begin;  ///< local index on the peer
  Index length = 0;       ///< elements, >= 1
  friend bool operator==(const Segment&, const Segment&) = default;
};

/// `count` segments of one length at equal distances (the line segments of FALLS). SegmentList
/// holds the distances.
struct Family {
  Segment first;
  Index count = 1;
};

/// Sums and bounds of a list whose families may be in any order of local indices. They make a walk
/// over all families unnecessary.
struct FamilyIndex {
  std::vector<Index> before;    ///< elements before each family, then all; shape: [families + 1]
  Index end = 0, peer_end = 0;  ///< exclusive upper bounds of the local indices
};

/// The segments of one pair of coordinates in ascending global order. `period` is walked `repeat`
/// times, each turn `stride` further in my local indices and `peer_stride` further in the peer's.
/// Then the first `tail` families are walked once more (turn number `repeat`). The last of these
/// families has `tail_count` segments, and the last of its segments has `tail_length` elements. If
/// repeat == 0, `period` holds only the families of the tail.
///
/// Example: mine is cyclic on 2 coordinates, theirs has blocks of 6 on 2 coordinates, and the
/// extent is 24. Coordinate 0 of mine shares the elements 0 2 4, 12 14 16 with peer 0. Their local
/// indices are 0 1 2, 6 7 8 in mine and 0 2 4, 6 8 10 in theirs. The list has one family of 3
/// segments of 1 element, family_stride 1 and family_peer_stride 2; repeat 2, stride 6 and
/// peer_stride 6; no tail.
///
/// A slice of a list is a list with the same period but without its first `skip` elements.
struct SegmentList {
  std::span<const Family> period;
  Index family_stride = 0, family_peer_stride = 0;  ///< from one segment of a family to the next
  Index repeat = 0, stride = 0, peer_stride = 0;
  Index tail = 0, tail_count = 0, tail_length = 0;
  Index skip = 0;  ///< elements left out at the beginning
  /// Sums and bounds of a list that has no turns and whose local indices need not ascend; null if
  /// the local indices ascend.
  const FamilyIndex* index = nullptr;

  Index elements() const noexcept;       ///< O(period)
  Index turn_elements() const noexcept;  ///< elements of one walk over the period
  /// Returns the segment that holds the first element; if `skip` is not 0, that element alone. If the
  /// list ends inside the segment, `length` does not show that.
  Segment first() const noexcept;
  /// Returns the segment that holds the last element, from its beginning even if `skip` ends inside it.
  Segment last() const noexcept;
  /// Returns elements first .. first + count - 1 as a list on the same memory. O(period)
  /// @pre first >= 0, count >= 1, first + count <= elements()
  SegmentList slice(Index first, Index count) const noexcept;

  /// Calls visit(Family) for each family of each turn, in ascending global order. A shortened first
  /// or last segment is visited as a separate family.
  template <class Visit>
  void for_each_family(Visit&& visit) const {
    if (skip == 0)
      for_each_family_unskipped(visit);
    else
      for_each_family_behind_skip(visit);
  }

  /// Calls visit(Segment) for each segment in ascending global order.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for_each_family([&](const Family& f) {
      for (Index i = 0; i < f.count; ++i) visit(moved(f.first, 0, i));
    });
  }

private:
  template <class Visit>
  void for_each_family_unskipped(Visit&& visit) const {
    for (Index turn = 0; turn < repeat; ++turn)
      for (const Family& f : period) visit(Family{moved(f.first, turn, 0), f.count});
    for (Index i = 0; i + 1 < tail; ++i) {
      const Family& f = period[static_cast<std::size_t>(i)];
      visit(Family{moved(f.first, repeat, 0), f.count});
    }
    if (tail == 0) return;
    const Segment& s = period[static_cast<std::size_t>(tail - 1)].first;
    if (s.length == tail_length) return visit(Family{moved(s, repeat, 0), tail_count});
    if (tail_count > 1) visit(Family{moved(s, repeat, 0), tail_count - 1});
    visit(Family{last(), 1});
  }
  template <class Visit>
  void for_each_family_behind_skip(Visit&& visit) const {
    SegmentList all = *this;
    all.skip = 0;
    Index left = skip, turns = 0;
    if (index != nullptr) {
      const auto passed = static_cast<std::size_t>(family_with(skip));
      left -= index->before[passed];
      all.period = period.subspan(passed);
      all.tail -= static_cast<Index>(passed);
      all.index = nullptr;
    }
    if (repeat > 0) {
      turns = std::min(skip / turn_elements(), repeat);
      left -= turns * turn_elements();
      all.repeat -= turns;
    }
    all.for_each_family_unskipped([&](Family f) {
      f.first = moved(f.first, turns, 0);
      const Index whole = std::min(left / f.first.length, f.count);
      left -= whole * f.first.length;
      f = {moved(f.first, 0, whole), f.count - whole};
      if (f.count == 0) return;
      if (left > 0) {
        Segment rest = f.first;
        rest.begin.value += left;
        rest.peer_begin.value += left;
        rest.length -= left;
        left = 0;
        visit(Family{rest, 1});
        f = {moved(f.first, 0, 1), f.count - 1};
      }
      if (f.count > 0) visit(f);
    });
  }
  /// Returns the number of the family that holds element `i`.  @pre index
  Index family_with(Index i) const noexcept;
  Segment moved(Segment s, Index turns, Index segments) const noexcept {
    s.begin.value += turns * stride + segments * family_stride;
    s.peer_begin.value += turns * peer_stride + segments * family_peer_stride;
    return s;
  }
};

enum class Algorithm { aspen, falls, classical };

std::string_view to_string(Algorithm a) noexcept;
/// @throws core::Error invalid_argument naming the three algorithms
Algorithm parse_algorithm(std::string_view text);

/// Everything that coordinate `me` of `mine` shares with the coordinates of `theirs`. Owns the
/// segments.
class Overlaps {
public:
  /// Returns the peers (coordinates of theirs) with at least one element in common, ascending.
  std::span<const GridCoord> peers() const noexcept { return peers_; }
  std::size_t size() const noexcept { return peers_.size(); }
  /// Returns the list of peers()[i]. It stays valid while this object exists or, after a move,
  /// while the object moved to exists.
  SegmentList operator[](std::size_t i) const noexcept;
  /// Returns the number of elements in common with peers()[i].  O(1)
  Index elements(std::size_t i) const noexcept { return lists_[i].elements; }
  std::size_t memory_bytes() const noexcept;
  /// Returns the number of families stored in all lists.
  std::size_t families() const noexcept { return families_.size(); }
  /// Returns the number of steps that the algorithm took. For aspen, a step looks at one block of
  /// mine or one family of them: N_local of Eq. (4). For falls and classical, a step looks at one
  /// pair of blocks: those of Eqs. (2) and (1), over all peers. Pairs that are skipped, because a
  /// walk goes on from the last pair or a family counts as one, are not steps.
  Index steps() const noexcept { return steps_; }

private:
  friend class OverlapsBuilder;
  struct List {
    std::size_t begin = 0;  ///< in families_; the list ends where the next one begins
    Index tail = 0, tail_count = 0, tail_length = 0, elements = 0;
  };
  std::vector<GridCoord> peers_;
  std::vector<List> lists_;
  std::vector<Family> families_;
  Index family_stride_ = 0, family_peer_stride_ = 0;
  Index repeat_ = 0, stride_ = 0, peer_stride_ = 0;
  Index steps_ = 0;
};

/// Calculates what coordinate `me` of `mine` shares with every coordinate of `theirs`, with any of
/// the three algorithms. They agree on every segment except those that the border of a period
/// divides, because classical does not use periods. If a side is Splits, aspen is used instead of
/// falls, which supports only BlockCyclic.
/// @pre both are valid
/// @throws core::Error invalid_argument if the extents differ or `me` is not a coordinate of mine;
/// unsupported if there are more than 2^24 families to hold, or if falls or classical would look at
/// more than 2^30 pairs of a block (of Splits: an interval) and a coordinate
///
/// Cost of aspen: the blocks of mine and the families in one period (plus O(intervals) for Splits).
/// Cost of falls: the blocks of mine in one period for each coordinate of theirs. Cost of
/// classical: the blocks of both in the whole extent, those of mine once for each coordinate of
/// theirs, and likewise all intervals of theirs if it is Splits.
Overlaps overlaps(const Distribution& mine, GridCoord me, const Distribution& theirs,
                  Algorithm algorithm = Algorithm::aspen);

/// Calculates overlaps() repeatedly in the same memory: a call that needs no more memory than an
/// earlier one allocates nothing (except for Splits, which are copied).
class OverlapFinder {
public:
  OverlapFinder();
  ~OverlapFinder();
  OverlapFinder(OverlapFinder&&) noexcept;
  OverlapFinder& operator=(OverlapFinder&&) noexcept;

  /// Returns what overlaps() returns. The result is valid until the next call.
  const Overlaps& find(const Distribution& mine, GridCoord me, const Distribution& theirs,
                       Algorithm algorithm = Algorithm::aspen);

private:
  std::unique_ptr<class OverlapsBuilder> builder_;
};

}  // namespace tremula::index_calc
