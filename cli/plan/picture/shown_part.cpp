// SPDX-License-Identifier: Apache-2.0
#include "cli/plan/picture/shown_part.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

namespace tremula::cli {

namespace {

using index_calc::BlockCyclic, index_calc::Distribution, index_calc::Splits;

/// Of more blocks than `most_blocks` only `corner_blocks` are drawn, which have room for a number.
constexpr Index most_blocks = 64, corner_blocks = 24;

/// Where the first `blocks` blocks end.
Index end_of_blocks(const Distribution& d, Index blocks) {
  if (const auto* splits = std::get_if<Splits>(&d)) {
    const auto& bounds = splits->bounds;
    return bounds[std::min(bounds.size() - 1, static_cast<std::size_t>(blocks))];
  }
  const auto& dealt = std::get<BlockCyclic>(d);
  const Index first = dealt.block - dealt.cut, others = blocks - 1;
  return first > dealt.extent || dealt.block > (dealt.extent - first) / others
             ? dealt.extent
             : first + dealt.block * others;
}

/// Least common multiple of the rounds of both sides, if there is one below the extent.
std::optional<Index> period(const Distribution& from, const Distribution& to) {
  Index result = 1;
  for (const Distribution* d : {&from, &to}) {
    const auto* dealt = std::get_if<BlockCyclic>(d);
    Index round = 0;
    if (dealt == nullptr || __builtin_mul_overflow(dealt->block, dealt->grid, &round) ||
        __builtin_mul_overflow(result, round / std::gcd(result, round), &result) ||
        result >= dealt->extent)
      return std::nullopt;
  }
  return result;
}

std::vector<Interval> blocks_until(const Distribution& d, Index end) {
  std::vector<Interval> result;
  if (const auto* splits = std::get_if<Splits>(&d)) {
    for (std::size_t i = 0; i < splits->owner.size() && splits->bounds[i] < end; ++i)
      result.push_back({splits->bounds[i], std::min(end, splits->bounds[i + 1]), splits->owner[i]});
    return result;
  }
  const auto& dealt = std::get<BlockCyclic>(d);
  Index owner = dealt.source, block = dealt.block - dealt.cut;
  for (Index begin = 0; begin < end; owner = (owner + 1) % dealt.grid, block = dealt.block) {
    const Index length = std::min(block, end - begin);
    result.push_back({begin, begin + length, owner});
    begin += length;
  }
  return result;
}

}  // namespace

ShownAxis shown_axis(const Distribution& from, const Distribution& to) {
  ShownAxis axis{.extent = index_calc::extent(from), .from = {}, .to = {}};
  const auto end = [&](Index blocks) {
    return std::min(end_of_blocks(from, blocks), end_of_blocks(to, blocks));
  };
  axis.shown = end(most_blocks);
  if (!axis.is_whole()) {
    const Index corner = end(corner_blocks);
    const Index one = period(from, to).value_or(axis.extent);
    axis.periods = one <= axis.shown ? std::max(Index{1}, corner / one) : 0;
    axis.shown = axis.periods > 0 ? axis.periods * one : corner;
  }
  axis.from = blocks_until(from, axis.shown);
  axis.to = blocks_until(to, axis.shown);
  return axis;
}

std::vector<Interval> owned(const std::vector<Interval>& intervals, Index owner) {
  std::vector<Interval> result;
  for (const Interval& i : intervals) {
    if (i.owner != owner) continue;
    if (!result.empty() && result.back().end == i.begin)
      result.back().end = i.end;
    else
      result.push_back(i);
  }
  return result;
}

std::vector<Interval> common(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  std::vector<Interval> result;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const Index begin = std::max(a[i].begin, b[j].begin), end = std::min(a[i].end, b[j].end);
    if (begin < end) result.push_back({begin, end, a[i].owner});
    if (a[i].end < b[j].end)
      ++i;
    else
      ++j;
  }
  return result;
}

}  // namespace tremula::cli
