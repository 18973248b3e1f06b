// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <limits>

#include "client/c_api/c_api.hpp"
#include "index_calc/layout/placements.hpp"
#include "index_calc/lists/index_list.hpp"
#include "index_calc/proof/content_hash.hpp"

using namespace tremula;
using client::expects_pointer, client::guarded, client::make_layout;

void tremula::client::make_layout(index_calc::Layout value, tremula_layout** out) {
  *out = new tremula_layout{std::move(value)};
}

tremula_status tremula_layout_parse(const char* text, tremula_layout** layout) {
  return guarded([&] {
    expects_pointer(text, "text");
    expects_pointer(layout, "layout");
    make_layout(index_calc::Layout::parse(text), layout);
  });
}

tremula_status tremula_layout_from_scalapack(const int desc[9], int rows, int columns,
                                             tremula_layout** layout) {
  return guarded([&] {
    expects_pointer(desc, "desc");
    expects_pointer(layout, "layout");
    make_layout(index_calc::Layout::from_scalapack(std::span<const int, 9>(desc, 9), rows, columns),
                layout);
  });
}

tremula_status tremula_layout_on_mesh(int dimensions, const int64_t* shape, int axes,
                                      const int64_t* mesh, const int* dimension_of,
                                      const int64_t* split_factor, tremula_layout** layout) {
  return guarded([&] {
    expects_pointer(shape, "shape");
    expects_pointer(mesh, "mesh");
    expects_pointer(dimension_of, "dimension_of");
    expects_pointer(layout, "layout");
    core::expects(dimensions >= 1 && axes >= 1, [&] {
      return fmt::format("expected at least one dimension and one axis, found {} and {}",
                         dimensions, axes);
    });
    std::vector<index_calc::Placement> placements(static_cast<std::size_t>(axes));
    for (std::size_t a = 0; a < placements.size(); ++a) {
      core::expects(dimension_of[a] >= -1, [&] {
        return fmt::format("axis {}: expected a dimension, or -1 for copies, found {}", a,
                           dimension_of[a]);
      });
      if (dimension_of[a] >= 0) placements[a].dimension = static_cast<std::size_t>(dimension_of[a]);
      if (split_factor != nullptr) placements[a].split_factor = split_factor[a];
    }
    make_layout(index_calc::layout_on_mesh({shape, static_cast<std::size_t>(dimensions)},
                                           {mesh, static_cast<std::size_t>(axes)}, placements),
                layout);
  });
}

namespace {

/// Makes a layout whose ranks list their elements.
/// @param make  called as make(shape); returns the IndexList of this rank
template <class Make>
tremula_status make_listed(int dimensions, const int64_t* shape, int ranks, unsigned options,
                           int64_t count, tremula_layout** layout, Make&& make) {
  return guarded([&] {
    expects_pointer(shape, "shape");
    expects_pointer(layout, "layout");
    core::expects(dimensions >= 1 && count >= 0 && ranks >= 1, [&] {
      return fmt::format(
          "expected at least 1 dimension, 1 rank and a count of at least 0, found {}, {} and {}",
          dimensions, ranks, count);
    });
    core::expects(count <= std::numeric_limits<int64_t>::max() / dimensions, [&] {
      return fmt::format("expected a count small enough to fit in memory, found {}", count);
    });
    core::expects((options & ~(TREMULA_PARTIAL | TREMULA_COPIES)) == 0, [&] {
      return fmt::format("options: expected only TREMULA_PARTIAL and TREMULA_COPIES, found {:#x}",
                         options);
    });
    const std::span extents(shape, static_cast<std::size_t>(dimensions));
    index_calc::listed_layout(extents, 1, false, false, {});  // refuses a wrong shape early
    make_layout(index_calc::listed_layout(extents, ranks, (options & TREMULA_PARTIAL) != 0,
                                          (options & TREMULA_COPIES) != 0, make(extents)),
                layout);
  });
}

std::span<const int64_t> numbers(const int64_t* first, int64_t count, const char* name) {
  if (count > 0) expects_pointer(first, name);
  return {first, static_cast<std::size_t>(count)};
}

}  // namespace

tremula_status tremula_layout_of_points(int dimensions, const int64_t* shape, int ranks,
                                        unsigned options, int64_t count, const int64_t* points,
                                        tremula_layout** layout) {
  return make_listed(dimensions, shape, ranks, options, count, layout, [&](auto extents) {
    return index_calc::IndexList::of_points(extents, numbers(points, count, "points"));
  });
}

tremula_status tremula_layout_of_segments(int dimensions, const int64_t* shape, int ranks,
                                          unsigned options, int64_t count, const int64_t* begins,
                                          const int64_t* lengths, tremula_layout** layout) {
  return make_listed(dimensions, shape, ranks, options, count, layout, [&](auto extents) {
    return index_calc::IndexList::of_segments(extents, numbers(begins, count, "begins"),
                                              numbers(lengths, count, "lengths"));
  });
}

tremula_status tremula_layout_of_boxes(int dimensions, const int64_t* shape, int ranks,
                                       unsigned options, int64_t count, const int64_t* origins,
                                       const int64_t* extents, tremula_layout** layout) {
  return make_listed(dimensions, shape, ranks, options, count, layout, [&](auto whole) {
    return index_calc::IndexList::of_boxes(whole, numbers(origins, count * dimensions, "origins"),
                                           numbers(extents, count * dimensions, "extents"));
  });
}

void tremula_layout_free(tremula_layout* layout) { delete layout; }
const char* tremula_layout_text(const tremula_layout* layout) {
  if (layout == nullptr) return "";
  guarded([&] {
    std::call_once(layout->text_was_asked_for, [&] { layout->text = to_string(layout->layout); });
  });
  return layout->text.c_str();
}
int tremula_layout_dimensions(const tremula_layout* layout) {
  return layout ? static_cast<int>(dimensions(layout->layout)) : 0;
}

tremula_status tremula_layout_shape(const tremula_layout* layout, int64_t* extents) {
  return guarded([&] {
    expects_pointer(layout, "layout");
    expects_pointer(extents, "extents");
    const auto shape = index_calc::shape(layout->layout);
    std::copy(shape.begin(), shape.end(), extents);
  });
}

/// Returns the part of a rank; if ranks list their elements, the part of the rank that made the
/// layout.
static index_calc::LocalPart part_of(const index_calc::Layout& layout, int rank) {
  const auto& members = layout.ranks().members;
  const auto first = members.empty() ? core::Rank{0} : members.front().first;
  return index_calc::local_part(layout, layout.listed() != nullptr ? first : core::Rank{rank});
}

tremula_status tremula_layout_local(const tremula_layout* layout, int rank, int64_t* extents,
                                    int64_t* strides, int64_t* first, int64_t* allocated) {
  return guarded([&] {
    expects_pointer(layout, "layout");
    const auto part = part_of(layout->layout, rank);
    const std::size_t dimensions = index_calc::dimensions(layout->layout);
    if (part.dimensions == 1 && dimensions > 1) {  // the buffer is along the last dimension
      if (extents) std::fill_n(extents, dimensions - 1, part.extent[0] > 0 ? 1 : 0);
      if (strides) std::fill_n(strides, dimensions - 1, part.extent[0]);
      if (extents) extents[dimensions - 1] = part.extent[0];
      if (strides) strides[dimensions - 1] = part.stride[0];
    } else {
      if (extents) std::copy_n(part.extent.begin(), dimensions, extents);
      if (strides) std::copy_n(part.stride.begin(), dimensions, strides);
    }
    if (first) *first = part.first;
    if (allocated) *allocated = part.allocated;
  });
}

tremula_status tremula_layout_global_index(const tremula_layout* layout, int rank, int dimension,
                                           int64_t local, int64_t* global) {
  return guarded([&] {
    expects_pointer(layout, "layout");
    expects_pointer(global, "global");
    const int dimensions = tremula_layout_dimensions(layout);
    core::expects(dimension >= 0 && dimension < dimensions, [&] {
      return fmt::format("dimension: expected 0 to {}; found {}", dimensions - 1, dimension);
    });
    const auto& dims = expect_grid(layout->layout, "global index of an element").dims;
    const auto d = static_cast<std::size_t>(dimension);
    const auto coords = layout->grid.coords_of(core::Rank{rank});
    const core::Index extent = coords ? index_calc::local_extent(dims[d], (*coords)[d]) : 0;
    core::expects(local >= 0 && local < extent, [&] {
      return fmt::format(
          "local index of rank {} along dimension {}: expected 0 <= index < {}; found {}", rank,
          dimension, extent, local);
    });
    *global = index_calc::to_global(dims[d], (*coords)[d], {local}).value;
  });
}

tremula_status tremula_layout_runs(const tremula_layout* layout, int rank, int64_t* count,
                                   int64_t* numbers, int64_t* places, int64_t* lengths) {
  return guarded([&] {
    expects_pointer(layout, "layout");
    expects_pointer(count, "count");
    const auto& whole = layout->layout;
    const index_calc::Listed* const listed = whole.listed();
    if (whole.changing() != nullptr) expect_grid(whole, "list of runs");
    core::expects(
        listed == nullptr || listed->mine,
        "expected a layout that this rank has made from its list; found one without a list");
    std::optional<index_calc::IndexList> computed;
    const core::Rank me{rank};
    if (listed == nullptr)
      computed = index_calc::IndexList::of_layout(whole, me, index_calc::local_part(whole, me));
    const auto runs = listed != nullptr ? listed->mine->runs() : computed->runs();
    const auto found = static_cast<int64_t>(runs.size());
    if (numbers != nullptr || places != nullptr || lengths != nullptr) {
      expects_pointer(numbers, "numbers");
      expects_pointer(places, "places");
      expects_pointer(lengths, "lengths");
      core::expects(*count >= found, [&] {
        return fmt::format("count: expected room for {} runs; found room for {}", found, *count);
      });
      for (std::size_t i = 0; i < runs.size(); ++i) {
        numbers[i] = runs[i].global;
        places[i] = runs[i].local;
        lengths[i] = runs[i].length;
      }
    }
    *count = found;
  });
}

tremula_status tremula_layout_hash(const tremula_layout* layout, int rank, tremula_type type,
                                   const void* data, size_t bytes, uint64_t* hash) {
  return guarded([&] {
    expects_pointer(layout, "layout");
    expects_pointer(hash, "hash");
    const std::size_t width = core::element_bytes(client::type_from(type));
    const index_calc::Listed* const listed = layout->layout.listed();
    if (has_sums(layout->layout))
      throw core::Error(core::Errc::unsupported,
                        fmt::format("hash: expected a layout whose ranks hold whole values, found "
                                    "\"{}\", whose ranks hold partial sums: add them up first",
                                    to_string(layout->layout)));
    if (listed != nullptr && listed->has_copies)
      throw core::Error(core::Errc::unsupported,
                        fmt::format("hash: expected lists without copies, found \"{}\", which "
                                    "does not state which of the copies counts",
                                    to_string(layout->layout)));
    if (listed != nullptr && listed->mine != nullptr && listed->mine->has_repeats())
      throw core::Error(
          core::Errc::unsupported,
          fmt::format("hash: expected a list with every element once, found \"{}\" with an element "
                      "at several places of this rank's buffer: list each element once",
                      to_string(layout->layout)));
    if (layout->layout.changing() != nullptr) expect_grid(layout->layout, "hash");
    const auto part = part_of(layout->layout, rank);
    if (part.allocated > 0) expects_pointer(data, "data");
    core::expects(bytes / width == static_cast<std::size_t>(part.allocated) && bytes % width == 0,
                  [&] {
                    return fmt::format(
                        "local buffer of rank {}: expected {} elements of {} bytes, found {} bytes",
                        rank, part.allocated, width, bytes);
                  });
    const core::Rank me{rank};
    const auto cell = layout->grid.cell_of(me);
    const bool is_first = listed != nullptr || !cell || cell->copy == 0;
    const auto hash_of_part = [&] {
      if (listed != nullptr) return index_calc::ContentHash(*listed->mine, flattened(part), width);
      if (layout->layout.skewed() != nullptr)
        return index_calc::ContentHash(index_calc::IndexList::of_layout(layout->layout, me, part),
                                       flattened(part), width);
      return index_calc::ContentHash(layout->layout, me, part, width);
    };
    *hash = !is_first ? 0 : hash_of_part().of({static_cast<const std::byte*>(data), bytes});
  });
}
