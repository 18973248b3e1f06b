// SPDX-License-Identifier: Apache-2.0
// Writes the shortest text that is read back as the same layout.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>

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
std::string joined(std::span<const Index> values, char separator) {
  return joined(values, separator, [](Index v) { return std::to_string(v); });
}

/// A number that a key gives for a dimension.
struct Given {
  Index value = 0;
  Index usual = 0;  ///< meant if the text gives none; 0 if it must give one
};

/// Returns the shortest text of the numbers that dimensions have, if any: one entry for all, or one
/// for each that differs from the usual number.
std::string shortest(std::string_view key, const std::vector<std::optional<Given>>& numbers) {
  std::string each, all;
  for (std::size_t d = 0; d < numbers.size(); ++d) {
    if (!numbers[d]) continue;
    all += fmt::format("{}{}", all.empty() ? "" : "x", numbers[d]->value);
    if (numbers[d]->value != numbers[d]->usual)
      each += fmt::format(" {}{}={}", key, d, numbers[d]->value);
  }
  const bool have_all = std::ranges::all_of(numbers, [](const auto& n) { return n.has_value(); });
  const std::string together = fmt::format(" {}={}", key, all);
  return have_all && !each.empty() && together.size() <= each.size() ? together : each;
}

/// Returns " key=" with `value` of every dimension; empty if all are 0.
std::string unless_zero(std::string_view key, const std::vector<Index>& values) {
  if (std::ranges::count(values, 0) == std::ssize(values)) return {};
  return fmt::format(" {}={}", key, joined(values, 'x'));
}

std::string splits_text(const std::vector<Distribution>& dims) {
  std::string result;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const auto* splits = std::get_if<Splits>(&dims[d]);
    if (splits == nullptr) continue;
    result += fmt::format(" splits{}={}", d, joined(splits->bounds, '/'));
    bool in_order = true;
    for (std::size_t i = 0; i < splits->owner.size(); ++i)
      in_order = in_order && splits->owner[i] == static_cast<Index>(i);
    if (!in_order) result += fmt::format(" owners{}={}", d, joined(splits->owner, '/'));
  }
  return result;
}

/// Returns the text of the ranks along each axis, and of the axes that split dimensions or hold
/// partial sums.
std::string mesh_text(const std::vector<MeshAxis>& axes) {
  std::vector<Index> ranks;
  std::map<std::size_t, std::map<std::size_t, Index>> of_dimension;  // by level
  std::vector<Index> sums;
  for (std::size_t a = 0; a < axes.size(); ++a) {
    ranks.push_back(axes[a].ranks);
    const auto number = static_cast<Index>(a);
    if (const Along* const along = axes[a].along())
      of_dimension[along->dimension][along->level] = number;
    if (axes[a].has_sums()) sums.push_back(number);
  }
  std::string result = " mesh=" + joined(ranks, 'x');
  for (const auto& [d, by_level] : of_dimension)
    result += fmt::format(" axes{}={}", d, joined(by_level, '/', [](const auto& level) {
                            return std::to_string(level.second);
                          }));
  if (!sums.empty()) result += " sum=" + joined(sums, '/');
  return result;
}

std::string grid_text(const Grid& grid) {
  if (!grid.is_plain()) return mesh_text(grid.axes);
  return " grid=" +
         joined(grid.axes, 'x', [](const MeshAxis& a) { return std::to_string(a.ranks); });
}

/// @param changing  the kind that the grid is a part of; null if no extent changes
std::string text_of(const Grid& grid, const Changing* changing = nullptr) {
  std::vector<std::optional<Given>> blocks(grid.dims.size());
  std::vector<Index> sources(grid.dims.size()), cuts(grid.dims.size());
  for (std::size_t d = 0; d < grid.dims.size(); ++d) {
    const auto* const dealt = std::get_if<BlockCyclic>(&grid.dims[d]);
    if (dealt == nullptr) continue;
    sources[d] = dealt->source, cuts[d] = dealt->cut;
    if (changing == nullptr || d != changing->dimension)
      blocks[d] = {dealt->block, plain_block(dealt->extent, dealt->grid)};
    else if (!changing->is_even)
      blocks[d] = {dealt->block, 0};
  }
  return grid_text(grid) + shortest("block", blocks) + splits_text(grid.dims) +
         unless_zero("source", sources) + unless_zero("cut", cuts);
}

std::string text_of(const Skewed& skewed) {
  std::vector<std::optional<Given>> blocks(skewed.cuts.size()), counts(skewed.cuts.size());
  std::vector<Index> missing;
  std::string splits;
  for (std::size_t d = 0; d < skewed.cuts.size(); ++d) {
    const BlockCuts& cuts = skewed.cuts[d];
    missing.push_back(cuts.cut());
    if (!cuts.bounds().empty())
      splits += fmt::format(" splits{}={}", d, joined(cuts.bounds(), '/'));
    else if (cuts.is_equal())
      counts[d] = {cuts.size_or_count(), 0};
    else
      blocks[d] = {cuts.size_or_count(), plain_block(cuts.extent(), 1)};
  }
  std::string result =
      mesh_text(skewed.axes) + shortest("block", blocks) + shortest("equal", counts) + splits;
  for (std::size_t a = 0; a < skewed.axes.size(); ++a)
    if (const BlockOwner* const owner = skewed.axes[a].owner())
      result += fmt::format(" owner{}={}", a, to_string(*owner));
  return result + unless_zero("cut", missing);
}

std::string text_of(const Listed& listed) {
  return fmt::format(" lists={}{}{}", listed.ranks, listed.is_partial ? " partial=yes" : "",
                     listed.has_copies ? " copies=yes" : "");
}

/// Returns the text of how rows are taken by keys.
std::string keys_text(const Changing& changing) {
  if (changing.key.empty()) return {};
  std::string result = " key=" + changing.key;
  if (!changing.ranges.empty()) result += " ranges=" + joined(changing.ranges, '/');
  if (changing.is_sorted) result += " sorted=yes";
  return result;
}

std::string text_of(const Changing& changing) { return text_of(changing.grid, &changing); }

std::string range_text(const RankRange& r) {
  return r.count == 1 ? std::to_string(r.first.value)
                      : fmt::format("{}-{}", r.first.value, Index{r.first.value} + r.count - 1);
}

}  // namespace

std::string shape_text(const Layout& layout) {
  std::string result;
  for (std::size_t d = 0; d < dimensions(layout); ++d) {
    result += d == 0 ? "" : "x";
    result += d == changing_dimension(layout) ? "*" : std::to_string(extent(layout, d));
  }
  return result;
}

std::string to_string(const Layout& layout) {
  std::string result = "shape=" + shape_text(layout);
  result += std::visit([](const auto& one) { return text_of(one); }, layout.kind());
  const auto& [order, ghost, leading] = layout.storage();
  if (layout.ranks().order == Order::column) result += " ranks=column";
  if (order == Order::column) result += " store=column";
  if (!ghost.empty()) result += " ghost=" + joined(ghost, 'x');
  if (leading != 0) result += fmt::format(" leading={}", leading);
  if (const auto& members = layout.ranks().members; !members.empty())
    result += " members=" + joined(members, '/', range_text);
  return layout.changing() != nullptr ? result + keys_text(*layout.changing()) : result;
}

}  // namespace tremula::index_calc
