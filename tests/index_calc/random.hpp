// SPDX-License-Identifier: Apache-2.0
#pragma once
// Seeded random distributions and layouts, small enough for the oracle.
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>

#include "index_calc/layout/layout.hpp"

namespace tremula::index_calc::testing {

/// A random source whose seed is printed and can be replayed with TREMULA_TEST_SEED.
class Random {
public:
  Random() : seed_(choose()), generator_(seed_) {
    std::cout << "replay with TREMULA_TEST_SEED=" << seed_ << '\n' << std::flush;
  }

  /// Returns a number, uniform in [low, high].
  Index in(Index low, Index high) {
    return std::uniform_int_distribution<Index>(low, high)(generator_);
  }
  bool one_in(Index n) { return in(1, n) == 1; }

  BlockCyclic block_cyclic(Index extent, Index max_block, Index max_grid) {
    const Index grid = in(1, max_grid), block = in(1, max_block);
    return {.extent = extent,
            .block = block,
            .grid = grid,
            .source = in(0, grid - 1),
            .cut = one_in(3) ? in(0, block - 1) : 0};
  }
  Splits splits(Index extent, Index max_grid) {
    Splits result{.bounds = {0}, .owner = {}, .grid = in(1, max_grid)};
    while (result.bounds.back() < extent) {
      result.bounds.push_back(std::min(extent, result.bounds.back() + in(1, 1 + extent / 3)));
      result.owner.push_back(in(0, result.grid - 1));
    }
    return result;
  }
  Distribution distribution(Index extent, Index max_grid) {
    if (one_in(3)) return splits(extent, max_grid);
    return block_cyclic(extent, in(1, 9), max_grid);
  }

  /// Returns a random layout of `shape`, sometimes with idle ranks, ghost cells and a padded
  /// leading dimension.
  /// @param may_copy  whether some axes of the process grid may leave all dimensions unsplit
  Layout layout(const std::vector<Index>& shape, Index max_grid, bool may_copy = false) {
    std::vector<MeshAxis> axes;
    if (one_in(4)) axes = mesh(shape.size(), max_grid, may_copy);
    const bool has_mesh = !axes.empty();
    std::vector<Index> coordinates(shape.size(), 1);  // of the mesh along each dimension
    Index cells = 1;
    for (const MeshAxis& axis : axes) {
      if (axis.along() != nullptr) coordinates[axis.along()->dimension] *= axis.ranks;
      cells *= axis.ranks;
    }
    std::vector<Distribution> dims;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      dims.push_back(distribution(shape[d], max_grid));
      if (has_mesh) set_grid(dims.back(), coordinates[d]);
      if (!has_mesh) cells *= grid(dims.back());
    }
    Ranks ranks{.order = order()};
    Storage storage{.order = order()};
    if (one_in(3))
      for (std::size_t d = 0; d < shape.size(); ++d) storage.ghost.push_back(in(0, 2));
    if (one_in(3)) storage.leading = shape[kth_fastest(storage.order, shape.size(), 0)] + in(4, 7);
    if (one_in(3)) {
      const auto front = static_cast<RankCount>(in(0, cells - 1)),
                 first = static_cast<RankCount>(in(0, 3));
      const auto back = static_cast<RankCount>(cells) - front;
      ranks.members = {{Rank{static_cast<RankCount>(first + front + in(0, 2))}, back}};
      if (front > 0) ranks.members.push_back({Rank{first}, front});
    }
    return Layout(has_mesh ? Grid(std::move(dims), std::move(axes)) : Grid(std::move(dims)),
                  std::move(ranks), std::move(storage));
  }
  Order order() { return one_in(2) ? Order::row : Order::column; }

  /// Returns a mesh whose axes split the dimensions in random order, with at most max_grid coordinates
  /// along each dimension.
  std::vector<MeshAxis> mesh(std::size_t dimensions, Index max_grid, bool may_copy) {
    std::vector<MeshAxis> result;
    std::vector<Index> coordinates(dimensions, 1);
    std::vector<std::size_t> levels(dimensions);
    for (Index left = in(1, static_cast<Index>(dimensions) + 2); left > 0; --left) {
      const auto d = static_cast<std::size_t>(in(0, static_cast<Index>(dimensions) - 1));
      const Index ranks = in(1, std::max(Index{1}, max_grid / coordinates[d]));
      result.push_back({.ranks = may_copy ? in(1, 3) : ranks});
      if (may_copy && one_in(3)) continue;
      coordinates[d] *= ranks;
      const auto level = static_cast<std::size_t>(in(0, static_cast<Index>(levels[d]++)));
      for (MeshAxis& axis : result)
        if (auto* const along = std::get_if<Along>(&axis.use);
            along != nullptr && along->dimension == d && along->level >= level)
          ++along->level;
      result.back() = {.ranks = ranks, .use = Along{.dimension = d, .level = level}};
    }
    return result;
  }

private:
  static void set_grid(Distribution& d, Index coordinates) {
    if (auto* dealt = std::get_if<BlockCyclic>(&d)) {
      dealt->grid = coordinates;
      dealt->source %= coordinates;
    } else {
      auto& splits = std::get<Splits>(d);
      splits.grid = coordinates;
      for (Index& owner : splits.owner) owner %= coordinates;
    }
  }
  static unsigned choose() {
    if (const char* given = std::getenv("TREMULA_TEST_SEED"))
      return static_cast<unsigned>(std::stoul(given));
    return std::random_device{}();
  }
  unsigned seed_;
  std::mt19937 generator_;
};

}  // namespace tremula::index_calc::testing
