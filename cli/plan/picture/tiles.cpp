// SPDX-License-Identifier: Apache-2.0
#include "cli/plan/picture/tiles.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "index_calc/lists/index_list.hpp"

namespace tremula::cli {

namespace {

using index_calc::BlockCuts, index_calc::BlockNumbers, index_calc::Distribution,
    index_calc::GridCoord, index_calc::GridCoords, index_calc::IndexList, index_calc::Layout,
    index_calc::ListRun, index_calc::Package, index_calc::ProcessGrid, index_calc::Segment,
    index_calc::Splits;

/// One block or several neighbouring blocks along one dimension.
struct Stretch {
  Index number = 0;  ///< number of the block
  Index begin = 0, end = 0;
};
using Stretches = std::vector<Stretch>;

/// Returns the results of `along` for the row dimension and for the column dimension.
template <class Along>
std::pair<Stretches, Stretches> rows_and_columns(const ShownPart& part, const Along& along) {
  return {part.dimensions == 2 ? along(0, part.rows.shown) : Stretches{{0, 0, 1}},
          along(part.dimensions - 1, part.columns.shown)};
}

Stretches blocks_until(const BlockCuts& cuts, Index end) {
  Stretches result;
  cuts.for_each_between(0, end, [&](Index block) {
    result.push_back({block, cuts.begin(block), std::min(end, cuts.end(block))});
  });
  return result;
}

/// Returns the coordinate that owns a block, for layouts whose owners are an outer product.
GridCoord owner_of_block(const Distribution& d, Index block) {
  if (const auto* splits = std::get_if<Splits>(&d))
    return {splits->owner[static_cast<std::size_t>(block)]};
  const auto& dealt = std::get<index_calc::BlockCyclic>(d);
  return {(dealt.source + block) % dealt.grid};
}

std::vector<Rank> sorted(std::vector<Rank> ranks) {
  std::ranges::sort(ranks);
  return ranks;
}

/// Computes the owners of blocks by formulas.
class BlockOwners {
public:
  /// @param layout  a grid or a skewed layout; must outlive this object
  explicit BlockOwners(const Layout& layout) : kind_(layout.grid()), grid_(layout) {
    if (layout.skewed() != nullptr) skewed_.emplace(owned_blocks(*layout.skewed()));
  }
  GridCoords coords_of(const BlockNumbers& block) const {
    if (skewed_) return index_calc::grid_coords(skewed_->owner_of(block));
    GridCoords coords{};
    for (std::size_t d = 0; d < kind_->dims.size(); ++d)
      coords[d] = owner_of_block(kind_->dims[d], block[d]);
    return coords;
  }
  std::vector<Rank> ranks_at(const GridCoords& coords) const {
    std::vector<Rank> ranks;
    ranks.reserve(static_cast<std::size_t>(grid_.copies()));
    for (RankCount copy = 0; copy < grid_.copies(); ++copy)
      ranks.push_back(grid_.rank_at(coords, copy));
    return sorted(std::move(ranks));
  }
  Index position_of(const GridCoords& coords) const { return grid_.position_of(coords); }

private:
  const index_calc::Grid* kind_;  // null if skewed
  ProcessGrid grid_;
  std::optional<index_calc::OwnedBlocks> skewed_;
};

/// Adds one tile per row for the shown part of the `length` elements that begin with element
/// `number` in row-major order.
void add_shown(Index number, Index length, const ShownPart& part, std::vector<Tile>& tiles) {
  const Index width = part.columns.extent;
  for (const Index end = number + length; number < end;) {
    const Index row = number / width, column = number % width;
    if (row >= part.rows.shown) return;
    const Index right = std::min(column + end - number, part.columns.shown);
    if (column < right) tiles.push_back({row, row + 1, column, right});
    number += width - column;
  }
}

/// Returns the shown tiles of a package that is described by positions in the buffers
/// (has_flat_plans).
std::vector<Tile> tiles_of_buffer(const IndexList& mine, const Package& package,
                                  const ShownPart& part) {
  std::vector<ListRun> runs(mine.runs().begin(), mine.runs().end());
  std::ranges::sort(runs, {}, &ListRun::local);
  std::vector<Tile> tiles;
  for_each_listed_segment(package, [&](const Segment& s) {
    auto run = std::ranges::upper_bound(runs, s.begin.value, {}, &ListRun::local) - 1;
    for (Index at = s.begin.value, end = at + s.length; at < end; ++run) {
      const Index inside = at - run->local, length = std::min(end - at, run->length - inside);
      add_shown(run->global + inside, length, part, tiles);
      at += length;
    }
  });
  return tiles;
}

/// Returns tiles of one row each, with those merged that overlap because a rank lists elements
/// several times.
std::vector<Tile> without_overlaps(std::vector<Tile> tiles) {
  std::ranges::sort(tiles, {}, [](const Tile& t) { return std::pair(t.top, t.left); });
  std::size_t kept = 0;
  for (const Tile& tile : tiles)
    if (kept > 0 && tiles[kept - 1].top == tile.top && tile.left < tiles[kept - 1].right)
      tiles[kept - 1].right = std::max(tiles[kept - 1].right, tile.right);
    else
      tiles[kept++] = tile;
  tiles.resize(kept);
  return tiles;
}

/// Returns the shown part, along one dimension, of a package that is an outer product.
Stretches shown_of(const index_calc::SegmentList& list, const Distribution& mine, GridCoord me,
                   Index shown) {
  Stretches result;
  list.slice(0, std::min(list.elements(), shown)).for_each([&](const Segment& s) {
    const Index begin = to_global(mine, me, s.begin).value;
    if (begin < shown) result.push_back({0, begin, std::min(shown, begin + s.length)});
  });
  return result;
}

/// Sets of ranks, numbered in the order in which they first occur; 0 is the empty set.
class RankSets {
public:
  /// Returns the set extended by `rank`.  @pre `rank` is larger than the ranks of the set
  std::size_t with(std::size_t set, Rank rank) {
    const auto [found, is_new] = larger_.try_emplace({set, rank}, sets_.size());
    if (is_new) {
      std::vector<Rank> ranks = sets_[set];
      ranks.push_back(rank);
      sets_.push_back(std::move(ranks));
    }
    return found->second;
  }
  const std::vector<std::vector<Rank>>& all() const { return sets_; }

private:
  std::vector<std::vector<Rank>> sets_{1};
  std::map<std::pair<std::size_t, Rank>, std::size_t> larger_;
};

/// Returns the tiles of a side whose ranks list what they own.
std::vector<HeldTiles> listed_tiles(const Redistribution& redistribution, Side side,
                                    const ShownPart& part) {
  const auto width = static_cast<std::size_t>(part.columns.shown);
  std::vector<std::size_t> owners(static_cast<std::size_t>(part.rows.shown) * width);  // sets
  RankSets sets;
  for (const Rank rank : sorted(ranks_of(redistribution.layout_of(side)))) {
    std::vector<Tile> tiles;
    const IndexList list = owned_list(redistribution, side, rank);
    list.for_each_different(
        [&](const ListRun& run) { add_shown(run.global, run.length, part, tiles); });
    for (const Tile& tile : tiles)
      for (Index column = tile.left; column < tile.right; ++column) {
        std::size_t& set =
            owners[static_cast<std::size_t>(tile.top) * width + static_cast<std::size_t>(column)];
        set = sets.with(set, rank);
      }
  }
  std::vector<HeldTiles> held;
  for (const auto& ranks : sets.all()) held.push_back({ranks, {}});
  std::vector<Index> sides(owners.size());  // side of the largest square of one set that ends here
  for (std::size_t i = 0; i < owners.size(); ++i) {
    HeldTiles& of = held[owners[i]];
    const auto row = static_cast<Index>(i / width), column = static_cast<Index>(i % width);
    of.tiles.push_back({row, row + 1, column, column + 1});
    sides[i] = 1;
    if (row > 0 && column > 0 && owners[i - 1] == owners[i] && owners[i - width] == owners[i] &&
        owners[i - width - 1] == owners[i])
      sides[i] += std::min({sides[i - 1], sides[i - width], sides[i - width - 1]});
    if (!of.square || sides[i] > of.square->bottom - of.square->top)
      of.square = Tile{row + 1 - sides[i], row + 1, column + 1 - sides[i], column + 1};
  }
  std::erase_if(held, [](const HeldTiles& of) { return of.ranks.empty() || of.tiles.empty(); });
  for (HeldTiles& of : held) of.tiles = joined(std::move(of.tiles));
  std::ranges::sort(held, {}, &HeldTiles::ranks);
  return held;
}

}  // namespace

std::vector<HeldTiles> held_tiles(const Redistribution& redistribution, Side side,
                                  const ShownPart& part) {
  const Layout& layout = redistribution.layout_of(side);
  if (layout.listed()) return listed_tiles(redistribution, side, part);
  const BlockOwners owners(layout);
  const auto [rows, columns] = rows_and_columns(part, [&](std::size_t dimension, Index shown) {
    return blocks_until(block_cuts(layout, dimension), shown);
  });
  std::map<Index, HeldTiles> held;  // by cell of the grid
  for (const Stretch& row : rows)
    for (const Stretch& column : columns) {
      const GridCoords coords =
          owners.coords_of(part.dimensions == 2 ? BlockNumbers{row.number, column.number}
                                                : BlockNumbers{column.number});
      HeldTiles& of = held[owners.position_of(coords)];
      if (of.ranks.empty()) of.ranks = owners.ranks_at(coords);
      of.tiles.push_back({row.begin, row.end, column.begin, column.end});
    }
  std::vector<HeldTiles> result;
  result.reserve(held.size());
  for (auto& [position, of] : held) result.push_back(std::move(of));
  std::ranges::sort(result, {}, &HeldTiles::ranks);
  return result;
}

std::vector<Tile> package_tiles(const Redistribution& redistribution, const RankPlan& plan,
                                const Package& package, const ShownPart& part) {
  if (has_flat_plans(redistribution))
    return joined(without_overlaps(tiles_of_buffer(
        owned_list(redistribution, redistribution.side, plan.rank), package, part)));
  const Layout& mine = redistribution.mine();
  const auto& dims = expect_grid(mine, "picture").dims;
  const GridCoords me = coords_of_member(mine, plan.rank);
  const auto [rows, columns] = rows_and_columns(part, [&](std::size_t dimension, Index shown) {
    return shown_of(package.along[dimension], dims[dimension], me[dimension], shown);
  });
  std::vector<Tile> tiles;
  for (const Stretch& row : rows)
    for (const Stretch& column : columns)
      tiles.push_back({row.begin, row.end, column.begin, column.end});
  return joined(std::move(tiles));
}

std::vector<Tile> joined(std::vector<Tile> tiles) {
  const auto join = [&](auto&& is_joined) {
    std::vector<Tile> result;
    for (const Tile& tile : tiles)
      if (result.empty() || !is_joined(result.back(), tile)) result.push_back(tile);
    tiles = std::move(result);
  };
  std::ranges::sort(tiles, {}, [](const Tile& t) { return std::tuple(t.top, t.bottom, t.left); });
  join([](Tile& left, const Tile& right) {
    const bool is_next =
        left.top == right.top && left.bottom == right.bottom && left.right == right.left;
    if (is_next) left.right = right.right;
    return is_next;
  });
  std::ranges::sort(tiles, {}, [](const Tile& t) { return std::tuple(t.left, t.right, t.top); });
  join([](Tile& above, const Tile& below) {
    const bool is_next =
        above.left == below.left && above.right == below.right && above.bottom == below.top;
    if (is_next) above.bottom = below.bottom;
    return is_next;
  });
  return tiles;
}

}  // namespace tremula::cli
