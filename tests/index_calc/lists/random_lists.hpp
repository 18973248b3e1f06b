// SPDX-License-Identifier: Apache-2.0
#pragma once
// Random arrays whose ranks list their elements. The contents of each place of a buffer are known from
// the random draw, not from the code under test.
#include <algorithm>
#include <numeric>
#include <utility>

#include "index_calc/lists/index_list.hpp"
#include "tests/index_calc/oracle.hpp"
#include "tests/index_calc/random.hpp"

namespace tremula::index_calc::testing {

/// One side: the layout of each rank, and the number of the element at each place of its buffer, or -1
/// if the place holds none.
struct Side {
  std::vector<Layout> layout{};               ///< shape: [rank]
  std::vector<std::vector<Index>> numbers{};  ///< shape: [rank][place]
  bool is_partial = false, has_copies = false;
  RankCount ranks() const { return static_cast<RankCount>(numbers.size()); }
};

inline Index volume(const std::vector<Index>& shape) {
  return std::accumulate(shape.begin(), shape.end(), Index{1}, std::multiplies<>());
}

/// Returns all numbers of the array as runs of up to `longest`, in random order.
inline std::vector<std::pair<Index, Index>> random_runs(Random& random, Index all, Index longest) {
  std::vector<std::pair<Index, Index>> runs;
  for (Index at = 0; at < all;) {
    const Index length = std::min(all - at, random.in(1, longest));
    runs.emplace_back(at, length);
    at += length;
  }
  for (std::size_t i = runs.size(); i > 1; --i)
    std::swap(runs[i - 1], runs[static_cast<std::size_t>(random.in(0, static_cast<Index>(i) - 1))]);
  return runs;
}

/// Repeats some of the numbers of a rank, and leaves out some places of its buffer.
inline void add_exceptions(Random& random, std::vector<Index>& numbers) {
  for (Index more = random.in(0, 5); more > 0; --more) {
    const auto size = static_cast<Index>(numbers.size());
    const auto first = random.in(0, size), count = std::min(random.in(1, 9), size - first);
    std::vector<Index> added(numbers.begin() + first, numbers.begin() + first + count);
    if (added.empty() || random.one_in(3)) added.assign(1, -1);
    numbers.insert(numbers.begin() + random.in(0, size), added.begin(), added.end());
  }
}

/// @param is_sink  whether ranks may list elements several times and have places without one
inline Side random_points(Random& random, const std::vector<Index>& shape, RankCount ranks,
                          bool is_sink) {
  Side side{.numbers = std::vector<std::vector<Index>>(static_cast<std::size_t>(ranks)),
            .is_partial = random.one_in(3),
            .has_copies = random.one_in(3)};
  for (const auto& [begin, length] : random_runs(random, volume(shape), random.one_in(2) ? 1 : 9)) {
    const auto owner = static_cast<std::size_t>(random.in(0, ranks - 1));
    if (side.is_partial && random.one_in(4)) continue;
    for (Index i = 0; i < length; ++i) side.numbers[owner].push_back(begin + i);
    const auto other = static_cast<std::size_t>(random.in(0, ranks - 1));
    if (side.has_copies && other != owner && random.one_in(4))
      for (Index i = length; i-- > 0;) side.numbers[other].push_back(begin + i);
  }
  if (is_sink && random.one_in(2))
    for (auto& points : side.numbers) add_exceptions(random, points);
  for (const auto& points : side.numbers)
    side.layout.push_back(listed_layout(shape, ranks, side.is_partial, side.has_copies,
                                        IndexList::of_points(shape, points)));
  return side;
}

inline Side random_segments(Random& random, const std::vector<Index>& shape, RankCount ranks,
                            bool is_sink) {
  Side side{.numbers = std::vector<std::vector<Index>>(static_cast<std::size_t>(ranks))};
  std::vector<std::vector<Index>> begins(side.numbers.size()), lengths(side.numbers.size());
  const Index all = volume(shape);
  for (auto [begin, length] : random_runs(random, all, 20)) {
    const auto owner = static_cast<std::size_t>(random.in(0, ranks - 1));
    const auto add = [&] {
      begins[owner].push_back(begin);
      lengths[owner].push_back(length);
      for (Index i = 0; i < length; ++i) side.numbers[owner].push_back(begin < 0 ? -1 : begin + i);
    };
    if (is_sink && random.one_in(6)) {  // a part of the array that this rank may list again
      const Index before = std::min(begin, random.in(0, 9));
      begin -= before;
      length = std::min(all - begin, before + length + random.in(0, 9));
    }
    add();
    if (!is_sink || !random.one_in(6)) continue;
    begin = -1;
    add();
  }
  for (std::size_t r = 0; r < begins.size(); ++r)
    side.layout.push_back(listed_layout(shape, ranks, false, is_sink,
                                        IndexList::of_segments(shape, begins[r], lengths[r])));
  return side;
}

/// Returns an array that was cut into boxes at random, with the boxes distributed at random.
inline Side random_boxes(Random& random, const std::vector<Index>& shape, RankCount ranks) {
  using Box = std::pair<std::vector<Index>, std::vector<Index>>;  // origin, extents
  std::vector<Box> boxes{{std::vector<Index>(shape.size()), shape}};
  for (Index cuts = random.in(0, 9); cuts > 0; --cuts) {
    const auto at = static_cast<std::size_t>(random.in(0, static_cast<Index>(boxes.size()) - 1));
    const auto d = static_cast<std::size_t>(random.in(0, static_cast<Index>(shape.size()) - 1));
    Box& box = boxes[at];
    if (box.second[d] < 2) continue;
    Box rest = box;
    box.second[d] = random.in(1, box.second[d] - 1);
    rest.first[d] += box.second[d];
    rest.second[d] -= box.second[d];
    boxes.push_back(rest);
  }
  Side side{.numbers = std::vector<std::vector<Index>>(static_cast<std::size_t>(ranks))};
  std::vector<std::vector<Index>> origins(side.numbers.size()), extents(side.numbers.size());
  for (const auto& [origin, extent] : boxes) {
    const auto owner = static_cast<std::size_t>(random.in(0, ranks - 1));
    origins[owner].insert(origins[owner].end(), origin.begin(), origin.end());
    extents[owner].insert(extents[owner].end(), extent.begin(), extent.end());
    for (Index i = 0; i < volume(extent); ++i) {
      Index number = 0, left = i, weight = 1;
      for (std::size_t d = shape.size(); d-- > 0;) {
        number += (origin[d] + left % extent[d]) * weight;
        left /= extent[d];
        weight *= shape[d];
      }
      side.numbers[owner].push_back(number);
    }
  }
  for (std::size_t r = 0; r < origins.size(); ++r)
    side.layout.push_back(listed_layout(shape, ranks, false, false,
                                        IndexList::of_boxes(shape, origins[r], extents[r])));
  return side;
}

inline Side random_computed(Random& random, const std::vector<Index>& shape) {
  const Layout layout = random.layout(shape, 3, true);
  const World world(layout);
  Side side{.has_copies = copy_count(layout) > 1};
  for (const auto& [rank, buffer] : world.buffers) {
    const auto r = at(rank);
    if (side.numbers.size() <= r) side.numbers.resize(r + 1);
    side.numbers[r] = buffer;
  }
  side.layout.assign(side.numbers.size(), layout);
  return side;
}

/// Returns a random side.
/// @param may_compute  whether the layout may be computed; if false, its ranks have lists
/// @param is_sink    whether ranks may list elements several times and have places without one
inline Side random_side(Random& random, const std::vector<Index>& shape, bool may_compute,
                        bool is_sink = false) {
  const auto ranks = static_cast<RankCount>(random.in(1, 5));
  switch (random.in(0, may_compute ? 3 : 2)) {
    case 0:
      return random_points(random, shape, ranks, is_sink);
    case 1:
      return random_segments(random, shape, ranks, is_sink);
    case 2:
      return random_boxes(random, shape, ranks);
    default:
      return random_computed(random, shape);
  }
}

inline std::vector<Index> random_shape(Random& random) {
  std::vector<Index> shape(static_cast<std::size_t>(random.in(1, 5)));
  const Index most = shape.size() < 3 ? 30 : 6;
  for (Index& extent : shape) extent = random.in(1, most);
  return shape;
}

}  // namespace tremula::index_calc::testing
