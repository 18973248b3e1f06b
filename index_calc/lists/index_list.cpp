// SPDX-License-Identifier: Apache-2.0
#include "index_calc/lists/index_list.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "index_calc/basics/check.hpp"
#include "index_calc/layout/blocks.hpp"
#include "index_calc/layout/process_grid.hpp"

namespace tremula::index_calc {
namespace {

std::string joined(std::span<const Index> numbers) {
  return fmt::format("{}", fmt::join(numbers, "x"));
}

void expect_inside(std::span<const Index> shape, Index all, Index begin, Index length) {
  if (length >= 0 && begin >= 0 && begin <= all && length <= all - begin) return;
  check(
      false,
      "index list: expected element numbers from 0 to {} in an array of {}, found a run of {} "
      "beginning with number {}: list elements of the array, or {} for a place without an element",
      all - 1, joined(shape), length, begin, no_element);
}

/// Throws if a buffer of `places` places cannot grow by `more`.
void expect_countable(std::span<const Index> shape, Index places, Index more) {
  if (more <= beyond - places) return;
  check(false,
        "index list: expected a buffer of at most 2^63 - 1 places, found more for an array of {}: "
        "list fewer elements, or fewer places without one",
        joined(shape));
}

/// Consecutive elements that one coordinate owns along a dimension.
struct Stretched {
  Index global = 0, local = 0, length = 0;
};

std::vector<Stretched> owned_along(const Distribution& d, GridCoord c) {
  std::vector<Stretched> owned;
  for_each_block(d, c, [&](const Block& block) {
    const Index length = block.end - block.begin;
    if (!owned.empty() && owned.back().global + owned.back().length == block.begin)
      owned.back().length += length;
    else
      owned.push_back({block.begin, block.local, length});
  });
  return owned;
}

/// Splits a run at the ends of rows along the last dimension, and calls visit(index, place, count)
/// for each piece of `count` elements. Its first element is at `index` in the array and at `place`
/// in the buffer.
template <class Visit>
void for_each_row(std::span<const Index> shape, const ListRun& run, Visit&& visit) {
  const std::size_t last = shape.size() - 1;
  std::array<Index, max_dimensions> index{};
  for (Index done = 0; done < run.length;) {
    Index number = run.global + done;
    for (std::size_t d = shape.size(); d-- > 0; number /= shape[d]) index[d] = number % shape[d];
    const Index count = std::min(run.length - done, shape[last] - index[last]);
    visit(index, run.local + done, count);
    done += count;
  }
}

/// Returns the number and the place of a run, by which runs are sorted.
std::pair<Index, Index> begin_of(const ListRun& run) { return {run.global, run.local}; }

/// Adds pieces of runs that are cut at each other's ends.
void add_cut(std::span<const ListRun> runs, std::vector<ListRun>& pieces) {
  std::vector<Index> ends;
  for (const ListRun& run : runs) ends.insert(ends.end(), {run.global, run.end()});
  std::ranges::sort(ends);
  const auto first = static_cast<std::ptrdiff_t>(pieces.size());
  for (ListRun run : runs) {
    const Index last = run.end();
    for (auto end = std::ranges::upper_bound(ends, run.global); run.length > 0;
         end = std::upper_bound(end, ends.end(), *end)) {
      const Index length = std::min(*end, last) - run.global;
      pieces.push_back({run.global, run.local, length});
      run = {run.global + length, run.local + length, run.length - length};
    }
  }
  std::ranges::sort(pieces.begin() + first, pieces.end(), {}, begin_of);
}

/// Returns the runs, cut where they overlap, so that two of them have all their elements in common
/// or none. The runs ascend.
std::vector<ListRun> cut_where_they_overlap(std::span<const ListRun> runs) {
  std::vector<ListRun> pieces;
  pieces.reserve(runs.size());
  for (auto first = runs.begin(); first != runs.end();) {
    auto last = first;
    Index covered = first->end();
    bool are_alike = true;
    for (; last != runs.end() && last->global < covered; ++last) {
      are_alike = are_alike && last->global == first->global && last->length == first->length;
      covered = std::max(covered, last->end());
    }
    if (are_alike)
      pieces.insert(pieces.end(), first, last);
    else
      add_cut({first, last}, pieces);
    first = last;
  }
  return pieces;
}

Listed with_list(Listed rules, std::optional<IndexList> list) {
  rules.elements = list ? list->elements() : 0;
  rules.allocated = list ? list->allocated() : 0;
  rules.mine = list ? std::make_shared<const IndexList>(*std::move(list)) : nullptr;
  return rules;
}

}  // namespace

Layout listed_layout(std::span<const Index> shape, RankCount ranks, bool is_partial,
                     bool has_copies, IndexList list) {
  Listed rules{.shape = {shape.begin(), shape.end()},
               .ranks = ranks,
               .is_partial = is_partial,
               .has_copies = has_copies};
  return Layout(with_list(std::move(rules), std::move(list)));
}

Layout listed_layout(std::span<const Index> shape, const Layout& layout,
                     std::optional<IndexList> list) {
  Listed rules = *layout.listed();
  rules.shape.assign(shape.begin(), shape.end());
  return Layout(with_list(std::move(rules), std::move(list)), layout.ranks());
}

std::string element_text(std::span<const Index> shape, Index number) {
  std::vector<Index> index(shape.size());
  for (std::size_t d = shape.size(); d-- > 0;) {
    index[d] = number % shape[d];
    number /= shape[d];
  }
  return fmt::format("({})", fmt::join(index, ", "));
}

void IndexList::add(Index global, Index local, Index length) {
  if (length == 0) return;
  elements_ += length;
  allocated_ = std::max(allocated_, local + length);
  if (!runs_.empty() && runs_.back().global + runs_.back().length == global &&
      runs_.back().local + runs_.back().length == local)
    runs_.back().length += length;
  else
    runs_.push_back({global, local, length});
}

void IndexList::finish() {
  if (!std::ranges::is_sorted(runs_, {}, begin_of)) std::ranges::sort(runs_, {}, begin_of);
  std::size_t joined_runs = 0;
  Index covered = 0;
  for (const ListRun& run : runs_) {
    has_repeats_ = has_repeats_ || run.global < covered;
    covered = std::max(covered, run.end());
    ListRun* const last = joined_runs > 0 ? &runs_[joined_runs - 1] : nullptr;
    if (last != nullptr && last->global + last->length == run.global &&
        last->local + last->length == run.local)
      last->length += run.length;
    else
      runs_[joined_runs++] = run;
  }
  runs_.resize(joined_runs);
  if (has_repeats_) runs_ = cut_where_they_overlap(runs_);
}

void IndexList::expect_source(std::span<const Index> shape) const {
  const auto refuse = [](const std::string& found) {
    check(false,
          "index list: expected each listed element once, and an element at every place of the "
          "buffer, on a rank that sends, found {}: list each element once and leave no place "
          "without one",
          found);
  };
  const auto twice = std::ranges::adjacent_find(runs_, {}, &ListRun::global);
  if (twice != runs_.end())
    refuse(fmt::format("element {} at places {} and {}", element_text(shape, twice->global),
                       twice->local, twice[1].local));
  if (elements_ == allocated_) return;
  std::vector<ListRun> by_place(runs_.begin(), runs_.end());
  std::ranges::sort(by_place, {}, &ListRun::local);
  Index place = 0;
  for (const ListRun& run : by_place) {
    if (run.local > place) break;
    place = run.local + run.length;
  }
  refuse(fmt::format("no element at place {}", place));
}

void expect_source(const Layout& layout) {
  const Listed* const listed = layout.listed();
  if (listed != nullptr && listed->mine != nullptr) listed->mine->expect_source(listed->shape);
}

IndexList IndexList::of_points(std::span<const Index> shape, std::span<const Index> points) {
  const Index all = elements_of(shape);
  IndexList list;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (points[i] == no_element) continue;
    if (points[i] < 0 || points[i] >= all) expect_inside(shape, all, points[i], 1);
    list.add(points[i], static_cast<Index>(i), 1);
  }
  list.finish();
  list.allocated_ = static_cast<Index>(points.size());
  return list;
}

IndexList IndexList::of_segments(std::span<const Index> shape, std::span<const Index> begins,
                                 std::span<const Index> lengths) {
  check(begins.size() == lengths.size(),
        "index list: expected as many lengths as begins, found {} and {}", lengths.size(),
        begins.size());
  const Index all = elements_of(shape);
  IndexList list;
  Index place = 0;
  for (std::size_t i = 0; i < begins.size(); ++i) {
    const bool is_empty = begins[i] == no_element && lengths[i] >= 0;
    if (!is_empty) expect_inside(shape, all, begins[i], lengths[i]);
    expect_countable(shape, place, lengths[i]);
    if (!is_empty) list.add(begins[i], place, lengths[i]);
    place += lengths[i];
  }
  list.finish();
  list.allocated_ = place;
  return list;
}

IndexList IndexList::of_boxes(std::span<const Index> shape, std::span<const Index> origins,
                              std::span<const Index> extents) {
  const std::size_t dimensions = shape.size();
  check(
      origins.size() == extents.size() && origins.size() % dimensions == 0,
      "index list: expected {} numbers for each box, both in origins and in extents, found {} and "
      "{} numbers in all",
      dimensions, origins.size(), extents.size());
  IndexList list;
  std::vector<Index> at(dimensions);
  for (std::size_t box = 0; box < origins.size(); box += dimensions) {
    const auto origin = origins.subspan(box, dimensions), extent = extents.subspan(box, dimensions);
    bool is_empty = false;
    for (std::size_t d = 0; d < dimensions; ++d) {
      if (origin[d] < 0 || extent[d] < 0 || origin[d] > shape[d] ||
          extent[d] > shape[d] - origin[d])
        check(false, "index list: expected boxes inside an array of {}, found one of {} at {}",
              joined(shape), joined(extent), joined(origin));
      is_empty = is_empty || extent[d] == 0;
    }
    if (is_empty) continue;
    std::ranges::copy(origin, at.begin());
    const std::size_t last = dimensions - 1;
    for (bool is_next = true; is_next;) {
      Index number = 0;
      for (std::size_t d = 0; d < dimensions; ++d) number = number * shape[d] + at[d];
      expect_countable(shape, list.elements_, extent[last]);
      list.add(number, list.elements_, extent[last]);
      is_next = false;
      for (std::size_t d = last; d-- > 0 && !is_next;) {
        is_next = ++at[d] < origin[d] + extent[d];
        if (!is_next) at[d] = origin[d];
      }
    }
  }
  list.finish();
  return list;
}

void IndexList::add_blocks(const Skewed& skewed, Order order, const GridCoords& coords) {
  const OwnedBlocks blocks = owned_blocks(skewed);
  const std::size_t dimensions = blocks.dimensions();
  Index place = 0;
  blocks.for_each_block(owner_coords(coords), [&](const BlockNumbers& block) {
    std::array<Index, max_dimensions> stride{};
    Index step = 1;
    for (std::size_t k = 0; k < dimensions; ++k) {
      const std::size_t d = kth_fastest(order, dimensions, k);
      stride[d] = step;
      step *= blocks.cuts(d).size(block[d]);
    }
    const auto add_along = [&](const auto& deeper, std::size_t d, Index number, Index at) -> void {
      if (d == dimensions) return add(number, at, 1);
      const BlockCuts& cuts = blocks.cuts(d);
      number = number * cuts.extent() + cuts.begin(block[d]);
      const Index count = cuts.size(block[d]);
      if (d + 1 == dimensions && stride[d] == 1) return add(number, at, count);
      for (Index i = 0; i < count; ++i) deeper(deeper, d + 1, number + i, at + i * stride[d]);
    };
    add_along(add_along, 0, 0, place);
    place += step;
  });
}

IndexList IndexList::selected(std::span<const Index> shape, std::span<const Index> origin,
                              std::span<const Index> extents) const {
  const std::size_t last = shape.size() - 1;
  IndexList list;
  for (const ListRun& run : runs_)
    for_each_row(shape, run, [&](const auto& index, Index place, Index count) {
      Index number = 0;
      for (std::size_t d = 0; d < last; ++d) {
        if (index[d] < origin[d] || index[d] >= origin[d] + extents[d]) return;
        number = number * extents[d] + index[d] - origin[d];
      }
      const Index begin = std::max(index[last], origin[last]);
      const Index end = std::min(index[last] + count, origin[last] + extents[last]);
      if (begin < end)
        list.add(number * extents[last] + begin - origin[last], place + begin - index[last],
                 end - begin);
    });
  if (has_repeats_) list.finish();
  list.allocated_ = allocated_;
  return list;
}

IndexList IndexList::permuted(std::span<const Index> shape,
                              std::span<const std::size_t> axes) const {
  // stride[d]: increase of the number in the permuted array along dimension d of this one
  std::array<Index, max_dimensions> stride{};
  Index step = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    stride[axes[d]] = step;
    step = saturating_product(step, shape[axes[d]]);  // an extent may be 0
  }
  const Index along = stride[shape.size() - 1];
  IndexList list;
  for (const ListRun& run : runs_)
    for_each_row(shape, run, [&](const auto& index, Index place, Index count) {
      Index number = 0;
      for (std::size_t d = 0; d < shape.size(); ++d) number += index[d] * stride[d];
      if (along == 1) return list.add(number, place, count);
      for (Index i = 0; i < count; ++i) list.add(number + i * along, place + i, 1);
    });
  list.finish();
  list.allocated_ = allocated_;
  return list;
}

IndexList IndexList::of_layout(const Layout& layout, Rank me, const LocalPart& part) {
  IndexList list;
  const auto coords = coords_of(layout, me);
  if (!coords || part.elements == 0) return list;
  if (const Skewed* const skewed = layout.skewed()) {
    list.add_blocks(*skewed, layout.storage().order, *coords);
    list.finish();
    return list;
  }
  const Grid& grid = expect_grid(layout, "list of what a rank owns");
  const std::size_t dimensions = grid.dims.size(), last = dimensions - 1;
  std::vector<std::vector<Stretched>> owned;
  owned.reserve(dimensions);
  for (std::size_t d = 0; d < dimensions; ++d)
    owned.push_back(owned_along(grid.dims[d], (*coords)[d]));
  const auto add_along = [&](const auto& deeper, std::size_t d, Index number, Index place) -> void {
    const Index extent = index_calc::extent(grid.dims[d]), stride = part.stride[d];
    for (const Stretched& s : owned[d]) {
      if (d == last && stride == 1) {
        list.add(number * extent + s.global, place + s.local, s.length);
        continue;
      }
      for (Index i = 0; i < s.length; ++i) {
        const Index n = number * extent + s.global + i, p = place + (s.local + i) * stride;
        if (d == last)
          list.add(n, p, 1);
        else
          deeper(deeper, d + 1, n, p);
      }
    }
  };
  add_along(add_along, 0, 0, part.first);
  list.allocated_ = part.allocated;
  return list;
}

}  // namespace tremula::index_calc
