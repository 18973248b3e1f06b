// SPDX-License-Identifier: Apache-2.0
#pragma once
// How the elements of a package are stored in both buffers of a copy, and how they are walked.
//
// Definitions. A package is the outer product of one segment list per dimension. Element i of a
// list has three numbers: my local index, the peer's local index and i itself, which counts on the
// wire. In either buffer of a copy, one of the three numbers times a step gives the position, so
// one walk serves all directions. A pack reads by my local index and writes by the number on the
// wire, an unpack does the opposite, and a copy between two ranks reads by one local index and
// writes by the other.
//
// An *axis* is one list as seen from both buffers, in bytes. It is the endless repetition of the
// list's period, cut off after the list's number of elements. So a tail needs no special case, and
// a *slice* is the same axis with another begin and end. An axis is walked in *bars*, elements that
// are equally spaced in both buffers, or in *combs*, equally spaced bars. A stretch of a package
// consists of a few *boxes*, which are outer products of slices.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>

#include "core/error.hpp"
#include "index_calc/pack/pack.hpp"

namespace tremula::index_calc {

/// Which number of an element determines its position in a buffer.
enum class Whose { mine, peer, wire };

/// Returns a * b modulo 2^64, because a step that no element takes may overflow.
constexpr std::ptrdiff_t wrapping_product(Index a, Index b) {
  return static_cast<std::ptrdiff_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

/// `count` equally spaced elements. Offsets and steps are in bytes.
struct Bar {
  Index count = 0;
  std::ptrdiff_t from = 0, to = 0;
  std::ptrdiff_t from_step = 0, to_step = 0;
};

/// `count` equally spaced bars, of which this is the first.
struct Comb {
  Bar bar;
  Index count = 0;
  std::ptrdiff_t from_step = 0, to_step = 0;
};

/// The elements of one list in one buffer.
struct Side {
  Whose whose = Whose::wire;
  std::ptrdiff_t step = 0;  ///< bytes from an element to the one with the next number
  Index family = 0;         ///< from one segment of a family to the next; unused on the wire
  Index turn = 0;           ///< from one turn of the period to the next

  /// Returns the offset of a segment in bytes.
  /// @param before  elements of the period before this segment
  std::ptrdiff_t at(const Segment& s, Index turns, Index before) const {
    const Index number = whose == Whose::mine   ? s.begin.value
                         : whose == Whose::peer ? s.peer_begin.value
                                                : before;
    return wrapping_product(number + turns * turn, step);
  }
  std::ptrdiff_t family_step(Index length) const {
    return wrapping_product(whose == Whose::wire ? length : family, step);
  }
};

class Axis {
public:
  Axis() = default;

  /// @param from_step, to_step  bytes between neighbours in the two buffers
  Axis(const SegmentList& list, Whose from, std::ptrdiff_t from_step, Whose to,
       std::ptrdiff_t to_step)
      : period_(list.period), index_(list.index), elements_(list.elements()) {
    if (index_ != nullptr)
      turn_elements_ = index_->before.back();
    else
      for (const Family& f : period_) turn_elements_ += f.count * f.first.length;
    // Turns of a single segment are one long family.
    is_family_ = period_.size() == 1 && period_[0].count == 1;
    const auto side = [&](Whose whose, std::ptrdiff_t step) {
      const bool is_mine = whose == Whose::mine;
      const Index turn = is_mine ? list.stride : list.peer_stride;
      const Index family = is_mine ? list.family_stride : list.family_peer_stride;
      return Side{.whose = whose,
                  .step = step,
                  .family = is_family_ ? turn : family,
                  .turn = whose == Whose::wire ? turn_elements_ : turn};
    };
    from_ = side(from, from_step);
    to_ = side(to, to_step);
    if (list.skip > 0) *this = slice(list.skip, elements_);
  }

  Index elements() const { return elements_; }
  std::ptrdiff_t from_step() const { return from_.step; }
  std::ptrdiff_t to_step() const { return to_.step; }

  /// Returns elements first .. first + count - 1 of this axis. O(families of one period)
  Axis slice(Index first, Index count) const {
    Axis result = *this;
    result.first_ = first_ + first;
    result.elements_ = count;
    result.start_ = {};
    if (is_family_) {
      result.start_.skip = result.first_;
      return result;
    }
    TREMULA_ASSERT(turn_elements_ > 0);
    result.start_.turn = result.first_ / turn_elements_;
    Index left = result.first_ % turn_elements_;
    if (index_ != nullptr) {
      const auto& before = index_->before;
      const auto family = std::upper_bound(before.begin(), before.end(), left) - before.begin() - 1;
      result.start_.family = static_cast<std::size_t>(family);
      result.start_.before = before[result.start_.family];
      result.start_.skip = left - result.start_.before;
      return result;
    }
    for (const Family& f : period_) {
      const Index all = f.count * f.first.length;
      if (left < all) break;
      left -= all;
      result.start_.before += all;
      ++result.start_.family;
    }
    result.start_.skip = left;
    return result;
  }

  /// Returns the first element, as a bar of one element.
  Bar first() const {
    Bar result;
    slice(0, 1).for_each_bar([&](const Bar& bar) { result = bar; });
    return result;
  }

  /// Returns whether neighbours are `step` bytes apart in both buffers.
  bool is_solid() const {
    if (index_ != nullptr && period_.size() > 1) return false;
    const Bar begin = first(), end = slice(elements_ - 1, 1).first();
    return end.from - begin.from == wrapping_product(elements_ - 1, from_.step) &&
           end.to - begin.to == wrapping_product(elements_ - 1, to_.step);
  }

  /// Calls visit(Bar) in ascending order.
  template <class Visit>
  void for_each_bar(Visit&& visit) const {
    for_each_comb([&]<class T>(const T& it) {
      if constexpr (std::is_same_v<T, Bar>) {
        visit(it);
      } else {
        Bar bar = it.bar;
        for (Index i = 0; i < it.count; ++i) {
          visit(std::as_const(bar));
          bar.from += it.from_step;
          bar.to += it.to_step;
        }
      }
    });
  }

  /// Returns an upper bound on the number of calls that for_each_comb makes.
  Index most_combs() const {
    constexpr Index of_ends = 4;  // families that begin or end within a segment
    if (is_family_) return 1 + of_ends;
    const Index turns = elements_ / turn_elements_ + 2;
    return turns * static_cast<Index>(period_.size()) + of_ends;
  }

  /// Calls visit(Bar) or, for several equal bars, visit(Comb) in ascending order.
  template <class Visit>
  void for_each_comb(Visit&& visit) const {
    Start at = start_;
    for (Index left = elements_;;) {
      const Family& f = period_[at.family];
      const Index size = f.count * f.first.length;
      const Index now = is_family_ ? left : std::min(left, size - at.skip);
      visit_family(f.first, at, now, visit);
      if ((left -= now) == 0) return;
      at.skip = 0;
      at.before += size;
      if (++at.family == period_.size()) at = {.turn = at.turn + 1};
    }
  }

private:
  struct Start {
    Index turn = 0;
    std::size_t family = 0;
    Index before = 0;  ///< elements of the period before the family
    Index skip = 0;    ///< elements of the family that are not visited
  };

  /// Visits `count` elements of a family.
  template <class Visit>
  void visit_family(const Segment& s, const Start& start, Index count, Visit& visit) const {
    const std::ptrdiff_t from = from_.at(s, start.turn, start.before),
                         to = to_.at(s, start.turn, start.before);
    const std::ptrdiff_t from_far = from_.family_step(s.length), to_far = to_.family_step(s.length);
    const auto bar = [&](Index elements, Index segment, Index skip, std::ptrdiff_t from_step,
                         std::ptrdiff_t to_step) {
      return Bar{.count = elements,
                 .from = from + segment * from_far + skip * from_step,
                 .to = to + segment * to_far + skip * to_step,
                 .from_step = from_step,
                 .to_step = to_step};
    };
    if (s.length == 1 && count > 1) return visit(bar(count, 0, start.skip, from_far, to_far));
    const auto part = [&](Index elements, Index segment, Index skip) {
      return bar(elements, segment, skip, from_.step, to_.step);
    };
    const bool is_touching = from_far == wrapping_product(s.length, from_.step) &&
                             to_far == wrapping_product(s.length, to_.step);
    if (is_touching || start.skip + count <= s.length) return visit(part(count, 0, start.skip));
    Index segment = start.skip / s.length;
    if (const Index skip = start.skip % s.length; skip > 0) {
      const Index now = std::min(count, s.length - skip);
      visit(part(now, segment++, skip));
      count -= now;
    }
    const Index whole = count / s.length, rest = count % s.length;
    if (whole > 0)
      visit(Comb{.bar = part(s.length, segment, 0),
                 .count = whole,
                 .from_step = from_far,
                 .to_step = to_far});
    if (rest > 0) visit(part(rest, segment + whole, 0));
  }

  std::span<const Family> period_;
  const FamilyIndex* index_ = nullptr;
  Index turn_elements_ = 0;
  bool is_family_ = false;
  Side from_, to_;
  Index first_ = 0, elements_ = 0;
  Start start_;
};

/// An outer product of axes, simplified for the kernels: elements that are contiguous in both buffers
/// form one unit, and axes of one element are dropped. Elements may have different widths in the
/// two buffers.
struct Walk {
  std::array<Axis, max_dimensions> axes{};    ///< outermost first
  std::size_t depth = 0;                      ///< axes in use
  std::ptrdiff_t from = 0, to = 0;            ///< byte offsets at which all axes start
  Index unit = 1;                             ///< elements that are contiguous in both buffers
  std::ptrdiff_t from_unit = 0, to_unit = 0;  ///< bytes of a unit
  /// Whether the last axis is the closest one in `to` and the last but one the closest one in
  /// `from`. If not, the last one is the closest in both.
  bool is_transposed = false;

  /// @param from_bytes, to_bytes    bytes of an element
  /// @param from_origin, to_origin  byte offsets of the element whose numbers are all 0
  Walk(std::span<const Axis> box, std::size_t from_bytes, std::ptrdiff_t from_origin,
       std::size_t to_bytes, std::ptrdiff_t to_origin)
      : from(from_origin),
        to(to_origin),
        from_unit(static_cast<std::ptrdiff_t>(from_bytes)),
        to_unit(static_cast<std::ptrdiff_t>(to_bytes)) {
    // If axes have equal steps, like the rows of a list and their pattern, the fastest on the wire
    // is the innermost.
    for (auto axis = box.rbegin(); axis != box.rend(); ++axis) axes[depth++] = *axis;
    while (absorb_one()) {
    }
    // Addresses in `to` ascend, except along the axis that is the closest one in `from`.
    const auto end = axes.begin() + static_cast<std::ptrdiff_t>(depth);
    std::stable_sort(axes.begin(), end,
                     [](const Axis& a, const Axis& b) { return a.to_step() > b.to_step(); });
    if (depth < 2) return;
    const auto close = std::min_element(axes.begin(), end, [](const Axis& a, const Axis& b) {
      return a.from_step() < b.from_step();
    });
    is_transposed = close->from_step() < (end - 1)->from_step();
    if (is_transposed) std::rotate(close, close + 1, end - 1);
  }

private:
  bool absorb_one() {
    const auto end = axes.begin() + static_cast<std::ptrdiff_t>(depth);
    const auto found = std::find_if(axes.begin(), end, [&](const Axis& axis) {
      return axis.elements() == 1 ||
             (axis.from_step() == from_unit && axis.to_step() == to_unit && axis.is_solid());
    });
    if (found == end) return false;
    const Bar begin = found->first();
    from += begin.from;
    to += begin.to;
    unit *= found->elements();
    from_unit *= found->elements();
    to_unit *= found->elements();
    std::copy(found + 1, end, found);
    --depth;
    return true;
  }
};

/// Calls visit(from, to, bytes) for all units along these axes, in their order; `from` and `to` are
/// byte offsets. Units that are neighbours in both buffers along the innermost axis are visited as
/// one.
/// @param axes  outermost axes of a walk whose units are equally wide in `from` and `to`; not
/// necessarily all of them
template <class Visit>
void for_each_run(std::span<const Axis> axes, std::ptrdiff_t unit, std::ptrdiff_t from,
                  std::ptrdiff_t to, const Visit& visit) {
  if (axes.empty()) return visit(from, to, unit);
  axes.front().for_each_bar([&](const Bar& bar) {
    if (axes.size() == 1 && bar.from_step == unit && bar.to_step == unit)
      return visit(from + bar.from, to + bar.to, unit * bar.count);
    for (Index i = 0; i < bar.count; ++i)
      for_each_run(axes.subspan(1), unit, from + bar.from + i * bar.from_step,
                   to + bar.to + i * bar.to_step, visit);
  });
}

/// Calls visit(box) for the boxes that make up a stretch, in wire order; a box has as many axes as
/// `axes`. There are at most 2 * dimensions - 1 boxes.
/// @param axes  axes of the whole package, the fastest on the wire first
template <class Visit>
void for_each_box(std::span<const Axis> axes, Stretch stretch, Visit&& visit) {
  std::array<Index, max_dimensions> weight{};  // distance on the wire from one index to the next
  for (std::size_t k = 0; k < axes.size(); ++k)
    weight[k] = k == 0 ? 1 : weight[k - 1] * axes[k - 1].elements();
  std::array<Axis, max_dimensions> box{};
  const Index end = stretch.first + stretch.count;
  for (Index at = stretch.first; at < end;) {
    // Take as many whole turns as fit along the slowest axis that is at the beginning of a turn.
    std::size_t slowest = axes.size() - 1;
    while (at % weight[slowest] != 0 || weight[slowest] > end - at) --slowest;
    const auto digit = [&](std::size_t k) { return at / weight[k] % axes[k].elements(); };
    const Index turns =
        std::min((end - at) / weight[slowest], axes[slowest].elements() - digit(slowest));
    for (std::size_t k = 0; k < axes.size(); ++k) {
      const bool is_whole = k < slowest || (k == slowest && turns == axes[k].elements());
      box[k] = is_whole ? axes[k] : axes[k].slice(digit(k), k == slowest ? turns : 1);
    }
    visit(std::span<const Axis>(box.data(), axes.size()));
    at += turns * weight[slowest];
  }
}

}  // namespace tremula::index_calc
