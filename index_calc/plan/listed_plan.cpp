// SPDX-License-Identifier: Apache-2.0
// Plans on flat buffers: for ranks that list what they own, and for skewed blocks.
//
// A package is a list of segments (mine, theirs, length) in wire order. Rows of k segments have one
// pattern if segment i of row r is segment i of row 0, moved in each buffer by the distance between
// the beginnings of the two rows. Then the package is the outer product of the rows' beginnings and
// the pattern, stored as two short lists.
#include <algorithm>
#include <cmath>

#include "index_calc/layout/blocks.hpp"
#include "index_calc/plan/copy_dealer.hpp"
#include "index_calc/plan/plan.hpp"
#include "index_calc/plan/skewed_plan.hpp"

namespace tremula::index_calc {
namespace {

struct Strides {
  Index mine = 0, theirs = 0;
  friend bool operator==(const Strides&, const Strides&) = default;
};

Strides between(const Segment& a, const Segment& b) {
  return {b.begin.value - a.begin.value, b.peer_begin.value - a.peer_begin.value};
}

/// Finds the distances that most neighbours of equal length have, by a majority vote in one pass
/// (Boyer and Moore 1981).
class UsualStrides {
public:
  void count(const Segment& s) {
    if (last_.length == s.length) {
      const Strides strides = between(last_, s);
      if (votes_ == 0) usual_ = strides;
      votes_ += strides == usual_ ? 1 : -1;
    }
    last_ = s;
  }
  const Strides& usual() const { return usual_; }

private:
  Segment last_{};
  Strides usual_;
  Index votes_ = 0;
};

/// Returns whether all rows of `in_row` segments have the pattern of the first row.
bool has_rows(std::span<const Segment> segments, std::size_t in_row) {
  for (std::size_t row = in_row; row < segments.size(); row += in_row)
    for (std::size_t i = 0; i < in_row; ++i)
      if (segments[row + i].length != segments[i].length ||
          between(segments[row], segments[row + i]) != between(segments[0], segments[i]))
        return false;
  return true;
}

/// Returns the number of segments per row for the rows of one pattern that take the least memory.
/// If there are no such rows, or if they take no less memory than `families` families, returns the
/// number of all segments.
/// Cost: O(segments) if there are rows; else one attempt for each divisor of the number of
/// segments; most attempts fail at the first pair of segments.
std::size_t segments_in_row(std::span<const Segment> segments, std::size_t families) {
  const std::size_t count = segments.size();
  const auto root = static_cast<std::size_t>(std::sqrt(static_cast<double>(count)));
  for (std::size_t divisor = root; divisor > 1; --divisor) {
    if (count % divisor != 0) continue;
    if (divisor + count / divisor >= families / 2) break;  // smaller divisors take more memory
    for (const std::size_t in_row : {count / divisor, divisor})
      if (has_rows(segments, in_row)) return in_row;
  }
  return count;
}

}  // namespace

Plan::Run Plan::Run::of(std::span<const Segment> segments) {
  UsualStrides votes;
  for (const Segment& s : segments) votes.count(s);
  const Strides usual = votes.usual();
  Run run{
      .families = {}, .family_stride = usual.mine, .family_peer_stride = usual.theirs, .index = {}};
  auto& [before, end, peer_end] = run.index;
  Index elements = 0;
  Segment last{};
  for (const Segment& s : segments) {
    end = std::max(end, s.begin.value + s.length);
    peer_end = std::max(peer_end, s.peer_begin.value + s.length);
    const bool goes_on =
        usual.mine > 0 && usual.theirs > 0 && s.length == last.length && between(last, s) == usual;
    if (goes_on) {
      ++run.families.back().count;
    } else {
      run.families.push_back({.first = s, .count = 1});
      before.push_back(elements);
    }
    elements += s.length;
    last = s;
  }
  before.push_back(elements);
  return run;
}

SegmentList Plan::Run::list() const {
  const Family& last = families.back();
  return {.period = families,
          .family_stride = family_stride,
          .family_peer_stride = family_peer_stride,
          .tail = static_cast<Index>(families.size()),
          .tail_count = last.count,
          .tail_length = last.first.length,
          .index = &index};
}

std::size_t Plan::Run::memory_bytes() const noexcept {
  return families.capacity() * sizeof(Family) + index.before.capacity() * sizeof(Index);
}

void Plan::list(Rank peer, std::span<const Segment> segments) {
  const Segment origin{.begin = {0}, .peer_begin = {0}, .length = 1};
  Listed listed{.peer = peer, .rows = Run::of({&origin, 1}), .pattern = Run::of(segments)};
  elements_ = saturating_sum(elements_, listed.pattern.elements());
  if (const std::size_t in_row = segments_in_row(segments, listed.pattern.families.size());
      in_row < segments.size()) {
    // A row begins at its lowest place in each buffer, so that no index is negative.
    Strides least;
    for (const Segment& s : segments.first(in_row)) {
      least.mine = std::min(least.mine, between(segments[0], s).mine);
      least.theirs = std::min(least.theirs, between(segments[0], s).theirs);
    }
    std::vector<Segment> rows, pattern;
    for (std::size_t i = 0; i < segments.size(); i += in_row)
      rows.push_back({{segments[i].begin.value + least.mine},
                      {segments[i].peer_begin.value + least.theirs},
                      1});
    for (const Segment& s : segments.first(in_row)) {
      const Strides from_first = between(segments[0], s);
      pattern.push_back(
          {{from_first.mine - least.mine}, {from_first.theirs - least.theirs}, s.length});
    }
    listed.rows = Run::of(rows);
    listed.pattern = Run::of(pattern);
  }
  listed_.push_back(std::move(listed));
}

Plan make_listed_plan(const Layout& mine, const Layout& theirs, std::vector<PeerSegments> segments,
                      std::uint64_t match) {
  validate_pair(mine, theirs);
  Plan plan(mine, theirs);
  plan.fingerprint_ ^= match * 0x9E3779B97F4A7C15u;
  plan.is_listed_ = true;
  for (PeerSegments& of : segments) {
    plan.list(of.peer, of.segments);
    of.segments = {};
  }
  return plan;
}

void Plan::list_skewed(const Layout& mine, const Layout& theirs, Rank me, Role role,
                       const Hosts& hosts) {
  is_listed_ = true;
  const ProcessGrid grid(mine);
  const auto coords = grid.coords_of(me);
  if (!coords) return;
  const bool is_copied = grid.copies() > 1 || theirs_.copies() > 1;
  const CopyDealer dealer(grid, theirs_, me, role, hosts);
  for (const SharedBoxes& boxes :
       skewed_overlaps(mine, theirs, *coords, role == Role::source ? mine : theirs)) {
    std::vector<CopyShare> shares{{.count = boxes.elements()}};
    if (is_copied) shares = dealer.shares(boxes.cell(), boxes.elements());
    for (const CopyShare& share : shares) {
      std::vector<Segment> segments;
      boxes.for_each_run(share.first, share.count,
                         [&](const Segment& s) { segments.push_back(s); });
      list(theirs_.rank_at(boxes.cell(), dealer.peer_copy(share)), segments);
    }
  }
  std::ranges::sort(listed_, {}, &Listed::peer);
}

}  // namespace tremula::index_calc
