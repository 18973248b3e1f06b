// SPDX-License-Identifier: Apache-2.0
#pragma once
// Skewed layouts computed from the definition, element by element, and random skewed layouts. The
// oracle reads the fields of layouts as data and calls no function of index_calc.
#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "tests/index_calc/oracle.hpp"
#include "tests/index_calc/random.hpp"

namespace tremula::index_calc::testing {

/// Global number (row-major) of the element at each place of each rank's buffer; -1 if the place holds
/// none.
using Numbers = std::map<Rank, std::vector<Index>>;

/// Returns the number of the block of element `i`, by counting block by block.
inline Index counted_block(const BlockCuts& cuts, Index i) {
  Index block = 0;
  if (const auto bounds = cuts.bounds(); !bounds.empty()) {
    while (bounds[static_cast<std::size_t>(block) + 1] <= i) ++block;
    return block;
  }
  if (cuts.is_equal()) {
    while (cuts.extent() * (block + 1) / cuts.size_or_count() <= i) ++block;
    return block;
  }
  for (Index end = cuts.size_or_count() - cuts.cut(); end <= i; end += cuts.size_or_count())
    ++block;
  return block;
}

/// Returns a modulo n as in mathematics: never negative.
inline Index modulo(Index a, Index n) {
  while (a < 0) a += n;
  return a % n;
}

inline Index evaluated(const BlockOwner& owner, const std::vector<Index>& block) {
  if (const auto* const table = std::get_if<OwnerTable>(&owner)) {
    std::size_t entry = 0, step = 1;
    for (std::size_t d = block.size(); d-- > 0;) {
      entry += step * static_cast<std::size_t>(block[d] % table->extents[d]);
      step *= static_cast<std::size_t>(table->extents[d]);
    }
    return table->entries[entry];
  }
  const auto& expression = std::get<OwnerExpression>(owner);
  Index sum = expression.constant;
  for (const OwnerTerm& t : expression.terms) sum += t.factor * (block[t.dimension] / t.divisor);
  return sum;
}

inline Numbers skewed_numbers(const Layout& layout) {
  std::vector<Index> shape;
  for (const BlockCuts& cuts : layout.skewed()->cuts) shape.push_back(cuts.extent());
  std::vector<Rank> ranks;
  for (const RankRange& r : layout.ranks().members)
    for (RankCount k = 0; k < r.count; ++k) ranks.push_back(Rank{r.first.value + k});
  // Elements of each rank in the order of their blocks, then of their places within a block.
  using Place = std::tuple<std::vector<Index>, std::vector<Index>, Index>;
  std::map<Rank, std::vector<Place>> places;
  std::vector<std::vector<Index>> cells;
  World::for_each_index(World::ranks_along(layout.skewed()->axes), layout.ranks().order,
                        [&](const std::vector<Index>& cell) {
                          const auto number = cells.size();
                          places[ranks.empty() ? to_rank(number) : ranks[number]];
                          cells.push_back(cell);
                        });
  const std::vector<MeshAxis>& axes = layout.skewed()->axes;
  Index global = 0;
  World::for_each_index(shape, Order::row, [&](const std::vector<Index>& at) {
    std::vector<Index> block, inside = at;
    for (std::size_t d = 0; d < at.size(); ++d)
      block.push_back(counted_block(layout.skewed()->cuts[d], at[d]));
    if (layout.storage().order == Order::column) std::ranges::reverse(inside);
    for (std::size_t number = 0; number < cells.size(); ++number) {
      bool is_owner = true;
      for (std::size_t a = 0; a < axes.size(); ++a)
        if (const BlockOwner* const owner = axes[a].owner())
          is_owner =
              is_owner && modulo(evaluated(*owner, block), axes[a].ranks) == cells[number][a];
      if (is_owner)
        places[ranks.empty() ? to_rank(number) : ranks[number]].emplace_back(block, inside, global);
    }
    ++global;
  });
  Numbers numbers;
  for (auto& [rank, of_rank] : places) {
    std::ranges::sort(of_rank);
    auto& buffer = numbers[rank];
    for (const Place& place : of_rank) buffer.push_back(std::get<2>(place));
  }
  return numbers;
}

inline Numbers numbers_of(const Layout& layout) {
  return layout.skewed() ? skewed_numbers(layout) : World(layout).buffers;
}

inline BlockOwner random_owner(Random& random, std::size_t dimensions, Index ranks) {
  if (random.one_in(3)) {
    OwnerTable table;
    Index entries = 1;
    for (std::size_t d = 0; d < dimensions; ++d)
      entries *= table.extents.emplace_back(random.in(1, 4));
    while (entries-- > 0) table.entries.push_back(random.in(0, ranks - 1));
    return table;
  }
  OwnerExpression owner{.terms = {}, .constant = random.one_in(3) ? random.in(-5, 5) : 0};
  for (Index terms = random.in(0, 3); terms > 0; --terms)
    owner.terms.push_back(
        {.dimension = static_cast<std::size_t>(random.in(0, static_cast<Index>(dimensions) - 1)),
         .divisor = random.one_in(2) ? 1 : random.in(1, 4),
         .factor = (random.one_in(2) ? 1 : -1) * (random.one_in(2) ? 1 : random.in(1, 7))});
  return owner;
}

/// Changes one number of an owner.
inline void change(BlockOwner& owner, Index ranks) {
  if (auto* const table = std::get_if<OwnerTable>(&owner)) {
    Index& entry = table->entries.front();
    if (ranks > 1)
      entry = (entry + 1) % ranks;
    else
      table->extents.front() *= 2, table->entries.resize(2 * table->entries.size());
    return;
  }
  std::get<OwnerExpression>(owner).constant += 1;
}

/// Returns a random skewed layout of `shape` on a mesh of at most `most_ranks` ranks.
inline Layout random_skewed(Random& random, const std::vector<Index>& shape, Index most_ranks,
                            bool may_copy = true) {
  Skewed layout;
  Index ranks = 1;
  for (Index axes = random.in(1, 4); axes > 0; --axes) {
    MeshAxis& axis = layout.axes.emplace_back();
    axis.ranks = random.in(1, std::max<Index>(1, most_ranks / ranks));
    ranks *= axis.ranks;
    if (!may_copy || axes == 1 || !random.one_in(4))
      axis.use = random_owner(random, shape.size(), axis.ranks);
  }
  for (const Index extent : shape) {
    const Index whole = std::max<Index>(extent, 1), block = random.in(1, 9);
    const Index missing = random.one_in(3) ? random.in(0, block - 1) : 0;
    if (random.one_in(4)) {
      std::vector<Index> bounds{0, extent};
      for (Index more = random.in(0, 8); more > 0; --more) bounds.push_back(random.in(0, extent));
      std::ranges::sort(bounds);
      layout.cuts.push_back(BlockCuts::at(std::move(bounds)));
      continue;
    }
    layout.cuts.push_back(random.one_in(2)   ? BlockCuts::equal(extent, block)
                          : random.one_in(4) ? BlockCuts::cyclic(extent, whole, 0)
                                             : BlockCuts::cyclic(extent, block, missing));
  }
  Ranks of_group{.order = random.order()};
  const Storage storage{.order = random.order()};
  if (random.one_in(4)) {
    const auto front = static_cast<RankCount>(random.in(0, ranks - 1));
    const auto back = static_cast<RankCount>(ranks) - front;
    of_group.members = {{Rank{front + static_cast<RankCount>(random.in(0, 2))}, back}};
    if (front > 0) of_group.members.push_back({Rank{0}, front});
  }
  return Layout(std::move(layout), std::move(of_group), storage);
}

}  // namespace tremula::index_calc::testing
