// SPDX-License-Identifier: Apache-2.0
#pragma once
// The definition, element by element: blocks are dealt like cards. The oracle reads the fields of
// distributions and layouts as data; only large_numbers calls functions of index_calc.
#include <map>
#include <vector>

#include "index_calc/layout/layout.hpp"
#include "index_calc/overlap/overlap.hpp"

namespace tremula::index_calc::testing {

/// Owners and places of all elements of one dimension. Shapes: [element], and [coordinate] for
/// `count`.
struct Dealt {
  std::vector<Index> owner, local;
  std::vector<Index> count;  ///< elements of each coordinate
};

inline Dealt deal(const Distribution& d) {
  Dealt dealt;
  const auto* const splits = std::get_if<Splits>(&d);
  const Index all = splits != nullptr ? splits->bounds.back() : std::get<BlockCyclic>(d).extent;
  dealt.owner.reserve(static_cast<std::size_t>(all));
  dealt.local.reserve(static_cast<std::size_t>(all));
  const auto give = [&dealt](Index player, Index elements) {
    for (Index i = 0; i < elements; ++i) {
      dealt.owner.push_back(player);
      dealt.local.push_back(dealt.count[static_cast<std::size_t>(player)]++);
    }
  };
  if (splits != nullptr) {
    dealt.count.resize(static_cast<std::size_t>(splits->grid));
    for (std::size_t i = 0; i < splits->owner.size(); ++i)
      give(splits->owner[i], splits->bounds[i + 1] - splits->bounds[i]);
    return dealt;
  }
  const auto& cyclic = std::get<BlockCyclic>(d);
  dealt.count.resize(static_cast<std::size_t>(cyclic.grid));
  Index player = cyclic.source, block = cyclic.block - cyclic.cut;
  for (Index left = cyclic.extent; left > 0; left -= block, block = cyclic.block) {
    if (block > left) block = left;
    give(player, block);
    player = player + 1 == cyclic.grid ? 0 : player + 1;
  }
  return dealt;
}

/// Returns the maximal runs of elements that each coordinate of `theirs` shares with `me`; none for
/// coordinates that share nothing.
inline std::map<Index, std::vector<Segment>> shared(const Dealt& mine, Index me,
                                                    const Dealt& theirs) {
  std::map<Index, std::vector<Segment>> lists;
  Index previous = -1;  // owner in `theirs` of the previous element; -1 if not mine
  for (std::size_t i = 0; i < mine.owner.size(); ++i) {
    if (mine.owner[i] != me) {
      previous = -1;
      continue;
    }
    auto& list = lists[theirs.owner[i]];
    if (previous != theirs.owner[i]) list.push_back({{mine.local[i]}, {theirs.local[i]}, 0});
    ++list.back().length;
    previous = theirs.owner[i];
  }
  return lists;
}

/// A whole array in the memory of all ranks of a layout: every element carries its global number
/// (row-major).
struct World {
  /// Returns the ranks along each axis.
  static std::vector<Index> ranks_along(const std::vector<MeshAxis>& axes) {
    std::vector<Index> ranks;
    for (const MeshAxis& axis : axes) ranks.push_back(axis.ranks);
    return ranks;
  }
  /// Returns the coordinates along the dimensions at a place on the axes.
  static std::vector<Index> coordinates_at(const std::vector<Index>& place,
                                           const std::vector<MeshAxis>& axes,
                                           std::size_t dimensions) {
    std::vector<Index> cell(dimensions, 0);
    for (std::size_t level = 0; level < axes.size(); ++level)
      for (std::size_t a = 0; a < axes.size(); ++a)
        if (const Along* const along = axes[a].along(); along != nullptr && along->level == level)
          cell[along->dimension] = cell[along->dimension] * axes[a].ranks + place[a];
    return cell;
  }

  std::vector<Index> shape;
  std::map<Index, Rank> owner;    ///< global number -> rank; the last rank with a copy
  std::map<Index, Index> offset;  ///< global number -> element offset in the buffer of its rank
  std::map<Rank, std::vector<Index>>
      buffers;  ///< buffers of the ranks that take part; -1 where there is no element

  explicit World(const Layout& layout) {
    const auto& dims = layout.grid()->dims;
    const auto& [order, ghost, leading] = layout.storage();
    const std::size_t dimensions = dims.size();
    std::vector<Dealt> dealt;
    for (const Distribution& d : dims) {
      dealt.push_back(deal(d));
      shape.push_back(static_cast<Index>(dealt.back().owner.size()));
    }
    std::vector<Rank> ranks;
    for (const RankRange& r : layout.ranks().members)
      for (RankCount k = 0; k < r.count; ++k) ranks.push_back(Rank{r.first.value + k});
    Index number = 0;
    const std::vector<MeshAxis>& axes = layout.grid()->axes;
    for_each_index(ranks_along(axes), layout.ranks().order, [&](const std::vector<Index>& place) {
      const std::vector<Index> cell = coordinates_at(place, axes, dimensions);
      const Rank rank = ranks.empty() ? Rank{static_cast<RankCount>(number)}
                                      : ranks[static_cast<std::size_t>(number)];
      ++number;
      // The allocated box, and the place of every owned element in it.
      std::vector<Index> box;
      bool empty = false;
      for (std::size_t d = 0; d < dimensions; ++d) {
        const Index count = dealt[d].count[static_cast<std::size_t>(cell[d])];
        empty = empty || count == 0;
        box.push_back(count + (ghost.empty() ? 0 : 2 * ghost[d]));
      }
      const std::size_t fastest = order == Order::row ? dimensions - 1 : 0;
      if (leading != 0) box[fastest] = leading;
      Index size = empty ? 0 : 1;
      for (const Index n : box) size *= n;
      buffers[rank].assign(static_cast<std::size_t>(size), -1);
      const auto offset_of = [&](const std::vector<Index>& at) {
        Index result = 0;
        for (std::size_t k = 0; k < dimensions; ++k) {
          const std::size_t d = order == Order::row ? k : dimensions - 1 - k;
          const Index local = dealt[d].local[static_cast<std::size_t>(at[d])];
          result = result * box[d] + local + (ghost.empty() ? 0 : ghost[d]);
        }
        return result;
      };
      Index global = 0;
      for_each_index(shape, Order::row, [&](const std::vector<Index>& at) {
        bool here = true;
        for (std::size_t d = 0; d < dimensions; ++d)
          here = here && dealt[d].owner[static_cast<std::size_t>(at[d])] == cell[d];
        if (here) {
          owner[global] = rank;
          offset[global] = offset_of(at);
          buffers[rank][static_cast<std::size_t>(offset[global])] = global;
        }
        ++global;
      });
    });
  }

  /// Returns the global numbers of the elements that `me` owns here and `peer` owns there, in wire
  /// order.
  std::vector<Index> common(const World& there, Rank me, Rank peer, Order order) const {
    std::vector<Index> result;
    for_each_index(shape, order, [&](const std::vector<Index>& at) {
      Index global = 0;
      for (std::size_t d = 0; d < shape.size(); ++d) global = global * shape[d] + at[d];
      if (owner.at(global) == me && there.owner.at(global) == peer) result.push_back(global);
    });
    return result;
  }

  /// Calls visit(index) for every index of a box. In row order, the last dimension varies fastest;
  /// in column order, the first.
  template <class Visit>
  static void for_each_index(const std::vector<Index>& box, Order order, Visit&& visit) {
    std::vector<Index> at(box.size(), 0);
    for (const Index n : box)
      if (n == 0) return;
    for (;;) {
      visit(at);
      std::size_t k = 0;
      for (; k < box.size(); ++k) {
        const std::size_t d = order == Order::row ? box.size() - 1 - k : k;
        if (++at[d] < box[d]) break;
        at[d] = 0;
      }
      if (k == box.size()) return;
    }
  }
};

/// Returns World::buffers for a large array of two dimensions whose ranks are in row-major order.
/// Uses the local parts of index_calc.
inline std::map<Rank, std::vector<Index>> large_numbers(const Layout& layout) {
  const auto& dims = layout.grid()->dims;
  const Dealt rows = deal(dims[0]), columns = deal(dims[1]);
  std::map<Rank, std::vector<Index>> numbers;
  std::map<Rank, LocalPart> parts;
  Index number = 0;
  for (std::size_t i = 0; i < rows.owner.size(); ++i)
    for (std::size_t k = 0; k < columns.owner.size(); ++k, ++number) {
      const Rank rank{static_cast<RankCount>(rows.owner[i] * grid(dims[1]) + columns.owner[k])};
      if (!parts.contains(rank)) {
        parts[rank] = local_part(layout, rank);
        numbers[rank].assign(static_cast<std::size_t>(parts[rank].allocated), -1);
      }
      const LocalPart& part = parts[rank];
      numbers[rank][static_cast<std::size_t>(part.first + rows.local[i] * part.stride[0] +
                                             columns.local[k] * part.stride[1])] = number;
    }
  return numbers;
}

}  // namespace tremula::index_calc::testing
