// SPDX-License-Identifier: Apache-2.0
// Writes the shortest text that is read back as the same layout.
#include <fmt/format.h>

#include <algorithm>

#include "index_calc/layout/layout.hpp"

namespace tremula::index_calc {
namespace {

template <class Values, class Value>
std::string joined(const Values& values, char separator, Value&& value) {
  std::string result;
  for (const auto& v : values) {
    if (!result.empty()) result += separator;
    result += value(v);
  }
  return result;
}
std::string joined(const std::vector<Index>& values, char separator) {
  return joined(values, separator, [](Index v) { return std::to_string(v); });
}

/// Returns the shortest text of the blocks: an empty text, one entry for all dimensions, or one
/// entry for each dimension that needs it.
std::string blocks_text(const Layout& layout) {
  std::string each;
  bool all_dealt = true;
  for (std::size_t d = 0; d < layout.dims.size(); ++d) {
    const auto* dealt = std::get_if<BlockCyclic>(&layout.dims[d]);
    const bool changes = layout.changing && d == layout.changing->dimension;
    all_dealt = all_dealt && dealt != nullptr && !(changes && layout.changing->is_even) &&
                (!layout.skew || layout.skew->equal[d] == 0);
    if (dealt != nullptr && (changes ? !layout.changing->is_even
                                     : dealt->block != plain_block(dealt->extent, dealt->grid)))
      each += fmt::format(" block{}={}", d, dealt->block);
  }
  if (!all_dealt || each.empty()) return each;
  const std::string all = " block=" + joined(layout.dims, 'x', [](const Distribution& d) {
                            return std::to_string(std::get<BlockCyclic>(d).block);
                          });
  return all.size() <= each.size() ? all : each;
}

std::string splits_text(const Layout& layout) {
  std::string result;
  for (std::size_t d = 0; d < layout.dims.size(); ++d) {
    const auto* splits = std::get_if<Splits>(&layout.dims[d]);
    if (splits == nullptr) continue;
    result += fmt::format(" splits{}={}", d, joined(splits->bounds, '/'));
    bool in_order = true;
    for (std::size_t i = 0; i < splits->owner.size(); ++i)
      in_order = in_order && splits->owner[i] == static_cast<Index>(i);
    if (!in_order) result += fmt::format(" owners{}={}", d, joined(splits->owner, '/'));
  }
  return result;
}

/// Returns " key=" with `value` of every dimension, 0 for a dimension with splits; empty if all are
/// 0.
std::string dealing_text(const Layout& layout, std::string_view key, Index BlockCyclic::*value) {
  const auto of = [value](const Distribution& d) {
    const auto* dealt = std::get_if<BlockCyclic>(&d);
    return dealt != nullptr ? dealt->*value : 0;
  };
  if (std::ranges::all_of(layout.dims, [&](const Distribution& d) { return of(d) == 0; }))
    return {};
  return fmt::format(" {}={}", key, joined(layout.dims, 'x', [&](const Distribution& d) {
                       return std::to_string(of(d));
                     }));
}

std::string axes_text(const std::vector<std::size_t>& axes) {
  return joined(axes, '/', [](std::size_t axis) { return std::to_string(axis); });
}

std::string grid_text(const Layout& layout) {
  if (layout.listing)
    return fmt::format(" lists={}{}{}", grid(layout.dims.front()),
                       layout.listing->is_partial ? " partial=yes" : "",
                       layout.listing->has_copies ? " copies=yes" : "");
  if (layout.mesh.extents.empty())
    return " grid=" +
           joined(layout.dims, 'x', [](const Distribution& d) { return std::to_string(grid(d)); });
  std::string result = " mesh=" + joined(layout.mesh.extents, 'x');
  for (std::size_t d = 0; d < layout.dims.size(); ++d)
    if (!layout.mesh.axes[d].empty())
      result += fmt::format(" axes{}={}", d, axes_text(layout.mesh.axes[d]));
  if (!layout.mesh.sums.empty()) result += " sum=" + axes_text(layout.mesh.sums);
  return result;
}

/// Returns the text of the cuts into equal blocks, and of the owners.
std::string skew_text(const Layout& layout) {
  if (!layout.skew) return {};
  const auto& equal = layout.skew->equal;
  std::string result, each;
  for (std::size_t d = 0; d < equal.size(); ++d)
    if (equal[d] > 0) each += fmt::format(" equal{}={}", d, equal[d]);
  const std::string all = " equal=" + joined(equal, 'x');
  result += std::ranges::count(equal, 0) == 0 && all.size() <= each.size() ? all : each;
  for (std::size_t a = 0; a < layout.skew->owners.size(); ++a)
    if (const auto& owner = layout.skew->owners[a])
      result += fmt::format(" owner{}={}", a, to_string(*owner));
  return result;
}

std::string range_text(const RankRange& r) {
  return r.count == 1 ? std::to_string(r.first)
                      : fmt::format("{}-{}", r.first, Index{r.first} + r.count - 1);
}

}  // namespace

std::string shape_text(const Layout& layout) {
  std::string result;
  for (std::size_t d = 0; d < layout.dims.size(); ++d) {
    result += d == 0 ? "" : "x";
    result += d == changing_dimension(layout) ? "*" : std::to_string(extent(layout.dims[d]));
  }
  return result;
}

std::string to_string(const Layout& layout) {
  std::string result = "shape=" + shape_text(layout) + grid_text(layout);
  result += blocks_text(layout) + splits_text(layout) + skew_text(layout);
  result += dealing_text(layout, "source", &BlockCyclic::source);
  result += dealing_text(layout, "cut", &BlockCyclic::cut);
  if (layout.rank_order == Order::column) result += " ranks=column";
  if (layout.storage_order == Order::column) result += " store=column";
  if (!layout.ghost.empty()) result += " ghost=" + joined(layout.ghost, 'x');
  if (layout.leading != 0) result += fmt::format(" leading={}", layout.leading);
  if (!layout.members.empty()) result += " members=" + joined(layout.members, '/', range_text);
  if (!layout.changing || layout.changing->key.empty()) return result;
  result += " key=" + layout.changing->key;
  if (!layout.changing->ranges.empty()) result += " ranges=" + joined(layout.changing->ranges, '/');
  if (layout.changing->is_sorted) result += " sorted=yes";
  return result;
}

}  // namespace tremula::index_calc
