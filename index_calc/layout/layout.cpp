// SPDX-License-Identifier: Apache-2.0
#include "index_calc/layout/layout.hpp"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "index_calc/layout/check.hpp"
#include "index_calc/layout/process_grid.hpp"

namespace tremula::index_calc {
namespace {

constexpr Index max_rank_count = std::numeric_limits<Rank>::max();

void validate_members(const Layout& layout, Index cells) {
  if (layout.members.empty()) return;
  Index count = 0;
  std::vector<RankRange> sorted = layout.members;
  for (const RankRange& r : sorted) {
    check(r.first >= 0 && r.count >= 1 && Index{r.first} + r.count <= max_rank_count,
          "members: expected ranges of at least one rank, each from 0 to {}, found {} ranks "
          "beginning with {}",
          max_rank_count - 1, r.count, r.first);
    count += r.count;
  }
  std::sort(sorted.begin(), sorted.end(), [](auto& a, auto& b) { return a.first < b.first; });
  for (std::size_t i = 1; i < sorted.size(); ++i)
    check(Index{sorted[i - 1].first} + sorted[i - 1].count <= sorted[i].first,
          "members: expected every rank once, found rank {} twice", sorted[i].first);
  check(count == cells, "members: expected {} ranks, one for each cell of the grid, found {}",
        cells, count);
}

void validate_changing(const Layout& layout) {
  const auto& [d, is_even, key, ranges, is_sorted] = *layout.changing;
  check(d < layout.dims.size(), "changing: expected a dimension from 0 to {}, found {}",
        layout.dims.size() - 1, d);
  const auto* const dealt = std::get_if<BlockCyclic>(&layout.dims[d]);
  check(
      dealt != nullptr && dealt->extent == 0 && dealt->cut == 0 && (!is_even || dealt->block == 1),
      "changing: expected dimension {} in blocks, with extent 0, cut 0 and, if it is even, block 1",
      d);
  check(
      !layout.listing && !layout.skew && layout.mesh.sums.empty() && layout.ghost.empty() &&
          layout.leading == 0,
      "shape: expected no lists, owner, sum, ghost or leading, because the extent of dimension {} "
      "changes with every step",
      d);
  check(!key.empty() || (ranges.empty() && !is_sorted),
        "changing: expected a key with ranges or sorted, found none for dimension {}", d);
  if (key.empty()) return;
  check(std::ranges::all_of(key, [](char c) { return c > ' ' && c < 0x7f; }),
        "key: expected a name of visible ASCII characters without spaces for dimension {}, found "
        "other characters",
        d);
  const std::size_t slowest =
      kth_fastest(layout.storage_order, layout.dims.size(), layout.dims.size() - 1);
  check(
      d == slowest && is_even && dealt->source == 0,
      "key: expected rows along dimension {}, the slowest one in memory, without block and source; "
      "found them along dimension {}",
      slowest, d);
  for (std::size_t other = 0; other < layout.dims.size(); ++other)
    check(other == d || grid(layout.dims[other]) == 1,
          "key: expected whole rows, found dimension {} split in {}", other,
          grid(layout.dims[other]));
  check(ranges.empty() || (static_cast<Index>(ranges.size()) == dealt->grid - 1 &&
                           std::ranges::is_sorted(ranges)),
        "ranges: expected {} ascending numbers, found {}", dealt->grid - 1, ranges.size());
  if (!ranges.empty())
    check(ranges.front() >= 0, "ranges: expected numbers of at least 0, found {}", ranges.front());
}

/// Checks the mesh of a layout.
/// @return the number of its cells
Index validate_mesh(const Layout& layout) {
  const Mesh& mesh = layout.mesh;
  check(mesh.axes.size() == layout.dims.size(),
        "mesh: expected axes for each of the {} dimensions, found axes for {}", layout.dims.size(),
        mesh.axes.size());
  check(mesh.extents.size() <= max_mesh_axes, "mesh: expected at most {} axes, found {}",
        max_mesh_axes, mesh.extents.size());
  Index cells = 1;
  for (const Index extent : mesh.extents) {
    check(extent >= 1, "mesh: expected axes of at least 1 rank, found {}", extent);
    check(!__builtin_mul_overflow(cells, extent, &cells) && cells <= max_rank_count,
          "mesh: expected at most {} ranks, found more", max_rank_count);
  }
  std::vector<bool> is_used(mesh.extents.size());
  for (std::size_t d = 0; d < mesh.axes.size(); ++d) {
    Index coordinates = 1;
    for (const std::size_t axis : mesh.axes[d]) {
      check(axis < mesh.extents.size(),
            "mesh: expected axes from 0 to {} for dimension {}, found {}", mesh.extents.size() - 1,
            d, axis);
      check(!is_used[axis], "mesh: expected every axis once, found axis {} again for dimension {}",
            axis, d);
      is_used[axis] = true;
      coordinates *= mesh.extents[axis];
    }
    check(coordinates == grid(layout.dims[d]),
          "mesh: expected {} coordinates along dimension {}, the product of its axes, found {}",
          coordinates, d, grid(layout.dims[d]));
  }
  for (std::size_t i = 0; i < mesh.sums.size(); ++i) {
    const std::size_t axis = mesh.sums[i];
    check(axis < mesh.extents.size() && (i == 0 || mesh.sums[i - 1] < axis),
          "sum: expected ascending axes from 0 to {}, found {}", mesh.extents.size() - 1, axis);
    check(!is_used[axis] && !(layout.skew && layout.skew->owners[axis]),
          "sum: expected axes that split no dimension and have no owner, found axis {}, which does",
          axis);
  }
  return cells;
}

void validate_skew(const Layout& layout) {
  check(
      layout.ghost.empty() && layout.leading == 0 && !layout.listing,
      "owner: expected no ghost, leading or lists with owners, because the blocks of a rank follow "
      "each other without gaps");
  for (std::size_t d = 0; d < layout.dims.size(); ++d) {
    const auto* const cuts = std::get_if<BlockCyclic>(&layout.dims[d]);
    check(cuts != nullptr && cuts->grid == 1 && layout.mesh.axes[d].empty(),
          "owner: expected blocks of one size and no axes for dimension {}, whose owners are "
          "expressions, found splits or axes",
          d);
    check(layout.skew->equal[d] == 0 ||
              (cuts->cut == 0 && cuts->block == plain_block(cuts->extent, 1)),
          "equal: expected neither block nor cut for dimension {}, found block or cut", d);
  }
}

/// Returns a sum or product.
/// @throws core::Error invalid_argument if it exceeds 63 bits
template <class Operation>
Index exact(Operation builtin_overflow, Index a, Index b) {
  Index result = 0;
  check(!builtin_overflow(a, b, &result),
        "the local part has more than 2^63 - 1 elements, including ghost cells and leading; use "
        "more ranks or a smaller ghost width");
  return result;
}
constexpr auto product = [](Index a, Index b, Index* r) { return __builtin_mul_overflow(a, b, r); };
constexpr auto sum = [](Index a, Index b, Index* r) { return __builtin_add_overflow(a, b, r); };

}  // namespace

Layout Layout::from_scalapack(std::span<const int, 9> desc, int rows, int columns,
                              Order rank_order) {
  check(desc[0] == 1, "ScaLAPACK descriptor: expected desc[0] = 1 (dense matrix), found {}",
        desc[0]);
  check(desc[8] >= 1,
        "ScaLAPACK descriptor: expected a leading dimension desc[8] of at least 1, found {}",
        desc[8]);
  Layout layout{
      .dims = {BlockCyclic{.extent = desc[2], .block = desc[4], .grid = rows, .source = desc[6]},
               BlockCyclic{
                   .extent = desc[3], .block = desc[5], .grid = columns, .source = desc[7]}},
      .rank_order = rank_order,
      .storage_order = Order::column,
      .ghost = {},
      .leading = desc[8],
      .members = {}};
  try {
    validate(layout);
  } catch (const core::Error& e) {
    throw core::Error(e.code(), fmt::format("ScaLAPACK descriptor: {}", e.what()));
  }
  return layout;
}

void validate(const Layout& layout) {
  const std::size_t dimensions = layout.dims.size();
  check(dimensions >= 1 && dimensions <= max_dimensions, "expected 1 to {} dimensions, found {}",
        max_dimensions, dimensions);
  Index elements = 1, cells = 1;
  bool empty = false;
  for (std::size_t d = 0; d < dimensions; ++d) {
    try {
      validate(layout.dims[d]);
    } catch (const core::Error& e) {
      throw core::Error(e.code(), fmt::format("dimension {}: {}", d, e.what()));
    }
    empty = empty || extent(layout.dims[d]) == 0;
  }
  for (std::size_t d = 0; d < dimensions; ++d) {
    check(empty || !__builtin_mul_overflow(elements, extent(layout.dims[d]), &elements),
          "expected at most 2^63 - 1 elements, found more: the product of the extents "
          "up to dimension {} "
          "overflows; split the array into several fields",
          d);
    check(!__builtin_mul_overflow(cells, grid(layout.dims[d]), &cells) && cells <= max_rank_count,
          "expected a grid of at most {} ranks, found more: the product of the grid up "
          "to dimension {} "
          "overflows",
          max_rank_count, d);
  }
  check(layout.ghost.empty() || layout.ghost.size() == dimensions,
        "ghost: expected one width for each of the {} dimensions or none, found {}", dimensions,
        layout.ghost.size());
  for (const Index width : layout.ghost)
    check(width >= 0, "ghost: expected widths of at least 0, found {}", width);
  check(layout.leading >= 0,
        "leading: expected at least 1 element, or 0 for as many as needed, found {}",
        layout.leading);
  if (layout.skew) validate(*layout.skew, dimensions, layout.mesh.extents.size());
  if (!layout.mesh.extents.empty()) cells = validate_mesh(layout);
  if (layout.skew) validate_skew(layout);
  check(!layout.listing || (layout.mesh.extents.empty() && layout.ghost.empty() &&
                            layout.leading == 0 && layout.storage_order == Order::row),
        "lists: expected no mesh, ghost, leading or store, because a list states where each "
        "element is");
  if (layout.changing) validate_changing(layout);
  check(!layout.mesh.extents.empty() || (layout.mesh.axes.empty() && layout.mesh.sums.empty()),
        "mesh: expected extents of the axes, found none");
  validate_members(layout, cells);
}

void validate_for_group(const Layout& layout, Rank group_size) {
  if (layout.members.empty()) {
    check(rank_count(layout) == group_size,
          "the layout's grid has {} cells, but the group has {} ranks; expected equal numbers: "
          "choose another grid, name the ranks that take part with members=, or, if ranks hold "
          "copies, as replicas of a model do, give a mesh with an axis for them",
          rank_count(layout), group_size);
    return;
  }
  for (const RankRange& r : layout.members)
    check(Index{r.first} + r.count <= group_size,
          "members: rank {} takes part, but the group has only {} ranks, 0 to {}; name "
          "ranks of the group",
          Index{r.first} + r.count - 1, group_size, group_size - 1);
}

void validate_pair(const Layout& mine, const Layout& theirs) {
  const auto have_one_extent = [](const Distribution& a, const Distribution& b) {
    return extent(a) == extent(b);
  };
  if (!std::ranges::equal(mine.dims, theirs.dims, have_one_extent) ||
      changing_dimension(mine) != changing_dimension(theirs))
    throw core::Error(core::Errc::mismatch,
                      fmt::format("expected two layouts of the same shape, found this side's "
                                  "\"{}\" and the other side's \"{}\"; give both the same shape",
                                  to_string(mine), to_string(theirs)));
  for (const Layout* layout : {&mine, &theirs})
    if (!layout->mesh.sums.empty())
      throw core::Error(core::Errc::unsupported,
                        fmt::format("expected ranks that hold whole values, found partial sums "
                                    "(sum=) in \"{}\": only redistributions and consumers of a "
                                    "stream take them; redistribute to a layout without them first",
                                    to_string(*layout)));
}

Rank rank_count(const Layout& layout) noexcept {
  Index cells = 1;
  for (const Index extent : layout.mesh.extents) cells *= extent;
  if (layout.mesh.extents.empty())
    for (const Distribution& d : layout.dims) cells *= grid(d);
  return static_cast<Rank>(cells);
}

Rank copy_count(const Layout& layout) noexcept {
  Index copies = 1;
  for (const Index extent : layout.mesh.extents) copies *= extent;
  for (const auto& axes : layout.mesh.axes)
    for (const std::size_t axis : axes) copies /= layout.mesh.extents[axis];
  for (std::size_t a = 0; layout.skew && a < layout.mesh.extents.size(); ++a)
    if (layout.skew->owners[a]) copies /= layout.mesh.extents[a];
  return static_cast<Rank>(copies);
}

Mesh mesh_of(const Layout& layout) {
  if (!layout.mesh.extents.empty()) return layout.mesh;
  Mesh mesh;
  for (std::size_t d = 0; d < layout.dims.size(); ++d) {
    mesh.extents.push_back(grid(layout.dims[d]));
    mesh.axes.push_back({d});
  }
  return mesh;
}

std::vector<Rank> ranks_of(const Layout& layout) {
  std::vector<Rank> ranks(static_cast<std::size_t>(rank_count(layout)));
  std::iota(ranks.begin(), ranks.end(), 0);
  auto next = ranks.begin();
  for (const RankRange& r : layout.members) {
    std::iota(next, next + r.count, r.first);
    next += r.count;
  }
  return ranks;
}

std::vector<Index> shape(const Layout& layout) {
  std::vector<Index> result;
  result.reserve(layout.dims.size());
  for (const Distribution& d : layout.dims) result.push_back(extent(d));
  return result;
}

std::size_t memory_bytes(const Layout& layout) noexcept {
  std::size_t bytes = sizeof(layout) + layout.dims.capacity() * sizeof(Distribution) +
                      layout.ghost.capacity() * sizeof(Index) +
                      layout.members.capacity() * sizeof(RankRange);
  for (const auto& axes : layout.mesh.axes)
    bytes += sizeof(std::vector<std::size_t>) + axes.capacity() * sizeof(std::size_t);
  bytes += layout.mesh.extents.capacity() * sizeof(Index) +
           layout.mesh.sums.capacity() * sizeof(std::size_t);
  if (layout.skew) {
    bytes += layout.skew->equal.capacity() * sizeof(Index);
    for (const auto& owner : layout.skew->owners)
      bytes += sizeof(owner) + (owner ? owner->terms.capacity() * sizeof(OwnerTerm) : 0);
  }
  if (layout.changing)
    bytes += layout.changing->key.capacity() + layout.changing->ranges.capacity() * sizeof(Index);
  for (const Distribution& d : layout.dims)
    if (const auto* splits = std::get_if<Splits>(&d))
      bytes += (splits->bounds.capacity() + splits->owner.capacity()) * sizeof(Index);
  return bytes;
}

Index bytes_of(const Layout& layout, std::size_t element_bytes) {
  if (std::ranges::any_of(layout.dims, [](const Distribution& d) { return extent(d) == 0; }))
    return 0;
  auto bytes = static_cast<Index>(element_bytes);
  for (const Distribution& d : layout.dims)
    core::expects(!__builtin_mul_overflow(bytes, extent(d), &bytes), [&] {
      return fmt::format(
          "expected an array of at most 2^63 - 1 bytes, found more: {} bytes for each element of "
          "\"{}\"; split the array into several fields or take a smaller element type",
          element_bytes, to_string(layout));
    });
  return bytes;
}

OwnedBlocks owned_blocks(const Layout& layout) {
  std::vector<BlockCuts> cuts;
  for (std::size_t d = 0; d < layout.dims.size(); ++d) {
    const auto& blocks = std::get<BlockCyclic>(layout.dims[d]);
    const Index count = layout.skew->equal[d];
    cuts.push_back(count > 0 ? BlockCuts::equal(blocks.extent, count)
                             : BlockCuts::cyclic(blocks.extent, blocks.block, blocks.cut));
  }
  std::vector<OwnedBlocks::Axis> axes;
  for (std::size_t a = 0; a < layout.mesh.extents.size(); ++a)
    if (const auto& owner = layout.skew->owners[a])
      axes.push_back({*owner, layout.mesh.extents[a]});
  return {std::move(cuts), std::move(axes)};
}

namespace {

/// Returns the local part at `coords` of a skewed layout.
LocalPart skewed_part(const Layout& layout, const GridCoords& coords) {
  const OwnedBlocks blocks = owned_blocks(layout);
  const OwnerCoords owner = owner_coords(coords);
  LocalPart part;
  Index count = 0;
  BlockNumbers only{};
  blocks.for_each_block(owner, [&](const BlockNumbers& block) {
    only = block;
    ++count;
  });
  part.dimensions = count == 1 ? blocks.dimensions() : 1;
  part.elements = part.allocated = blocks.elements(owner);
  if (count == 0) return part;
  part.extent[0] = part.elements;
  part.stride[0] = 1;
  Index step = 1;
  for (std::size_t k = 0; k < part.dimensions && count == 1; ++k) {
    const std::size_t d = kth_fastest(layout.storage_order, part.dimensions, k);
    part.extent[d] = blocks.cuts(d).size(only[d]);
    part.stride[d] = step;
    step *= part.extent[d];
  }
  return part;
}

}  // namespace

LocalPart local_part(const Layout& layout, Rank rank) {
  const auto coords = coords_of(layout, rank);
  if (!coords) return {};
  LocalPart part;
  if (layout.listing) {
    check(layout.listing->mine != nullptr,
          "\"{}\": expected the list of this rank, found none: make the layout from points, "
          "segments or boxes, not from its text",
          to_string(layout));
    part.dimensions = 1;
    part.extent[0] = part.elements = layout.listing->elements;
    part.stride[0] = part.elements > 0 ? 1 : 0;
    part.allocated = layout.listing->allocated;
    return part;
  }
  if (layout.skew) return skewed_part(layout, *coords);
  part.dimensions = layout.dims.size();
  bool empty = false;
  for (std::size_t d = 0; d < part.dimensions; ++d) {
    part.extent[d] = local_extent(layout.dims[d], (*coords)[d]);
    empty = empty || part.extent[d] == 0;
  }
  if (empty) return part;
  part.elements = 1;
  Index step = 1;
  for (std::size_t k = 0; k < part.dimensions; ++k) {
    const std::size_t d = kth_fastest(layout.storage_order, part.dimensions, k);
    const Index ghost = layout.ghost.empty() ? 0 : layout.ghost[d];
    part.elements = exact(product, part.elements, part.extent[d]);
    Index cells = exact(sum, part.extent[d], exact(product, 2, ghost));
    if (k == 0 && layout.leading > 0) {
      check(cells <= layout.leading,
            "leading: rank {} needs at least {} elements "
            "along its fastest dimension {}, found {}",
            rank, cells, d, layout.leading);
      cells = layout.leading;
    }
    part.stride[d] = step;
    part.first = exact(sum, part.first, exact(product, ghost, step));
    step = exact(product, step, cells);
  }
  part.allocated = step;
  return part;
}

LocalPart flattened(const LocalPart& part) {
  LocalPart flat;
  flat.dimensions = 2;
  flat.extent = {1, part.allocated};
  flat.stride = {1, 1};
  flat.allocated = part.allocated;
  flat.elements = part.elements;
  return flat;
}

void expect_computed(const Layout& layout, std::string_view what) {
  if (layout.changing)
    throw core::Error(core::Errc::unsupported,
                      fmt::format("{}: expected a layout whose extents are known, found \"{}\", "
                                  "an extent of which changes with every step",
                                  what, to_string(layout)));
  if (!layout.listing && !layout.skew) return;
  throw core::Error(
      core::Errc::unsupported,
      layout.listing
          ? fmt::format("{}: expected a layout whose owners are computed, found \"{}\", whose "
                        "ranks list what they own",
                        what, to_string(layout))
          : fmt::format("{}: expected a layout whose dimensions are distributed one by one, "
                        "found \"{}\", whose blocks are skewed: redistribute it to a grid first",
                        what, to_string(layout)));
}

std::uint64_t fingerprint(const Layout& layout) {
  std::vector<std::uint64_t> words;
  std::size_t count = 4 + 2 * layout.members.size();
  for (const Distribution& d : layout.dims) {
    const auto* splits = std::get_if<Splits>(&d);
    count += splits == nullptr ? 6 : 4 + splits->bounds.size() + splits->owner.size();
  }
  words.reserve(count);
  const auto add = [&words](Index value) {
    auto word = static_cast<std::uint64_t>(value);
    if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
    words.push_back(word);
  };
  const auto add_all = [&add](const std::vector<Index>& values) {
    add(static_cast<Index>(values.size()));
    for (const Index v : values) add(v);
  };
  add(static_cast<Index>(layout.dims.size()));
  for (const Distribution& d : layout.dims) {
    add(static_cast<Index>(d.index()));
    add(grid(d));
    if (const auto* dealt = std::get_if<BlockCyclic>(&d)) {
      add(dealt->extent), add(dealt->block), add(dealt->source), add(dealt->cut);
    } else {
      add_all(std::get<Splits>(d).bounds), add_all(std::get<Splits>(d).owner);
    }
  }
  add(layout.rank_order == Order::row ? 0 : 1);
  add(layout.storage_order == Order::row ? 0 : 1);
  add(static_cast<Index>(layout.members.size()));
  for (const RankRange& r : layout.members) add(r.first), add(r.count);
  if (!layout.mesh.extents.empty()) {
    add_all(layout.mesh.extents);
    for (const auto& axes : layout.mesh.axes) {
      add(static_cast<Index>(axes.size()));
      for (const std::size_t axis : axes) add(static_cast<Index>(axis));
    }
  }
  if (!layout.mesh.sums.empty()) {
    add(-4);
    add(static_cast<Index>(layout.mesh.sums.size()));
    for (const std::size_t axis : layout.mesh.sums) add(static_cast<Index>(axis));
  }
  if (layout.listing) {
    add(-1);
    add((layout.listing->is_partial ? 1 : 0) + (layout.listing->has_copies ? 2 : 0));
  }
  if (layout.changing) {
    add(-2);
    add(static_cast<Index>(layout.changing->dimension));
    add((layout.changing->is_even ? 1 : 0) + (layout.changing->is_sorted ? 2 : 0));
    add(static_cast<Index>(XXH3_64bits(layout.changing->key.data(), layout.changing->key.size())));
    add_all(layout.changing->ranges);
  }
  if (layout.skew) {
    add(-3);
    add_all(layout.skew->equal);
    for (const auto& owner : layout.skew->owners) {
      add(owner ? static_cast<Index>(owner->terms.size()) : -1);
      if (!owner) continue;
      add(owner->constant);
      for (const OwnerTerm& t : owner->terms)
        add(static_cast<Index>(t.dimension)), add(t.divisor), add(t.factor);
    }
  }
  return XXH3_64bits(words.data(), words.size() * sizeof(words[0]));
}

}  // namespace tremula::index_calc
