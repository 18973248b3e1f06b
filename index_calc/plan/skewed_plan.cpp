// SPDX-License-Identifier: Apache-2.0
#include "index_calc/plan/skewed_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "core/error.hpp"

namespace tremula::index_calc {
namespace {

/// How a block lies in the buffer of its owner.
struct BlockPlace {
  Index first = 0;                             ///< of its first element
  std::array<Index, max_dimensions> stride{};  ///< shape: [dimension]
};

/// The blocks of one side, who owns them and where.
class BlockSide {
public:
  explicit BlockSide(const Layout& layout) : layout_(layout) {
    if (layout.skew) {
      skewed_.emplace(owned_blocks(layout));
      for (std::size_t d = 0; d < layout.dims.size(); ++d) cuts_.push_back(skewed_->cuts(d));
      return;
    }
    for (const Distribution& distribution : layout.dims) {
      const auto* const dealt = std::get_if<BlockCyclic>(&distribution);
      const bool is_whole = grid(distribution) == 1;
      const Index all = extent(distribution);
      cuts_.push_back(is_whole           ? BlockCuts::cyclic(all, std::max(all, Index{1}), 0)
                      : dealt != nullptr ? BlockCuts::cyclic(all, dealt->block, dealt->cut)
                                         : BlockCuts::at(std::get<Splits>(distribution).bounds));
      auto& along = dealt_.emplace_back();
      along.extents.resize(static_cast<std::size_t>(grid(distribution)));
      if (dealt != nullptr || is_whole) {
        for (std::size_t c = 0; c < along.extents.size(); ++c)
          along.extents[c] = local_extent(distribution, {static_cast<Index>(c)});
        continue;
      }
      const auto& splits = std::get<Splits>(distribution);
      for (std::size_t i = 0; i < splits.owner.size(); ++i) {
        Index& count = along.extents[static_cast<std::size_t>(splits.owner[i])];
        along.locals.push_back(count);
        count += splits.bounds[i + 1] - splits.bounds[i];
      }
    }
  }

  const BlockCuts& cuts(std::size_t d) const { return cuts_[d]; }

  GridCoords owner_of(const BlockNumbers& block) const {
    if (skewed_) return grid_coords(skewed_->owner_of(block));
    GridCoords coords{};
    for (std::size_t d = 0; d < cuts_.size(); ++d) coords[d] = owner_along(d, block[d]);
    return coords;
  }

  /// Calls visit(numbers) for the blocks of a cell that are not empty.
  template <class Visit>
  void for_each_block(const GridCoords& coords, Visit&& visit) const {
    if (skewed_) return skewed_->for_each_block(owner_coords(coords), visit);
    std::vector<std::vector<Index>> own(cuts_.size());
    for (std::size_t d = 0; d < cuts_.size(); ++d) own[d] = blocks_along(d, coords[d]);
    BlockNumbers numbers{};
    const auto walk = [&](const auto& deeper, std::size_t d) -> void {
      if (d == cuts_.size()) return visit(std::as_const(numbers));
      for (const Index b : own[d]) {
        numbers[d] = b;
        deeper(deeper, d + 1);
      }
    };
    walk(walk, 0);
  }

  /// @param coords  of the owner
  /// @param number  of its cell
  BlockPlace place(const BlockNumbers& block, const GridCoords& coords, Index number) {
    BlockPlace place;
    Index step = 1;
    for (std::size_t k = 0; k < cuts_.size(); ++k) {
      const std::size_t d = kth_fastest(layout_.storage_order, cuts_.size(), k);
      place.stride[d] = step;
      step *= skewed_ ? cuts_[d].size(block[d])
                      : dealt_[d].extents[static_cast<std::size_t>(coords[d].value)];
      if (!skewed_) place.first += place.stride[d] * local_along(d, block[d]);
    }
    if (!skewed_) return place;
    auto found = places_.find(number);
    if (found == places_.end())
      found = places_.try_emplace(number, *skewed_, owner_coords(coords)).first;
    place.first = found->second.of(block);
    return place;
  }

private:
  /// A dimension that is dealt by itself.
  struct Dealt {
    std::vector<Index> extents;  ///< shape: [coordinate]
    std::vector<Index> locals;   ///< where the intervals of splits begin; shape: [interval]
  };
  bool is_whole(std::size_t d) const { return dealt_[d].extents.size() == 1; }

  GridCoord owner_along(std::size_t d, Index block) const {
    return is_whole(d) ? GridCoord{0} : owner(layout_.dims[d], {cuts_[d].begin(block)});
  }
  Index local_along(std::size_t d, Index block) const {
    if (is_whole(d)) return 0;
    const auto& locals = dealt_[d].locals;
    return locals.empty() ? to_local(layout_.dims[d], {cuts_[d].begin(block)}).value
                          : locals[static_cast<std::size_t>(block)];
  }
  std::vector<Index> blocks_along(std::size_t d, GridCoord c) const {
    std::vector<Index> blocks;
    const auto* const dealt = std::get_if<BlockCyclic>(&layout_.dims[d]);
    if (dealt == nullptr || is_whole(d)) {
      cuts_[d].for_each_between(0, cuts_[d].extent(), [&](Index b) {
        if (owner_along(d, b) == c) blocks.push_back(b);
      });
      return blocks;
    }
    for (Index b = (c.value - dealt->source + dealt->grid) % dealt->grid;
         cuts_[d].begin(b) < dealt->extent; b += dealt->grid)
      blocks.push_back(b);
    return blocks;
  }

  const Layout& layout_;
  std::vector<BlockCuts> cuts_;
  std::optional<OwnedBlocks> skewed_;
  std::vector<Dealt> dealt_;  ///< shape: [dimension]; empty if skewed
  std::map<Index, OwnedBlocks::Places> places_;
};

/// Runs of the boxes that are shared with one cell.
class BoxRuns {
public:
  /// @param extents  of the box
  /// @param order    of the source's storage
  void add(const BlockPlace& mine, const BlockPlace& theirs, std::span<const Index> extents,
           Order order, bool is_source) {
    boxes_.push_back({is_source ? mine.first : theirs.first, segments_.size()});
    const auto walk = [&](const auto& deeper, std::size_t k, Index at, Index there) -> void {
      const std::size_t d = kth_fastest(order, extents.size(), k);
      if (k == 0 && mine.stride[d] == 1 && theirs.stride[d] == 1)
        return join(at, there, extents[d]);
      for (Index i = 0; i < extents[d]; ++i, at += mine.stride[d], there += theirs.stride[d])
        if (k == 0)
          join(at, there, 1);
        else
          deeper(deeper, k - 1, at, there);
    };
    walk(walk, extents.size() - 1, mine.first, theirs.first);
  }

  /// The segments of the boxes in the order in which these begin at the source.
  std::vector<Segment> take() {
    if (std::ranges::is_sorted(boxes_, {}, &Box::first)) return std::move(segments_);
    std::vector<Box> ends = boxes_;
    ends.push_back({.segment = segments_.size()});
    std::vector<std::size_t> order(boxes_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::sort(order, {}, [&](std::size_t i) { return boxes_[i].first; });
    std::vector<Segment> sorted;
    sorted.reserve(segments_.size());
    for (const std::size_t i : order)
      sorted.insert(sorted.end(), segments_.begin() + static_cast<std::ptrdiff_t>(ends[i].segment),
                    segments_.begin() + static_cast<std::ptrdiff_t>(ends[i + 1].segment));
    return sorted;
  }

private:
  struct Box {
    Index first = 0;  ///< place of its first element at the source
    std::size_t segment = 0;
  };
  void join(Index at, Index there, Index length) {
    if (segments_.size() > boxes_.back().segment) {
      Segment& last = segments_.back();
      if (last.begin.value + last.length == at && last.peer_begin.value + last.length == there) {
        last.length += length;
        return;
      }
    }
    segments_.push_back({{at}, {there}, length});
  }
  std::vector<Segment> segments_;
  std::vector<Box> boxes_;
};

}  // namespace

std::vector<CellSegments> skewed_overlaps(const Layout& mine, const Layout& theirs,
                                          const GridCoords& me, const Layout& source) {
  BlockSide here(mine), there(theirs);
  const GridAxes my_grid(mine), their_grid(theirs);
  const Index my_number = my_grid.position_of(me);
  const std::size_t dimensions = mine.dims.size();
  struct Shared {
    GridCoords cell;
    BoxRuns runs;
  };
  std::map<Index, Shared> shared;  // by the position of the cell
  std::array<std::vector<Index>, max_dimensions> pieces;
  here.for_each_block(me, [&](const BlockNumbers& block) {
    const BlockPlace mine_at = here.place(block, me, my_number);
    for (std::size_t d = 0; d < dimensions; ++d) {
      pieces[d].clear();
      there.cuts(d).for_each_between(here.cuts(d).begin(block[d]), here.cuts(d).end(block[d]),
                                     [&](Index b) { pieces[d].push_back(b); });
    }
    BlockNumbers other{};
    const auto walk = [&](const auto& deeper, std::size_t d) -> void {
      if (d < dimensions) {
        for (const Index b : pieces[d]) {
          other[d] = b;
          deeper(deeper, d + 1);
        }
        return;
      }
      const GridCoords cell = there.owner_of(other);
      const Index number = their_grid.position_of(cell);
      BlockPlace mine_box = mine_at, their_box = there.place(other, cell, number);
      std::array<Index, max_dimensions> extents{};
      for (std::size_t e = 0; e < dimensions; ++e) {
        const Index my_begin = here.cuts(e).begin(block[e]),
                    their_begin = there.cuts(e).begin(other[e]);
        const Index begin = std::max(my_begin, their_begin);
        extents[e] = std::min(here.cuts(e).end(block[e]), there.cuts(e).end(other[e])) - begin;
        mine_box.first += (begin - my_begin) * mine_box.stride[e];
        their_box.first += (begin - their_begin) * their_box.stride[e];
      }
      auto& of_cell = shared[number];
      of_cell.cell = cell;
      of_cell.runs.add(mine_box, their_box, std::span(extents).first(dimensions),
                       source.storage_order, &source == &mine);
    };
    walk(walk, 0);
  });
  std::vector<CellSegments> result;
  for (auto& [number, of_cell] : shared) result.push_back({of_cell.cell, of_cell.runs.take()});
  return result;
}

LocalPart dense_part(const LocalPart& part, Order order) {
  bool is_dense = part.elements == 0 || part.allocated == part.elements;
  Index step = 1;
  for (std::size_t k = 0; k < part.dimensions && part.elements > 0; ++k) {
    const std::size_t d = kth_fastest(order, part.dimensions, k);
    is_dense = is_dense && (part.stride[d] == step || part.extent[d] == 1);
    step *= part.extent[d];
  }
  if (!is_dense)
    throw core::Error(
        core::Errc::unsupported,
        fmt::format(
            "expected local parts without ghost cells and gaps, and all of them, beside a "
            "skewed layout, found {} elements in a buffer of {}: leave ghost and leading out, "
            "or copy the part",
            part.elements, part.allocated));
  return flattened(part);
}

}  // namespace tremula::index_calc
