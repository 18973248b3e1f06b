// SPDX-License-Identifier: Apache-2.0
#include "index_calc/layout/layout.hpp"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <concepts>
#include <numeric>
#include <ranges>

#include "index_calc/basics/check.hpp"
#include "index_calc/layout/process_grid.hpp"

namespace tremula::index_calc {
namespace {

void validate_members(const std::vector<RankRange>& members, Index cells) {
  if (members.empty()) return;
  Index count = 0;
  std::vector<RankRange> sorted = members;
  for (const RankRange& r : sorted) {
    check(r.first.value >= 0 && r.count >= 1 && Index{r.first.value} + r.count <= max_rank_count,
          "members: expected ranges of at least one rank, each from 0 to {}, found {} ranks "
          "beginning with {}",
          max_rank_count - 1, r.count, r.first.value);
    count += r.count;
  }
  std::sort(sorted.begin(), sorted.end(), [](auto& a, auto& b) { return a.first < b.first; });
  for (std::size_t i = 1; i < sorted.size(); ++i)
    check(Index{sorted[i - 1].first.value} + sorted[i - 1].count <= sorted[i].first.value,
          "members: expected every rank once, found rank {} twice", sorted[i].first.value);
  check(count == cells, "members: expected {} ranks, one for each cell of the grid, found {}",
        cells, count);
}

void validate_extents(const Layout& layout) {
  Index elements = 1;
  for (std::size_t d = 0; d < dimensions(layout); ++d) {
    const Index extent = index_calc::extent(layout, d);
    check(extent >= 0, "dimension {}: expected an extent of at least 0, found {}", d, extent);
    check(is_empty(layout) || !__builtin_mul_overflow(elements, extent, &elements),
          "shape: expected at most 2^63 - 1 elements, found more: the product of the extents up to "
          "dimension {} overflows; split the array into several fields",
          d);
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
  try {
    return Layout(
        Grid(
            {BlockCyclic{.extent = desc[2], .block = desc[4], .grid = rows, .source = desc[6]},
             BlockCyclic{.extent = desc[3], .block = desc[5], .grid = columns, .source = desc[7]}}),
        {.order = rank_order}, {.order = Order::column, .leading = desc[8]});
  } catch (const core::Error& e) {
    throw core::Error(e.code(), fmt::format("ScaLAPACK descriptor: {}", e.what()));
  }
}

Layout::Layout() : kind_(Grid({BlockCyclic{}})) {}

Layout::Layout(LayoutKind kind, Ranks ranks, Storage storage)
    : kind_(std::move(kind)), ranks_(std::move(ranks)), storage_(std::move(storage)) {
  const std::size_t count = dimensions(*this);
  check(count >= 1 && count <= max_dimensions, "shape: expected 1 to {} dimensions, found {}",
        max_dimensions, count);
  std::visit([&](const auto& one) { one.validate(storage_); }, kind_);
  check(listed() == nullptr || ranks_.order == Order::row,
        "lists: expected no ranks=column, because the ranks of lists are in no grid");
  validate_extents(*this);
  validate_members(ranks_.members, rank_count(*this));
}

void validate_for_group(const Layout& layout, RankCount group_size) {
  if (layout.ranks().members.empty()) {
    check(rank_count(layout) == group_size,
          "the layout's grid has {} cells, but the group has {} ranks; expected equal numbers: "
          "choose another grid, name the ranks that take part with members=, or, if ranks hold "
          "copies, as replicas of a model do, give a mesh with an axis for them",
          rank_count(layout), group_size);
    return;
  }
  for (const RankRange& r : layout.ranks().members)
    check(Index{r.first.value} + r.count <= group_size,
          "members: rank {} takes part, but the group has only {} ranks, 0 to {}; name "
          "ranks of the group",
          Index{r.first.value} + r.count - 1, group_size, group_size - 1);
}

void validate_pair(const Layout& mine, const Layout& theirs) {
  const std::size_t count = dimensions(mine);
  bool is_one_shape = dimensions(theirs) == count;
  for (std::size_t d = 0; is_one_shape && d < count; ++d)
    is_one_shape = extent(mine, d) == extent(theirs, d);
  if (!is_one_shape || changing_dimension(mine) != changing_dimension(theirs))
    throw core::Error(core::Errc::mismatch,
                      fmt::format("expected two layouts of the same shape, found this side's "
                                  "\"{}\" and the other side's \"{}\"; give both the same shape",
                                  to_string(mine), to_string(theirs)));
  for (const Layout* layout : {&mine, &theirs})
    if (has_sums(*layout))
      throw core::Error(core::Errc::unsupported,
                        fmt::format("expected ranks that hold whole values, found partial sums "
                                    "(sum=) in \"{}\": only redistributions and consumers of a "
                                    "stream take them; redistribute to a layout without them first",
                                    to_string(*layout)));
}

namespace {

/// Calls `action` as std::visit does, but cannot throw.
template <class Action>
auto visit(const Layout& layout, Action&& action) noexcept {
  if (const auto* grid = layout.grid()) return action(*grid);
  if (const auto* skewed = layout.skewed()) return action(*skewed);
  if (const auto* listed = layout.listed()) return action(*listed);
  return action(*layout.changing());
}

}  // namespace

std::size_t dimensions(const Layout& layout) noexcept {
  return visit(layout, [](const auto& kind) { return kind.dimensions(); });
}

Index extent(const Layout& layout, std::size_t dimension) noexcept {
  return visit(layout, [&](const auto& kind) { return kind.extent(dimension); });
}

std::span<const MeshAxis> axes_of(const Layout& layout) noexcept {
  if (const Changing* const changing = layout.changing()) return changing->grid.axes;
  if (const Skewed* const skewed = layout.skewed()) return skewed->axes;
  return layout.grid() != nullptr ? layout.grid()->axes : std::span<const MeshAxis>();
}

bool has_sums(const Layout& layout) noexcept {
  return std::ranges::any_of(axes_of(layout), &MeshAxis::has_sums);
}

bool is_partial(const Layout& layout) noexcept {
  return layout.listed() != nullptr && layout.listed()->is_partial;
}

bool has_copies(const Layout& layout) noexcept {
  return copy_count(layout) > 1 || (layout.listed() != nullptr && layout.listed()->has_copies);
}

bool is_empty(const Layout& layout) noexcept {
  bool is_empty = false;
  for (std::size_t d = 0; d < dimensions(layout); ++d)
    is_empty = is_empty || extent(layout, d) == 0;
  return is_empty;
}

RankCount rank_count(const Layout& layout) noexcept {
  if (const Listed* const listed = layout.listed()) return static_cast<RankCount>(listed->ranks);
  Index cells = 1;
  for (const MeshAxis& axis : axes_of(layout)) cells *= axis.ranks;
  return static_cast<RankCount>(cells);
}

RankCount copy_count(const Layout& layout) noexcept {
  Index copies = 1;
  for (const MeshAxis& axis : axes_of(layout))
    if (axis.along() == nullptr && axis.owner() == nullptr) copies *= axis.ranks;
  return static_cast<RankCount>(copies);
}

std::vector<Rank> ranks_of(const Layout& layout) {
  std::vector<Rank> ranks(static_cast<std::size_t>(rank_count(layout)));
  std::iota(ranks.begin(), ranks.end(), Rank{0});
  auto next = ranks.begin();
  for (const RankRange& r : layout.ranks().members) {
    std::iota(next, next + r.count, r.first);
    next += r.count;
  }
  return ranks;
}

std::vector<Index> shape(const Layout& layout) {
  std::vector<Index> result(dimensions(layout));
  for (std::size_t d = 0; d < result.size(); ++d) result[d] = extent(layout, d);
  return result;
}

namespace {

/// The numbers of which a layout consists, except those that concern only the memory of its owners.
class Words {
public:
  explicit Words(const Layout& layout) {
    words_.reserve(64);
    add_all(layout.kind(), layout.ranks().order, layout.ranks().members, layout.storage().order);
  }
  std::size_t bytes() const noexcept { return words_.size() * sizeof(words_[0]); }
  std::uint64_t hash() const noexcept { return XXH3_64bits(words_.data(), bytes()); }

private:
  template <std::integral Number>
  void add(Number value) {
    auto word = static_cast<std::uint64_t>(value);
    if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
    words_.push_back(word);
  }
  void add(Order order) { add(static_cast<int>(order)); }
  template <std::ranges::range Values>
  void add(const Values& values) {
    add(values.size());
    for (const auto& value : values) add(value);
  }
  template <class... Kinds>
  void add(const std::variant<Kinds...>& one) {
    add(one.index());
    std::visit([&](const auto& value) { add(value); }, one);
  }
  void add(const BlockCyclic& d) { add_all(d.extent, d.block, d.grid, d.source, d.cut); }
  void add(const Splits& d) { add_all(d.bounds, d.owner, d.grid); }
  void add(const BlockCuts& c) {
    add_all(c.extent(), c.is_equal(), c.size_or_count(), c.cut(), c.bounds());
  }
  void add(const Copies&) {}
  void add(const Sums&) {}
  void add(const Along& along) { add_all(along.dimension, along.level); }
  void add(const OwnerTerm& t) { add_all(t.dimension, t.divisor, t.factor); }
  void add(const OwnerExpression& owner) { add_all(owner.terms, owner.constant); }
  void add(const OwnerTable& owner) { add_all(owner.extents, owner.entries); }
  void add(const MeshAxis& axis) { add_all(axis.ranks, axis.use); }
  void add(const Grid& grid) {
    add_all(grid.dims, grid.is_plain());
    if (!grid.is_plain()) add(grid.axes);
  }
  void add(const Skewed& skewed) { add_all(skewed.cuts, skewed.axes); }
  void add(const Listed& l) { add_all(l.shape, l.ranks, l.is_partial, l.has_copies); }
  void add(const Changing& c) {
    add_all(c.grid, c.dimension, c.is_even, c.key, c.ranges, c.is_sorted);
  }
  void add(const RankRange& range) { add_all(range.first.value, range.count); }
  template <class... Values>
  void add_all(const Values&... values) {
    (add(values), ...);
  }
  std::vector<std::uint64_t> words_;
};

}  // namespace

std::uint64_t fingerprint(const Layout& layout) { return Words(layout).hash(); }

std::size_t memory_bytes(const Layout& layout) { return sizeof(layout) + Words(layout).bytes(); }

Index bytes_of(const Layout& layout, std::size_t element_bytes) {
  if (is_empty(layout)) return 0;
  auto bytes = static_cast<Index>(element_bytes);
  for (std::size_t d = 0; d < dimensions(layout); ++d)
    core::expects(!__builtin_mul_overflow(bytes, extent(layout, d), &bytes), [&] {
      return fmt::format(
          "expected an array of at most 2^63 - 1 bytes, found more: {} bytes for each element of "
          "\"{}\"; split the array into several fields or take a smaller element type",
          element_bytes, to_string(layout));
    });
  return bytes;
}

OwnedBlocks owned_blocks(const Skewed& skewed) {
  std::vector<OwnedBlocks::Axis> axes;
  for (const MeshAxis& axis : skewed.axes)
    if (const BlockOwner* const owner = axis.owner()) axes.push_back({*owner, axis.ranks});
  return {skewed.cuts, std::move(axes)};
}

namespace {

// Return the local part at `coords` of a kind.
/// @param rank  for the error text
LocalPart part_at(const Skewed& skewed, const Storage& storage, const GridCoords& coords, Rank) {
  const OwnedBlocks blocks = owned_blocks(skewed);
  const OwnerCoords owner = owner_coords(coords);
  LocalPart part;
  const Index count = blocks.count(owner);
  BlockNumbers only{};
  if (count == 1) blocks.for_each_block(owner, [&](const BlockNumbers& block) { only = block; });
  part.dimensions = count == 1 ? blocks.dimensions() : 1;
  part.elements = part.allocated = blocks.elements(owner);
  if (count == 0) return part;
  part.extent[0] = part.elements;
  part.stride[0] = 1;
  Index step = 1;
  for (std::size_t k = 0; k < part.dimensions && count == 1; ++k) {
    const std::size_t d = kth_fastest(storage.order, part.dimensions, k);
    part.extent[d] = blocks.cuts(d).size(only[d]);
    part.stride[d] = step;
    step *= part.extent[d];
  }
  return part;
}

LocalPart part_at(const Listed& listed, const Storage&, const GridCoords&, Rank) {
  check(
      listed.mine != nullptr,
      "expected the list of this rank, found none: make the layout from points, segments or boxes, "
      "not from its text");
  LocalPart part;
  part.dimensions = 1;
  part.elements = listed.elements;
  part.extent[0] = part.allocated = listed.allocated;
  part.stride[0] = part.allocated > 0 ? 1 : 0;
  return part;
}

LocalPart part_at(const Grid& grid, const Storage& storage, const GridCoords& coords, Rank rank) {
  LocalPart part;
  part.dimensions = grid.dims.size();
  bool is_empty = false;
  for (std::size_t d = 0; d < part.dimensions; ++d) {
    part.extent[d] = local_extent(grid.dims[d], coords[d]);
    is_empty = is_empty || part.extent[d] == 0;
  }
  if (is_empty) return part;
  part.elements = 1;
  Index step = 1;
  for (std::size_t k = 0; k < part.dimensions; ++k) {
    const std::size_t d = kth_fastest(storage.order, part.dimensions, k);
    const Index ghost = storage.ghost.empty() ? 0 : storage.ghost[d];
    part.elements *= part.extent[d];
    Index cells = exact(sum, part.extent[d], exact(product, 2, ghost));
    if (k == 0 && storage.leading > 0) {
      check(cells <= storage.leading,
            "leading: rank {} needs at least {} elements along its fastest dimension {}, found {}",
            rank.value, cells, d, storage.leading);
      cells = storage.leading;
    }
    part.stride[d] = step;
    part.first = exact(sum, part.first, exact(product, ghost, step));
    step = exact(product, step, cells);
  }
  part.allocated = step;
  return part;
}

LocalPart part_at(const Changing& changing, const Storage& storage, const GridCoords& coords,
                  Rank rank) {
  return part_at(changing.grid, storage, coords, rank);
}

}  // namespace

LocalPart local_part(const Layout& layout, Rank rank) {
  const auto coords = coords_of(layout, rank);
  if (!coords) return {};
  return std::visit(
      [&](const auto& kind) { return part_at(kind, layout.storage(), *coords, rank); },
      layout.kind());
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

const Grid& expect_grid(const Layout& layout, std::string_view what) {
  if (const Grid* const grid = layout.grid()) return *grid;
  const std::string text = to_string(layout);
  throw core::Error(
      core::Errc::unsupported,
      layout.changing() != nullptr
          ? fmt::format("{}: expected a layout whose extents are known, found \"{}\", an extent of "
                        "which changes with every step",
                        what, text)
      : layout.listed() != nullptr
          ? fmt::format("{}: expected a layout whose owners are computed, found \"{}\", whose "
                        "ranks list what they own",
                        what, text)
          : fmt::format("{}: expected a layout whose dimensions are distributed one by one, "
                        "found \"{}\", whose blocks are skewed: redistribute it to a grid first",
                        what, text));
}

}  // namespace tremula::index_calc
