// SPDX-License-Identifier: Apache-2.0
#include "proto/parts.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "index_calc/layout/blocks.hpp"

namespace tremula::proto {

using core::Index;

namespace {

/// Largest number of missing boxes that are kept and reported.
constexpr std::size_t most_missing = 256;

Index volume(std::span<const Index> extents) {
  Index elements = 1;
  for (const Index extent : extents) elements = index_calc::saturating_product(elements, extent);
  return elements;
}

/// Appends what remains of `box` without the elements of `part`: for each dimension in turn, the slices
/// before and after `part`.
void subtract(Box box, const Box& part, std::vector<Box>& rest) {
  for (std::size_t d = 0; d < box.origin.size(); ++d) {
    const Index begin = box.origin[d], end = begin + box.extents[d];
    const Index first = std::max(begin, part.origin[d]);
    const Index last = std::min(end, part.origin[d] + part.extents[d]);
    const auto keep = [&](Index from, Index to) {
      if (from >= to) return;
      Box slice = box;
      slice.origin[d] = from;
      slice.extents[d] = to - from;
      rest.push_back(std::move(slice));
    };
    keep(begin, first);
    keep(last, end);
    box.origin[d] = first;
    box.extents[d] = last - first;
  }
}

}  // namespace

std::vector<Index> whole_shape(const Field& field) {
  return is_part(field) ? field.whole : index_calc::shape(field.layout);
}

void check_part(const Field& field) {
  const std::vector<Index> extents = index_calc::shape(field.layout);
  const auto& origin = field.origin;
  const auto& whole = field.whole;
  bool is_inside = origin.size() == extents.size() && whole.size() == extents.size();
  for (std::size_t d = 0; d < extents.size() && is_inside; ++d)
    is_inside = origin[d] >= 0 && extents[d] > 0 && extents[d] <= whole[d] &&
                origin[d] <= whole[d] - extents[d];
  if (!is_inside)
    throw core::Error(
        core::Errc::invalid_argument,
        fmt::format("part: expected one with elements inside the whole array; found {} at {} in {}",
                    fmt::join(extents, "x"), fmt::join(origin, "x"), fmt::join(whole, "x")));
  if (volume(whole) == std::numeric_limits<Index>::max())
    throw core::Error(core::Errc::invalid_argument,
                      fmt::format("part: expected a whole array of at most 2^63 - 2 elements; "
                                  "found {}",
                                  fmt::join(whole, "x")));
}

Box box_of(const Field& field) {
  std::vector<Index> extents = index_calc::shape(field.layout);
  return {.origin = field.origin.empty() ? std::vector<Index>(extents.size()) : field.origin,
          .extents = std::move(extents)};
}

std::string to_string(const Box& box) {
  std::string text;
  for (std::size_t d = 0; d < box.origin.size(); ++d)
    text += fmt::format("{}[{}, {})", d == 0 ? "" : " x ", box.origin[d],
                        box.origin[d] + box.extents[d]);
  return text;
}

bool overlap(const Box& a, const Box& b) {
  bool is_any = true;
  for (std::size_t d = 0; d < a.origin.size() && is_any; ++d)
    is_any = a.origin[d] < b.origin[d] + b.extents[d] && b.origin[d] < a.origin[d] + a.extents[d];
  return is_any;
}

std::vector<Box> missing(std::span<const Index> shape, std::span<const Box> parts) {
  Index left = volume(shape);
  for (const Box& part : parts) left -= volume(part.extents);
  if (left == 0) return {};
  const Box whole{.origin = std::vector<Index>(shape.size()),
                  .extents = {shape.begin(), shape.end()}};
  std::vector<Box> rest{whole};
  for (const Box& part : parts) {
    std::vector<Box> next;
    for (Box& box : rest)
      if (overlap(box, part))
        subtract(std::move(box), part, next);
      else
        next.push_back(std::move(box));
    if (next.size() > most_missing) next.resize(most_missing);
    rest = std::move(next);
  }
  return rest.empty() ? std::vector<Box>{whole} : rest;  // the missing boxes were not kept
}

SharedBox shared_box(const Field& wanted, const Field& offered) {
  const Box want = box_of(wanted);
  const Box have = is_part(offered) ? box_of(offered)
                                    : Box{.origin = std::vector<Index>(want.origin.size()),
                                          .extents = index_calc::shape(offered.layout)};
  const std::vector<Index> none(want.origin.size());
  SharedBox shared{.of_offered = {none, none}, .of_wanted = {none, none}};
  if (!overlap(want, have)) return shared;
  for (std::size_t d = 0; d < none.size(); ++d) {
    const Index begin = std::max(want.origin[d], have.origin[d]);
    const Index end = std::min(want.origin[d] + want.extents[d], have.origin[d] + have.extents[d]);
    shared.of_offered.origin[d] = begin - have.origin[d];
    shared.of_wanted.origin[d] = begin - want.origin[d];
    shared.of_offered.extents[d] = shared.of_wanted.extents[d] = end - begin;
  }
  return shared;
}

}  // namespace tremula::proto
