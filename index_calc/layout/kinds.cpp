// SPDX-License-Identifier: Apache-2.0
#include "index_calc/layout/kinds.hpp"

#include <algorithm>

#include "index_calc/basics/check.hpp"

namespace tremula::index_calc {

Grid::Grid(std::vector<Distribution> distributions) : dims(std::move(distributions)) {
  for (std::size_t d = 0; d < dims.size(); ++d)
    axes.push_back({.ranks = index_calc::grid(dims[d]), .use = Along{.dimension = d}});
}

bool Grid::is_plain() const noexcept {
  bool is_plain = axes.size() == dims.size();
  for (std::size_t d = 0; is_plain && d < axes.size(); ++d)
    is_plain = axes[d].along() != nullptr && *axes[d].along() == Along{.dimension = d};
  return is_plain;
}

namespace {

/// Checks that the axes that split dimension d have the levels 0, 1, ... and as many positions as
/// there are coordinates.
void validate_axes_of(const Grid& mesh, std::size_t d) {
  std::vector<std::size_t> levels;
  Index coordinates = 1;
  for (const MeshAxis& axis : mesh.axes) {
    if (axis.along() == nullptr || axis.along()->dimension != d) continue;
    levels.push_back(axis.along()->level);
    coordinates *= axis.ranks;
  }
  std::ranges::sort(levels);
  for (std::size_t i = 0; i < levels.size(); ++i)
    check(levels[i] == i, "mesh: expected level {} once for dimension {}, found level {}", i, d,
          levels[i]);
  check(coordinates == grid(mesh.dims[d]),
        "mesh: expected {} coordinates along dimension {}, the product of its axes, found {}",
        coordinates, d, grid(mesh.dims[d]));
}

void validate_cuts(const BlockCuts& cuts, std::size_t d) {
  if (const auto bounds = cuts.bounds(); !bounds.empty()) {
    check(bounds.front() == 0 && std::ranges::is_sorted(bounds),
          "splits{}: expected ascending bounds that begin with 0, found others", d);
    return;
  }
  check(cuts.size_or_count() >= 1 && (!cuts.is_equal() || cuts.size_or_count() <= max_owner_number),
        "{}{}: expected at least 1 and, if equal, at most {}, found {}",
        cuts.is_equal() ? "equal" : "block", d, max_owner_number, cuts.size_or_count());
  check(cuts.cut() >= 0 && cuts.cut() < cuts.size_or_count(),
        "cut: expected numbers from 0 to {} for dimension {}, found {}", cuts.size_or_count() - 1,
        d, cuts.cut());
}

}  // namespace

void validate(const std::vector<MeshAxis>& axes, std::string_view key) {
  check(!axes.empty() && axes.size() <= max_mesh_axes, "{}: expected 1 to {} axes, found {}", key,
        max_mesh_axes, axes.size());
  Index cells = 1;
  for (const MeshAxis& axis : axes) {
    check(axis.ranks >= 1, "{}: expected axes of at least 1 rank, found {}", key, axis.ranks);
    check(!__builtin_mul_overflow(cells, axis.ranks, &cells) && cells <= max_rank_count,
          "{}: expected at most {} ranks, found more", key, max_rank_count);
  }
}

void Grid::validate(const Storage& storage) const {
  check(storage.ghost.empty() || storage.ghost.size() == dims.size(),
        "ghost: expected one width for each of the {} dimensions or none, found {}", dims.size(),
        storage.ghost.size());
  for (const Index width : storage.ghost)
    check(width >= 0, "ghost: expected widths of at least 0, found {}", width);
  check(storage.leading >= 0,
        "leading: expected at least 1 element, or 0 for as many as needed, found {}",
        storage.leading);
  for (std::size_t d = 0; d < dims.size(); ++d) {
    try {
      index_calc::validate(dims[d]);
    } catch (const core::Error& e) {
      throw core::Error(e.code(), fmt::format("dimension {}: {}", d, e.what()));
    }
  }
  index_calc::validate(axes, is_plain() ? "grid" : "mesh");
  for (const MeshAxis& axis : axes)
    check(axis.owner() == nullptr &&
              (axis.along() == nullptr || axis.along()->dimension < dims.size()),
          "mesh: expected axes that split dimensions 0 to {}, and no owners, found another axis",
          dims.size() - 1);
  for (std::size_t d = 0; d < dims.size(); ++d) validate_axes_of(*this, d);
}

void Skewed::validate(const Storage& storage) const {
  check(storage.is_dense(),
        "owner: expected no ghost or leading with owners, because the blocks of a rank follow each "
        "other without gaps");
  for (std::size_t d = 0; d < cuts.size(); ++d) validate_cuts(cuts[d], d);
  index_calc::validate(axes);
  std::size_t owners = 0;
  for (std::size_t a = 0; a < axes.size(); ++a) {
    check(axes[a].along() == nullptr,
          "owner: expected no axis that splits a dimension with owners, found axis {}", a);
    if (const BlockOwner* const owner = axes[a].owner()) {
      ++owners;
      index_calc::validate(*owner, cuts.size(), axes[a].ranks, a);
    }
  }
  check(owners >= 1 && owners <= max_owner_axes,
        "owner: expected owners for 1 to {} axes of the mesh, found {}", max_owner_axes, owners);
}

void Listed::validate(const Storage& storage) const {
  check(storage.is_dense() && storage.order == Order::row,
        "lists: expected no ghost, leading or store, because a list states where each element is");
  check(elements >= 0 && elements <= allocated && (mine != nullptr || allocated == 0),
        "lists: expected the sizes of the list of this rank, found {} elements in a buffer of {}",
        elements, allocated);
  check(ranks >= 1 && ranks <= max_rank_count, "lists: expected 1 to {} ranks, found {}",
        max_rank_count, ranks);
}

void Changing::validate(const Storage& storage) const {
  const std::size_t d = dimension;
  grid.validate(storage);
  check(d < grid.dims.size(), "shape: expected a dimension from 0 to {}, found {}",
        grid.dims.size() - 1, d);
  const auto* const dealt = std::get_if<BlockCyclic>(&grid.dims[d]);
  check(
      dealt != nullptr && dealt->extent == 0 && dealt->cut == 0 && (!is_even || dealt->block == 1),
      "shape: expected dimension {} in blocks, with extent 0, cut 0 and, if it is even, block 1",
      d);
  check(storage.is_dense() && std::ranges::none_of(grid.axes, &MeshAxis::has_sums),
        "shape: expected no ghost, leading or sum, because the extent of dimension {} changes with "
        "every step",
        d);
  check(!key.empty() || (ranges.empty() && !is_sorted),
        "shape: expected a key with ranges or sorted, found none for dimension {}", d);
  if (key.empty()) return;
  check(std::ranges::all_of(key, [](char c) { return c > ' ' && c < 0x7f; }),
        "key: expected a name of visible ASCII characters without spaces for dimension {}, found "
        "other characters",
        d);
  const std::size_t slowest = kth_fastest(storage.order, dimensions(), dimensions() - 1);
  check(
      d == slowest && is_even && dealt->source == 0,
      "key: expected rows along dimension {}, the slowest one in memory, without block and source; "
      "found them along dimension {}",
      slowest, d);
  for (std::size_t other = 0; other < grid.dims.size(); ++other)
    check(other == d || index_calc::grid(grid.dims[other]) == 1,
          "key: expected whole rows, found dimension {} split in {}", other,
          index_calc::grid(grid.dims[other]));
  if (ranges.empty()) return;
  check(static_cast<Index>(ranges.size()) == dealt->grid - 1,
        "ranges: expected {} numbers, one fewer than the coordinates along dimension {}, found {}",
        dealt->grid - 1, d, ranges.size());
  check(std::ranges::is_sorted(ranges) && ranges.front() >= 0,
        "ranges: expected ascending numbers of at least 0, found {} of them in another order",
        ranges.size());
}

}  // namespace tremula::index_calc
