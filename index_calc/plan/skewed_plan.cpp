// SPDX-License-Identifier: Apache-2.0
#include "index_calc/plan/skewed_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "index_calc/layout/blocks.hpp"

namespace tremula::index_calc {
namespace {

/// The blocks of one side, with their owners and their places in the owners' buffers.
class BlockSide {
public:
  explicit BlockSide(const Layout& layout) : grid_(layout.grid()), order_(layout.storage().order) {
    if (const Skewed* const skewed = layout.skewed()) {
      skewed_.emplace(owned_blocks(*skewed));
      for (std::size_t d = 0; d < dimensions(layout); ++d) cuts_.push_back(skewed_->cuts(d));
      return;
    }
    for (const Distribution& distribution : grid_->dims) {
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

  /// Calls visit(numbers) for the non-empty blocks of a cell.
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

  /// Returns where a block is stored in the buffer of its owner.
  /// @param coords  coordinates of the owner
  /// @param number  position of the owner's cell in the grid
  BoxPlace place(const BlockNumbers& block, const GridCoords& coords, Index number) {
    BoxPlace place;
    Index step = 1;
    for (std::size_t k = 0; k < cuts_.size(); ++k) {
      const std::size_t d = kth_fastest(order_, cuts_.size(), k);
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
  /// A dimension that is distributed independently of the others.
  struct Dealt {
    std::vector<Index> extents;  ///< shape: [coordinate]
    std::vector<Index> locals;   ///< local index at which each interval begins; shape: [interval]
  };
  bool is_whole(std::size_t d) const { return dealt_[d].extents.size() == 1; }

  GridCoord owner_along(std::size_t d, Index block) const {
    return is_whole(d) ? GridCoord{0} : owner(grid_->dims[d], {cuts_[d].begin(block)});
  }
  Index local_along(std::size_t d, Index block) const {
    if (is_whole(d)) return 0;
    const auto& locals = dealt_[d].locals;
    return locals.empty() ? to_local(grid_->dims[d], {cuts_[d].begin(block)}).value
                          : locals[static_cast<std::size_t>(block)];
  }
  std::vector<Index> blocks_along(std::size_t d, GridCoord c) const {
    std::vector<Index> blocks;
    const auto* const dealt = std::get_if<BlockCyclic>(&grid_->dims[d]);
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

  const Grid* grid_;  ///< null if skewed
  Order order_;
  std::vector<BlockCuts> cuts_;
  std::optional<OwnedBlocks> skewed_;
  std::vector<Dealt> dealt_;  ///< shape: [dimension]; empty if skewed
  std::map<Index, OwnedBlocks::Places> places_;
};

}  // namespace

void SharedBoxes::add(const SharedBox& box) {
  boxes_.push_back(box);
  Index count = 1;
  for (std::size_t d = 0; d < dimensions_; ++d) count *= box.extents[d];
  elements_ += count;
}

void SharedBoxes::sort(bool is_source) {
  std::ranges::sort(boxes_, {}, [is_source](const SharedBox& box) {
    return is_source ? box.mine.first : box.theirs.first;
  });
}

namespace {

/// Return how many different values an owner can have: as many as its steps reach, but no more
/// than there are blocks; for a table, as many as its different entries that blocks reach.
Index owner_count(const OwnerExpression& owner, Index ranks, const BlockSide& side) {
  Index step = ranks, blocks = 1;  // all values differ by multiples of `step`
  for (const OwnerTerm& term : owner.terms) {
    step = std::gcd(step, term.factor);
    const Index count = side.cuts(term.dimension).count();
    blocks = saturating_product(blocks, std::max<Index>((count - 1) / term.divisor + 1, 1));
  }
  return std::min(ranks / step, blocks);
}
Index owner_count(const OwnerTable& owner, Index, const BlockSide& side) {
  std::vector<Index> reached;
  for (std::size_t entry = 0; entry < owner.entries.size(); ++entry) {
    auto rest = static_cast<Index>(entry);
    bool is_reached = true;
    for (std::size_t d = owner.extents.size(); d-- > 0; rest /= owner.extents[d])
      is_reached = is_reached && rest % owner.extents[d] < side.cuts(d).numbers_end();
    if (is_reached) reached.push_back(owner.entries[entry]);
  }
  std::ranges::sort(reached);
  return std::max<Index>(std::ranges::unique(reached).begin() - reached.begin(), 1);
}

/// Returns how many ranks of a layout can own blocks, not counting copies. All boxes are on these
/// ranks.
Index owning_ranks(const Layout& layout, const BlockSide& side) {
  Index ranks = 1;
  if (const Skewed* const skewed = layout.skewed()) {
    for (const MeshAxis& axis : skewed->axes)
      if (const BlockOwner* const owner = axis.owner())
        ranks *=
            std::visit([&](const auto& o) { return owner_count(o, axis.ranks, side); }, *owner);
    Index blocks = 1;
    for (std::size_t d = 0; d < skewed->cuts.size(); ++d)
      blocks = saturating_product(blocks, std::max<Index>(side.cuts(d).count(), 1));
    return std::min(ranks, blocks);
  }
  const auto& dims = layout.grid()->dims;
  for (std::size_t d = 0; d < dims.size(); ++d)
    ranks *= std::clamp<Index>(side.cuts(d).count(), 1, grid(dims[d]));
  return ranks;
}

/// Bounds the number of boxes that a rank of the side with fewer owners holds on average, and the
/// number of rows of other ranks' blocks, so that plans of ranks with equal shares take at most a
/// few hundred megabytes. The result depends only on both layouts, so it is the same on all ranks
/// of both sides.
void check_boxes(const Layout& mine, const Layout& theirs, const BlockSide& here,
                 const BlockSide& there) {
  constexpr Index most_boxes = Index{1} << 21, most_rows = Index{1} << 24;
  const std::size_t last = dimensions(mine) - 1;
  Index boxes = 1;
  for (std::size_t d = 0; d <= last; ++d)
    boxes = saturating_product(boxes, here.cuts(d).count() + there.cuts(d).count());
  boxes /= std::min(owning_ranks(mine, here), owning_ranks(theirs, there));
  // The number of ranks that have blocks of a row is at most the number of blocks in the row.
  const auto rows_of = [&](const Layout& layout, const BlockSide& side) {
    Index rows = 0;
    if (layout.skewed() != nullptr)
      rows = std::min<Index>(rank_count(layout), side.cuts(last).count());
    for (std::size_t d = 0; d < last; ++d) rows = saturating_product(rows, side.cuts(d).count());
    return rows;
  };
  const Index rows = std::max(rows_of(mine, here), rows_of(theirs, there));
  if (boxes <= most_boxes && rows <= most_rows) return;
  std::string first = to_string(mine), second = to_string(theirs);
  if (second < first) std::swap(first, second);  // the same text on both sides
  throw core::Error(
      core::Errc::unsupported,
      fmt::format(
          "expected at most {} boxes for each rank on average, and {} rows of blocks of all ranks, "
          "because a layout is skewed; found up to {} and {} between \"{}\" and \"{}\": choose "
          "larger blocks",
          most_boxes, most_rows, boxes, rows, first, second));
}

}  // namespace

std::vector<SharedBoxes> skewed_overlaps(const Layout& mine, const Layout& theirs,
                                         const GridCoords& me, const Layout& source) {
  if (is_empty(mine)) return {};
  BlockSide here(mine), there(theirs);
  check_boxes(mine, theirs, here, there);
  const GridAxes my_grid(mine), their_grid(theirs);
  const Index my_number = my_grid.position_of(me);
  const std::size_t dimensions = index_calc::dimensions(mine);
  std::map<Index, SharedBoxes> shared;  // by the position of the cell
  std::array<std::vector<Index>, max_dimensions> pieces;
  here.for_each_block(me, [&](const BlockNumbers& block) {
    const BoxPlace mine_at = here.place(block, me, my_number);
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
      SharedBox box{.mine = mine_at, .theirs = there.place(other, cell, number), .extents = {}};
      for (std::size_t e = 0; e < dimensions; ++e) {
        const Index my_begin = here.cuts(e).begin(block[e]),
                    their_begin = there.cuts(e).begin(other[e]);
        const Index begin = std::max(my_begin, their_begin);
        box.extents[e] = std::min(here.cuts(e).end(block[e]), there.cuts(e).end(other[e])) - begin;
        box.mine.first += (begin - my_begin) * box.mine.stride[e];
        box.theirs.first += (begin - their_begin) * box.theirs.stride[e];
      }
      shared.try_emplace(number, cell, dimensions, source.storage().order).first->second.add(box);
    };
    walk(walk, 0);
  });
  std::vector<SharedBoxes> result;
  for (auto& [number, boxes] : shared) {
    boxes.sort(&source == &mine);
    result.push_back(std::move(boxes));
  }
  return result;
}

void expect_dense(const Layout& mine, const Layout& theirs) {
  if (!is_skewed_pair(mine, theirs) || is_empty(mine)) return;
  for (const Layout* const layout : {&mine, &theirs}) {
    const Grid* const grid = layout->grid();
    if (grid == nullptr) continue;  // a skewed layout has no gaps
    const auto& [order, ghost, leading] = layout->storage();
    bool has_gaps = std::ranges::any_of(ghost, [](Index width) { return width > 0; });
    const Distribution& fastest = grid->dims[kth_fastest(order, grid->dims.size(), std::size_t{0})];
    for (Index c = 0; c < index_calc::grid(fastest) && leading > 0 && !has_gaps; ++c) {
      const Index own = local_extent(fastest, {c});
      has_gaps = own > 0 && own != leading;
    }
    if (!has_gaps) continue;
    throw core::Error(
        core::Errc::unsupported,
        fmt::format(
            "expected local parts without ghost cells or gaps, because a layout is "
            "skewed, found \"{}\" with \"{}\": leave out ghost and leading, or copy the part",
            to_string(*layout), to_string(layout == &mine ? theirs : mine)));
  }
}

LocalPart dense_part(const LocalPart& part, Order order) {
  bool is_dense = part.elements == 0 || part.allocated == part.elements;
  Index step = 1;
  for (std::size_t k = 0; k < part.dimensions && part.elements > 0; ++k) {
    const std::size_t d = kth_fastest(order, part.dimensions, k);
    is_dense = is_dense && (part.stride[d] == step || part.extent[d] == 1);
    step *= part.extent[d];
  }
  if (is_dense) return flattened(part);
  const bool has_gaps = part.allocated != part.elements;
  throw core::Error(
      core::Errc::unsupported,
      has_gaps
          ? fmt::format("expected whole local parts without ghost cells or gaps, because a "
                        "layout is skewed, found {} elements in a buffer of {}: leave out ghost "
                        "and leading, or copy the part",
                        part.elements, part.allocated)
          : fmt::format("expected local parts stored in {} order, because a layout is skewed, "
                        "found another order of their dimensions: take the array in the order "
                        "of the other side, and permute its dimensions afterwards",
                        order == Order::row ? "row" : "column"));
}

}  // namespace tremula::index_calc
