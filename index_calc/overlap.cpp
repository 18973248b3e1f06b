// SPDX-License-Identifier: Apache-2.0
#include "index_calc/overlap.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/error.hpp"
#include "index_calc/overlap_builder.hpp"

namespace tremula::index_calc {
namespace {

/// The same ownership with the longest blocks that say so: neighbouring blocks (intervals) of one
/// coordinate are one. Blocks of a single coordinate are joined to the other side's cycle, so that
/// the pattern still repeats with it.
BlockCyclic joined(const BlockCyclic& d, Index other_cycle) {
  BlockCyclic result = d;
  if (d.grid == 1) result.block = other_cycle;
  result.block = std::clamp<Index>(result.block, 1, std::max<Index>(1, d.extent));
  return result;
}

Splits joined(const Splits& d) {
  Splits result{.bounds = {}, .owner = {}, .grid = d.grid};
  for (std::size_t i = 0; i < d.owner.size(); ++i) {
    if (i > 0 && d.owner[i] == d.owner[i - 1]) continue;
    result.bounds.push_back(d.bounds[i]);
    result.owner.push_back(d.owner[i]);
  }
  result.bounds.push_back(d.bounds.back());
  return result;
}

Distribution joined(const Distribution& d) {
  if (const auto* splits = std::get_if<Splits>(&d)) return joined(*splits);
  return joined(std::get<BlockCyclic>(d), extent(d));
}

/// Elements of the smallest piece of the dimension, from 0 on, after which the dealing of d starts
/// afresh.
Index cycle(const BlockCyclic& d) {
  return d.grid == 1 ? d.extent : saturating_product(std::min(d.block, d.extent), d.grid);
}

/// lcm(a, b), saturated.
Index period(Index a, Index b) { return saturating_product(a / std::gcd(a, b), b); }

Overlaps dealt_overlaps(const BlockCyclic& mine_given, GridCoord me,
                        const BlockCyclic& theirs_given, Algorithm algorithm) {
  const BlockCyclic mine = joined(mine_given, cycle(theirs_given)),
                    theirs = joined(theirs_given, cycle(mine_given));
  const Index n = mine.extent;
  std::vector<Piece> pieces;
  Repetition repetition{
      .rest = local_extent(mine, me), .peers = theirs.grid, .source = theirs.source};
  if (algorithm == Algorithm::classical) {
    repetition.source = 0;
    classical(mine, me, theirs, pieces);
    return OverlapsBuilder::build(std::move(pieces), repetition);
  }
  Index end = n;
  const Index whole = period(saturating_product(mine.block, mine.grid),
                             saturating_product(theirs.block, theirs.grid));
  if (whole <= n) {
    BlockCyclic behind = mine;
    behind.extent = n % whole;
    end = whole;
    repetition.repeat = n / whole;
    repetition.stride = whole / mine.grid;
    repetition.peer_stride = whole / theirs.grid;
    repetition.rest = local_extent(behind, me);
  }
  const Index turn =
      me.value >= mine.source ? me.value - mine.source : me.value + (mine.grid - mine.source);
  const auto algorithm_of = algorithm == Algorithm::aspen ? aspen : falls;
  algorithm_of({mine.block, mine.grid}, turn, {theirs.block, theirs.grid}, end, pieces);
  return OverlapsBuilder::build(std::move(pieces), repetition);
}

}  // namespace

Index SegmentList::elements() const noexcept {
  Index in_period = 0, in_tail = 0;
  for (std::size_t i = 0; i < period.size(); ++i) {
    in_period += period[i].length;
    if (static_cast<Index>(i) < tail)
      in_tail += static_cast<Index>(i) + 1 == tail ? tail_length : period[i].length;
  }
  return in_period * repeat + in_tail;
}

std::string_view to_string(Algorithm a) noexcept {
  switch (a) {
    case Algorithm::aspen:
      return "aspen";
    case Algorithm::falls:
      return "falls";
    case Algorithm::classical:
      return "classical";
  }
  return "unknown";
}

Algorithm parse_algorithm(std::string_view text) {
  for (const Algorithm a : {Algorithm::aspen, Algorithm::falls, Algorithm::classical})
    if (text == to_string(a)) return a;
  throw core::Error(
      core::Errc::invalid_argument,
      fmt::format("index algorithm: expected aspen, falls or classical, found \"{}\"", text));
}

SegmentList Overlaps::operator[](std::size_t i) const noexcept {
  const List& list = lists_[i];
  return {.period = std::span(segments_).subspan(list.begin, list.count),
          .repeat = list.repeat,
          .stride = stride_,
          .peer_stride = peer_stride_,
          .tail = list.tail,
          .tail_length = list.tail_length};
}

Index Overlaps::elements(std::size_t i) const noexcept { return lists_[i].elements; }

std::size_t Overlaps::memory_bytes() const noexcept {
  return sizeof(*this) + peers_.capacity() * sizeof(GridCoord) +
         segments_.capacity() * sizeof(Segment) + lists_.capacity() * sizeof(List);
}

Overlaps overlaps(const Distribution& mine, GridCoord me, const Distribution& theirs,
                  Algorithm algorithm) {
  core::expects(extent(mine) == extent(theirs),
                "overlaps: expected two distributions of the same extent");
  core::expects(me.value >= 0 && me.value < grid(mine),
                "overlaps: expected a coordinate of the own grid");
  if (extent(mine) == 0) return {};
  const auto* my_deal = std::get_if<BlockCyclic>(&mine);
  const auto* their_deal = std::get_if<BlockCyclic>(&theirs);
  if (my_deal != nullptr && their_deal != nullptr)
    return dealt_overlaps(*my_deal, me, *their_deal, algorithm);
  std::vector<Piece> pieces;
  const Distribution a = joined(mine), b = joined(theirs);
  (algorithm == Algorithm::classical ? classical : merge)(a, me, b, pieces);
  return OverlapsBuilder::build(std::move(pieces),
                                {.rest = local_extent(mine, me), .peers = grid(theirs)});
}

}  // namespace tremula::index_calc
