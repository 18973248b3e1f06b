// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "client/c_api/c_api.hpp"
#include "index_calc/proof/content_hash.hpp"

using namespace tremula;
using client::expects_pointer, client::guarded, client::make_layout;

tremula_status tremula::client::make_layout(index_calc::Layout value, tremula_layout** out) {
  *out = new tremula_layout{std::move(value)};
  return TREMULA_OK;
}

tremula_status tremula_layout_parse(const char* text, tremula_layout** layout) {
  return guarded([&] {
    expects_pointer(text, "text");
    expects_pointer(layout, "layout");
    return make_layout(index_calc::Layout::parse(text), layout);
  });
}

tremula_status tremula_layout_from_scalapack(const int desc[9], int rows, int columns,
                                             tremula_layout** layout) {
  return guarded([&] {
    expects_pointer(desc, "desc");
    expects_pointer(layout, "layout");
    return make_layout(
        index_calc::Layout::from_scalapack(std::span<const int, 9>(desc, 9), rows, columns),
        layout);
  });
}

void tremula_layout_free(tremula_layout* layout) { delete layout; }
const char* tremula_layout_text(const tremula_layout* layout) {
  if (layout == nullptr) return "";
  guarded([&] {
    std::call_once(layout->text_was_asked_for, [&] { layout->text = to_string(layout->layout); });
    return TREMULA_OK;
  });
  return layout->text.c_str();
}
int tremula_layout_dimensions(const tremula_layout* layout) {
  return layout ? static_cast<int>(layout->layout.dims.size()) : 0;
}

tremula_status tremula_layout_shape(const tremula_layout* layout, int64_t* extents) {
  return guarded([&] {
    expects_pointer(layout, "layout");
    expects_pointer(extents, "extents");
    const auto shape = index_calc::shape(layout->layout);
    std::copy(shape.begin(), shape.end(), extents);
    return TREMULA_OK;
  });
}

tremula_status tremula_layout_local(const tremula_layout* layout, int rank, int64_t* extents,
                                    int64_t* strides, int64_t* first, int64_t* allocated) {
  return guarded([&] {
    expects_pointer(layout, "layout");
    const auto part = index_calc::local_part(layout->layout, rank);
    const std::size_t dimensions = layout->layout.dims.size();
    if (extents) std::copy_n(part.extent.begin(), dimensions, extents);
    if (strides) std::copy_n(part.stride.begin(), dimensions, strides);
    if (first) *first = part.first;
    if (allocated) *allocated = part.allocated;
    return TREMULA_OK;
  });
}

tremula_status tremula_layout_global_index(const tremula_layout* layout, int rank, int dimension,
                                           int64_t local, int64_t* global) {
  return guarded([&] {
    expects_pointer(layout, "layout");
    expects_pointer(global, "global");
    const auto& dims = layout->layout.dims;
    core::expects(dimension >= 0 && dimension < static_cast<int>(dims.size()), [&] {
      return fmt::format("dimension: expected 0 to {}; found {}", dims.size() - 1, dimension);
    });
    const auto d = static_cast<std::size_t>(dimension);
    const auto coords = layout->grid.coords_of(rank);
    const core::Index extent = coords ? index_calc::local_extent(dims[d], (*coords)[d]) : 0;
    core::expects(local >= 0 && local < extent, [&] {
      return fmt::format(
          "local index of rank {} along dimension {}: expected 0 <= index < {}; found {}", rank,
          dimension, extent, local);
    });
    *global = index_calc::to_global(dims[d], (*coords)[d], {local}).value;
    return TREMULA_OK;
  });
}

tremula_status tremula_layout_hash(const tremula_layout* layout, int rank, tremula_type type,
                                   const void* data, size_t bytes, uint64_t* hash) {
  return guarded([&] {
    expects_pointer(layout, "layout");
    expects_pointer(hash, "hash");
    const std::size_t width = core::element_bytes(client::type_from(type));
    const auto part = index_calc::local_part(layout->layout, rank);
    const std::size_t needed = static_cast<std::size_t>(part.allocated) * width;
    if (needed > 0) expects_pointer(data, "data");
    core::expects(bytes == needed, [&] {
      return fmt::format(
          "local buffer of rank {}: expected {} elements of {} bytes, found {} bytes", rank,
          part.allocated, width, bytes);
    });
    *hash = index_calc::ContentHash(layout->layout, rank, part, width)
                .of({static_cast<const std::byte*>(data), bytes});
    return TREMULA_OK;
  });
}
