// SPDX-License-Identifier: Apache-2.0
// Runs are counted by an algebra of sequences: a sequence of elements is described by its number of
// runs, its first run, its last run and the extremes between them. Two sequences can be joined, and
// one can be repeated n times in log n steps, so segments, families, turns and dimensions are
// folded one into the next.
#include "index_calc/plan/runs.hpp"

#include <algorithm>
#include <limits>

namespace tremula::index_calc {
namespace {

/// A sequence of runs, in elements. The empty sequence is neutral.
struct Sequence {
  Index count = 0;
  Index first = 0, last = 0;  ///< lengths of the first and last run, the same run if count == 1
  Index longest = 0, shortest = std::numeric_limits<Index>::max();  ///< between first and last

  static Sequence of(Index elements) { return {.count = 1, .first = elements, .last = elements}; }

  void keep(Index run) {
    longest = std::max(longest, run);
    shortest = std::min(shortest, run);
  }
};

/// Returns `a` followed by `b`.
/// @param is_joined  whether the last element of `a` and the first of `b` are neighbours
Sequence then(Sequence a, const Sequence& b, bool is_joined) {
  if (a.count == 0) return b;
  if (b.count == 0) return a;
  Sequence result = a;
  result.longest = std::max(a.longest, b.longest);
  result.shortest = std::min(a.shortest, b.shortest);
  result.count = a.count + b.count - (is_joined ? 1 : 0);
  result.last = b.last;
  if (is_joined) {
    const Index middle = a.last + b.first;
    if (a.count == 1) result.first = middle;
    if (b.count == 1) result.last = middle;
    if (a.count > 1 && b.count > 1) result.keep(middle);
    return result;
  }
  if (a.count > 1) result.keep(a.last);
  if (b.count > 1) result.keep(b.first);
  return result;
}

Sequence repeated(Sequence one, Index times, bool is_joined) {
  Sequence result;
  while (times > 0) {
    if (times % 2 != 0) result = then(result, one, is_joined);
    if ((times /= 2) > 0) one = then(one, one, is_joined);
  }
  return result;
}

/// The fold over the elements of one list, each of which represents the sequence `one`.
class Folding {
public:
  /// @param onward  distance between two elements of the list whose sequences are joined; 0 if
  ///                they are never joined
  Folding(const SegmentList& list, const Sequence& one, Index onward)
      : list_(list), one_(one), onward_(onward) {}

  Sequence all() const {
    const Index turns_end = list_.repeat > 0 ? end_of(list_.period.back()) - list_.stride : 0;
    Sequence result;
    if (list_.repeat > 0)
      result = repeated(families(list_.period), list_.repeat, is_onward(turns_end));
    if (list_.tail == 0) return result;
    const auto tail = list_.period.first(static_cast<std::size_t>(list_.tail));
    Sequence rest = families(tail.first(tail.size() - 1));
    const Family& last = tail.back();
    Sequence shortened = segments(last.first.length, list_.tail_count - 1);
    shortened = then(shortened, segments(list_.tail_length, 1), is_in_family(last));
    const bool follows =
        tail.size() > 1 && neighbours(tail[tail.size() - 2], tail[tail.size() - 1]);
    return then(result, then(rest, shortened, follows), is_onward(turns_end));
  }

private:
  Index end_of(const Family& f) const {
    return f.first.begin.value + (f.count - 1) * list_.family_stride + f.first.length;
  }
  /// Returns whether the list's first element is joined to a preceding family or turn that ends at
  /// `end`.
  bool is_onward(Index end) const { return list_.first().begin.value - end + 1 == onward_; }
  bool neighbours(const Family& a, const Family& b) const {
    return b.first.begin.value - end_of(a) + 1 == onward_;
  }
  bool is_in_family(const Family& f) const {
    return list_.family_stride - f.first.length + 1 == onward_;
  }
  Sequence segments(Index length, Index count) const {
    const Sequence segment = repeated(one_, length, onward_ == 1);
    return repeated(segment, count, list_.family_stride - length + 1 == onward_);
  }
  Sequence families(std::span<const Family> some) const {
    Sequence result;
    for (std::size_t i = 0; i < some.size(); ++i)
      result = then(result, segments(some[i].first.length, some[i].count),
                    i > 0 && neighbours(some[i - 1], some[i]));
    return result;
  }

  const SegmentList& list_;
  const Sequence& one_;
  Index onward_;
};

/// Returns Folding(list, one, onward).all(), also for a list that is a slice.
Sequence folded(const SegmentList& list, const Sequence& one, Index onward) {
  if (list.skip == 0) return Folding(list, one, onward).all();
  // First comes the rest of the turn in which the slice begins; the later turns are a list that
  // skips nothing.
  const Index turn = list.repeat > 0 ? list.turn_elements() : list.skip + list.elements();
  const Index begun = list.skip % turn, elements = list.elements();
  const Index in_turn = begun == 0 ? 0 : std::min(turn - begun, elements);
  Sequence result;
  Index end = 0;  // end of the previous family
  if (in_turn > 0)
    list.slice(0, in_turn).for_each_family([&](const Family& f) {
      const bool follows = f.first.begin.value - end + 1 == onward;
      const Sequence segment = repeated(one, f.first.length, onward == 1);
      result = then(result,
                    repeated(segment, f.count, list.family_stride - f.first.length + 1 == onward),
                    follows);
      end = f.first.begin.value + (f.count - 1) * list.family_stride + f.first.length;
    });
  if (in_turn == elements) return result;
  SegmentList rest = list.slice(in_turn, elements - in_turn);
  const bool follows = rest.first().begin.value - end + 1 == onward;
  rest.repeat -= std::min(rest.repeat, rest.skip / turn);
  rest.skip = 0;
  return then(result, Folding(rest, one, onward).all(), follows);
}

/// Returns the distance from the first element of the list to the last, in local indices.
Index span_of(const SegmentList& list) {
  const Segment last = list.last();
  return last.begin.value + last.length - list.first().begin.value - 1;
}

}  // namespace

Runs runs(const Package& package, const LocalPart& part, Order order) {
  if (package.elements == 0) return {};
  // The fastest dimension comes first: a step of one element along d moves every faster dimension
  // back by its span. The run continues if the step leads to the next address.
  Sequence all = Sequence::of(1);
  Index span = 0;
  for (std::size_t k = 0; k < package.dimensions; ++k) {
    const std::size_t d = kth_fastest(order, package.dimensions, k);
    const SegmentList& list = package.along[d];
    const Index stride = part.stride[d];
    all = folded(list, all, (span + 1) % stride == 0 ? (span + 1) / stride : 0);
    span += span_of(list) * stride;
  }
  Runs result{.count = all.count,
              .longest = std::max(all.first, all.last),
              .shortest = std::min(all.first, all.last)};
  if (all.count > 2) {
    result.longest = std::max(result.longest, all.longest);
    result.shortest = std::min(result.shortest, all.shortest);
  }
  return result;
}

std::optional<Index> begin_of_only_run(const Package& package, const LocalPart& part, Order order) {
  if (runs(package, part, order).count != 1) return std::nullopt;
  Index first = part.first;
  for (std::size_t d = 0; d < package.dimensions; ++d)
    first += package.along[d].first().begin.value * part.stride[d];
  return first;
}

}  // namespace tremula::index_calc
