// SPDX-License-Identifier: Apache-2.0
#include "index_calc/overlap/overlap.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/error.hpp"
#include "index_calc/layout/blocks.hpp"
#include "index_calc/overlap/overlap_builder.hpp"

namespace tremula::index_calc {
namespace {

/// Returns the number of elements after which the pattern of `d` starts over; saturated.
Index round_of(const BlockCyclic& d) { return saturating_product(d.block, d.grid); }

/// Returns the same ownership in round-robin order (source 0), with blocks as long as possible:
/// neighbouring blocks (intervals) of one coordinate are joined. A single block gets the length of
/// the extent, and no cut.
BlockCyclic joined(const BlockCyclic& d) {
  if (d.grid == 1 || d.extent <= d.block - d.cut)
    return {.extent = d.extent, .block = d.extent, .grid = d.grid};
  return {.extent = d.extent, .block = d.block, .grid = d.grid, .source = 0, .cut = d.cut};
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
  return std::visit([](const auto& one) { return Distribution(joined(one)); }, d);
}

Index source_of(const Distribution& d) {
  const auto* dealt = std::get_if<BlockCyclic>(&d);
  return dealt != nullptr ? dealt->source : 0;
}

/// Sets the strides of families. A block of theirs that is longer than a round of mine holds my
/// segments one round apart; a block of mine that is longer than a round of theirs holds each
/// peer's segments one round apart.
void set_family_strides(const Distribution& mine, const Distribution& theirs, Repetition& r) {
  const auto* a = std::get_if<BlockCyclic>(&mine);
  const auto* b = std::get_if<BlockCyclic>(&theirs);
  if (b != nullptr && (a == nullptr || a->block > round_of(*b))) {
    r.family_stride = round_of(*b);
    r.family_peer_stride = b->block;
  } else if (a != nullptr) {
    r.family_stride = a->block;
    r.family_peer_stride = round_of(*a);
  }
}

Index to_turn(const Distribution& d, GridCoord c) {
  return c.value - source_of(d) + (c.value < source_of(d) ? grid(d) : 0);
}

Prepared prepare(const Distribution& mine, GridCoord me, const Distribution& theirs) {
  core::expects(extent(mine) == extent(theirs),
                "overlaps: expected two distributions of the same extent");
  core::expects(me.value >= 0 && me.value < grid(mine),
                "overlaps: expected a coordinate of this side's grid");
  Prepared p{
      .mine = joined(mine),
      .theirs = joined(theirs),
      .me = to_turn(mine, me),
      .repetition = {
          .rest = local_extent(mine, me), .peers = grid(theirs), .source = source_of(theirs)}};
  set_family_strides(p.mine, p.theirs, p.repetition);
  return p;
}

/// Reduces both sides to the first period if both are BlockCyclic and the extent contains a whole
/// period.
void cut_to_period(Prepared& p) {
  auto* mine = std::get_if<BlockCyclic>(&p.mine);
  auto* theirs = std::get_if<BlockCyclic>(&p.theirs);
  if (mine == nullptr || theirs == nullptr) return;
  const Index a = round_of(*mine), b = round_of(*theirs);
  if (std::max(a, b) > mine->extent) return;
  const Index period = saturating_product(a / std::gcd(a, b), b);
  if (period > mine->extent) return;
  Repetition& r = p.repetition;
  r.repeat = mine->extent / period;
  r.stride = period / mine->grid;
  r.peer_stride = period / theirs->grid;
  mine->extent %= period;
  r.rest = local_extent(p.mine, {p.me});
  mine->extent = theirs->extent = period;
}

void find_overlaps(OverlapsBuilder& builder, const Distribution& mine, GridCoord me,
                   const Distribution& theirs, Algorithm algorithm) {
  Prepared p = prepare(mine, me, theirs);
  if (extent(mine) == 0) {
    builder.pieces();
    return builder.build_from_pieces({}, 0);
  }
  if (algorithm == Algorithm::classical) {
    const Index steps = classical(p.mine, p.me, p.theirs, builder.pieces());
    return builder.build_from_pieces(p.repetition, steps);
  }
  cut_to_period(p);
  const auto* a = std::get_if<BlockCyclic>(&p.mine);
  const auto* b = std::get_if<BlockCyclic>(&p.theirs);
  if (algorithm == Algorithm::aspen || a == nullptr || b == nullptr) return builder.build(p);
  const Index steps = falls(*a, p.me, *b, builder.pieces());
  builder.build_from_pieces(p.repetition, steps);
}

}  // namespace

OverlapFinder::OverlapFinder() : builder_(std::make_unique<OverlapsBuilder>()) {}
OverlapFinder::~OverlapFinder() = default;
OverlapFinder::OverlapFinder(OverlapFinder&&) noexcept = default;
OverlapFinder& OverlapFinder::operator=(OverlapFinder&&) noexcept = default;

const Overlaps& OverlapFinder::find(const Distribution& mine, GridCoord me,
                                    const Distribution& theirs, Algorithm algorithm) {
  find_overlaps(*builder_, mine, me, theirs, algorithm);
  return builder_->result();
}

Overlaps overlaps(const Distribution& mine, GridCoord me, const Distribution& theirs,
                  Algorithm algorithm) {
  OverlapsBuilder builder;
  find_overlaps(builder, mine, me, theirs, algorithm);
  return std::move(builder.result());
}

Index SegmentList::turn_elements() const noexcept {
  Index all = 0;
  for (const Family& f : period) all += f.count * f.first.length;
  return all;
}

Index SegmentList::family_with(Index i) const noexcept {
  const auto& before = index->before;
  return std::upper_bound(before.begin(), before.end(), i) - before.begin() - 1;
}

Index SegmentList::elements() const noexcept {
  if (index != nullptr)
    return index->before[static_cast<std::size_t>(tail - 1)] +
           (tail_count - 1) * period[static_cast<std::size_t>(tail - 1)].first.length +
           tail_length - skip;
  Index in_tail = 0;
  for (Index i = 0; i < tail; ++i) {
    const Family& f = period[static_cast<std::size_t>(i)];
    in_tail +=
        i + 1 < tail ? f.count * f.first.length : (tail_count - 1) * f.first.length + tail_length;
  }
  return turn_elements() * repeat + in_tail - skip;
}

Segment SegmentList::first() const noexcept {
  if (skip == 0) return period.front().first;
  Segment found;
  slice(0, 1).for_each_family([&](const Family& f) { found = f.first; });
  return found;
}

SegmentList SegmentList::slice(Index first, Index count) const noexcept {
  SegmentList result = *this;
  result.skip += first;
  Index left = result.skip + count;
  result.tail = result.tail_count = result.tail_length = 0;
  if (repeat > 0) {
    const Index turn = turn_elements();
    result.repeat = std::min(repeat, left / turn);
    left -= result.repeat * turn;
  }
  if (index != nullptr) {
    result.tail = family_with(left - 1);
    left -= index->before[static_cast<std::size_t>(result.tail)];
  }
  for (; left > 0; ++result.tail) {
    const Family& f = period[static_cast<std::size_t>(result.tail)];
    const Index taken = std::min(left, f.count * f.first.length);
    result.tail_count = (taken - 1) / f.first.length + 1;
    result.tail_length = taken - (result.tail_count - 1) * f.first.length;
    left -= taken;
  }
  if (result.repeat == 0) result.period = period.first(static_cast<std::size_t>(result.tail));
  return result;
}

Segment SegmentList::last() const noexcept {
  const Family& f = tail > 0 ? period[static_cast<std::size_t>(tail - 1)] : period.back();
  Segment s = moved(f.first, tail > 0 ? repeat : repeat - 1, (tail > 0 ? tail_count : f.count) - 1);
  if (tail > 0) s.length = tail_length;
  return s;
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
  const std::size_t end = i + 1 < lists_.size() ? lists_[i + 1].begin : families_.size();
  return {.period = std::span(families_).subspan(list.begin, end - list.begin),
          .family_stride = family_stride_,
          .family_peer_stride = family_peer_stride_,
          .repeat = repeat_,
          .stride = stride_,
          .peer_stride = peer_stride_,
          .tail = list.tail,
          .tail_count = list.tail_count,
          .tail_length = list.tail_length};
}

std::size_t Overlaps::memory_bytes() const noexcept {
  return sizeof(*this) + peers_.capacity() * sizeof(GridCoord) + lists_.capacity() * sizeof(List) +
         families_.capacity() * sizeof(Family);
}

}  // namespace tremula::index_calc
