// SPDX-License-Identifier: Apache-2.0
#include "index_calc/plan/plan.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>

#include "core/error.hpp"
#include "index_calc/plan/shares.hpp"
#include "index_calc/plan/skewed_plan.hpp"

namespace tremula::index_calc {
namespace {

/// The same for (a, b) and (b, a).
std::uint64_t pair_fingerprint(const Layout& a, const Layout& b) {
  std::array<std::uint64_t, 2> both{fingerprint(a), fingerprint(b)};
  if (both[0] > both[1]) std::swap(both[0], both[1]);
  if constexpr (std::endian::native == std::endian::big)
    for (auto& word : both) word = __builtin_bswap64(word);
  return XXH3_64bits(both.data(), sizeof(both));
}

/// Neighbours in the local indices of both sides as one: the border of a period may divide a
/// segment.
std::vector<Segment> joined(const SegmentList& list) {
  std::vector<Segment> result;
  list.for_each([&](const Segment& s) {
    Segment* const last = result.empty() ? nullptr : &result.back();
    if (last != nullptr && last->begin.value + last->length == s.begin.value &&
        last->peer_begin.value + last->length == s.peer_begin.value)
      last->length += s.length;
    else
      result.push_back(s);
  });
  return result;
}

/// The first segment in which a list differs from a reference, as text; empty if they are equal.
std::string difference(const SegmentList& found, const SegmentList& reference) {
  const auto text = [](const Segment& s) {
    return fmt::format("[{}, {}) at {} of the peer", s.begin.value, s.begin.value + s.length,
                       s.peer_begin.value);
  };
  if (found.elements() != reference.elements())
    return fmt::format("{} elements against {}", found.elements(), reference.elements());
  const auto here = joined(found), there = joined(reference);
  const auto [a, b] = std::ranges::mismatch(here, there);
  if (a != here.end() && b != there.end())
    return fmt::format("segment {}: {} against {}", a - here.begin(), text(*a), text(*b));
  return here.size() == there.size()
             ? std::string()
             : fmt::format("{} segments against {}", here.size(), there.size());
}

std::string difference(const Overlaps& a, const Overlaps& b) {
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    if (i >= a.size() || i >= b.size() || a.peers()[i] != b.peers()[i])
      return fmt::format("peer coordinate number {}: {} against {}", i,
                         i < a.size() ? std::to_string(a.peers()[i].value) : "none",
                         i < b.size() ? std::to_string(b.peers()[i].value) : "none");
    const std::string text = difference(a[i], b[i]);
    if (!text.empty()) return fmt::format("peer coordinate {}, {}", a.peers()[i].value, text);
  }
  return {};
}

/// The dimension along which copies share a package; of two, the first.
std::size_t longest_of(const Package& package) {
  std::size_t longest = 0;
  for (std::size_t d = 1; d < package.dimensions; ++d)
    if (package.along[d].elements() > package.along[longest].elements()) longest = d;
  return longest;
}

}  // namespace

std::size_t Plan::size() const noexcept {
  return is_listed_ ? listed_.size() : has_shares_ ? shares_.size() : cells();
}

std::size_t Plan::cells() const noexcept {
  if (along_.empty()) return 0;
  std::size_t count = 1;
  for (const Overlaps& o : along_) count *= o.size();
  return count;
}

Package Plan::package_of(std::size_t i, GridCoords& coords) const {
  Package package{.peer = 0, .dimensions = along_.size(), .along = {}, .elements = 1};
  for (std::size_t d = along_.size(); d-- > 0;) {
    const Overlaps& o = along_[d];
    const std::size_t k = i % o.size();
    i /= o.size();
    coords[d] = o.peers()[k];
    package.along[d] = o[k];
    package.elements *= o.elements(k);
  }
  return package;
}

Package Plan::operator[](std::size_t i) const {
  if (is_listed_) {
    const Listed& of = listed_[i];
    const Family& last = of.families.back();
    Package package{.peer = of.peer, .dimensions = 1, .elements = of.index.before.back()};
    package.along[0] = {.period = of.families,
                        .family_stride = of.family_stride,
                        .family_peer_stride = of.family_peer_stride,
                        .tail = static_cast<Index>(of.families.size()),
                        .tail_count = last.count,
                        .tail_length = last.first.length,
                        .index = &of.index};
    return package;
  }
  GridCoords coords{};
  if (!has_shares_) {
    Package package = package_of(i, coords);
    package.peer = theirs_.rank_at(coords);
    return package;
  }
  const Share& share = shares_[i];
  Package package = package_of(share.cell, coords);
  package.peer = theirs_.rank_at(coords, share.copy);
  SegmentList& list = package.along[longest_of(package)];
  const Index lines = list.elements();
  if (share.count == lines) return package;
  list = list.slice(share.first, share.count);
  package.elements = package.elements / lines * share.count;
  return package;
}

namespace {

/// What this rank has of what its cell shares with another one, where a side has copies.
class CopyDealer {
public:
  CopyDealer(const ProcessGrid& mine, const ProcessGrid& theirs, Rank me, Role role,
             const Hosts& hosts)
      : mine_(mine), theirs_(theirs), cell_(*mine.cell_of(me)), role_(role), hosts_(hosts) {
    my_places_ = places_of(hosts.of_mine, mine, cell_.coords);
  }

  /// @param coords  of the cell of theirs
  std::vector<CopyShare> shares(const GridCoords& coords, Index lines) const {
    const bool is_source = role_ == Role::source;
    const Index here = mine_.position_of(cell_.coords), there = theirs_.position_of(coords);
    const CopyPlaces their_places = places_of(hosts_.of_theirs, theirs_, coords);
    const CopiedPair pair{.lines = lines,
                          .from = is_source ? mine_.copies() : theirs_.copies(),
                          .to = is_source ? theirs_.copies() : mine_.copies(),
                          .from_places = is_source ? my_places_ : their_places,
                          .to_places = is_source ? their_places : my_places_,
                          .turn = is_source ? turn_of(here, there) : turn_of(there, here)};
    return is_source ? shares_of_source(pair, cell_.copy) : shares_of_sink(pair, cell_.copy);
  }
  Rank peer_copy(const CopyShare& share) const noexcept {
    return role_ == Role::source ? share.to : share.from;
  }

private:
  CopyPlaces places_of(std::span<const std::uint32_t> of_ranks, const ProcessGrid& grid,
                       const GridCoords& coords) const {
    CopyPlaces places;
    for (Rank copy = 0; copy < grid.copies(); ++copy) {
      const Rank rank = grid.rank_at(coords, copy);
      if (hosts_.is_one_job) places.ranks.push_back(rank);
      if (!of_ranks.empty()) places.hosts.push_back(of_ranks[static_cast<std::size_t>(rank)]);
    }
    return places;
  }

  const ProcessGrid &mine_, &theirs_;
  GridCell cell_;
  Role role_;
  const Hosts& hosts_;
  CopyPlaces my_places_;
};

/// Elements first .. first + count - 1.
std::vector<Segment> slice_of(std::span<const Segment> segments, Index first, Index count) {
  std::vector<Segment> slice;
  for (Segment s : segments) {
    const Index skip = std::min(first, s.length), length = std::min(s.length - skip, count);
    first -= skip;
    count -= length;
    s.begin.value += skip;
    s.peer_begin.value += skip;
    s.length = length;
    if (length > 0) slice.push_back(s);
    if (count == 0) break;
  }
  return slice;
}

/// What a rank exchanges with each of its peers, ascending, where a side is skewed.
std::vector<PeerSegments> skewed_segments(const Layout& mine, const Layout& theirs, Rank me,
                                          Role role, const Hosts& hosts) {
  const ProcessGrid my_grid(mine), their_grid(theirs);
  const auto coords = my_grid.coords_of(me);
  if (!coords) return {};
  const bool is_copied = my_grid.copies() > 1 || their_grid.copies() > 1;
  const CopyDealer dealer(my_grid, their_grid, me, role, hosts);
  std::vector<PeerSegments> peers;
  for (CellSegments& of :
       skewed_overlaps(mine, theirs, *coords, role == Role::source ? mine : theirs)) {
    if (!is_copied) {
      peers.push_back({their_grid.rank_at(of.cell), std::move(of.segments)});
      continue;
    }
    Index elements = 0;
    for (const Segment& s : of.segments) elements += s.length;
    for (const CopyShare& share : dealer.shares(of.cell, elements))
      peers.push_back({their_grid.rank_at(of.cell, dealer.peer_copy(share)),
                       slice_of(of.segments, share.first, share.count)});
  }
  std::ranges::sort(peers, {}, &PeerSegments::peer);
  return peers;
}

}  // namespace

void Plan::deal(const ProcessGrid& mine, Rank me, Role role, const Hosts& hosts) {
  has_shares_ = true;
  const CopyDealer dealer(mine, theirs_, me, role, hosts);
  for (std::size_t i = 0, end = cells(); i < end; ++i) {
    GridCoords coords{};
    const Package package = package_of(i, coords);
    const Index lines = package.along[longest_of(package)].elements();
    for (const CopyShare& share : dealer.shares(coords, lines)) {
      shares_.push_back(
          {.cell = i, .copy = dealer.peer_copy(share), .first = share.first, .count = share.count});
      elements_ += package.elements / lines * share.count;
    }
  }
}

std::optional<Package> Plan::package_for(Rank peer) const {
  if (is_listed_) {
    const auto found = std::ranges::lower_bound(listed_, peer, {}, &Listed::peer);
    if (found == listed_.end() || found->peer != peer) return std::nullopt;
    return (*this)[static_cast<std::size_t>(found - listed_.begin())];
  }
  const auto cell = theirs_.cell_of(peer);
  if (!cell || along_.empty()) return std::nullopt;
  std::size_t i = 0;
  for (std::size_t d = 0; d < along_.size(); ++d) {
    const auto peers = along_[d].peers();
    const auto at = std::lower_bound(peers.begin(), peers.end(), cell->coords[d]);
    if (at == peers.end() || *at != cell->coords[d]) return std::nullopt;
    i = i * peers.size() + static_cast<std::size_t>(at - peers.begin());
  }
  if (!has_shares_) return (*this)[i];
  const auto found = std::ranges::find_if(
      shares_, [&](const Share& s) { return s.cell == i && s.copy == cell->copy; });
  if (found == shares_.end()) return std::nullopt;
  return (*this)[static_cast<std::size_t>(found - shares_.begin())];
}

std::size_t Plan::memory_bytes() const noexcept {
  std::size_t bytes = sizeof(*this) - sizeof(theirs_) + theirs_.memory_bytes();
  for (const Overlaps& o : along_) bytes += o.memory_bytes();
  for (const Listed& of : listed_)
    bytes += sizeof of + of.families.capacity() * sizeof(Family) +
             of.index.before.capacity() * sizeof(Index);
  return bytes + shares_.capacity() * sizeof(Share);
}

namespace {

struct Strides {
  Index mine = 0, theirs = 0;
  friend bool operator==(const Strides&, const Strides&) = default;
};

Strides between(const Segment& a, const Segment& b) {
  return {b.begin.value - a.begin.value, b.peer_begin.value - a.peer_begin.value};
}

/// The distances that most neighbours of equal length have, as far as a vote by one pass tells
/// (Boyer and Moore 1981).
Strides usual_strides(std::span<const Segment> segments) {
  Strides usual;
  Index votes = 0;
  for (std::size_t i = 1; i < segments.size(); ++i) {
    if (segments[i].length != segments[i - 1].length) continue;
    const Strides strides = between(segments[i - 1], segments[i]);
    if (votes == 0) usual = strides;
    votes += strides == usual ? 1 : -1;
  }
  return usual;
}

}  // namespace

Plan make_listed_plan(const Layout& mine, const Layout& theirs, std::vector<PeerSegments> segments,
                      std::uint64_t match) {
  validate_pair(mine, theirs);
  Plan plan(theirs);
  plan.fingerprint_ = pair_fingerprint(mine, theirs) ^ (match * 0x9E3779B97F4A7C15u);
  plan.is_listed_ = true;
  for (PeerSegments& of : segments) {
    const Strides usual = usual_strides(of.segments);
    Plan::Listed listed{.peer = of.peer,
                        .families = {},
                        .family_stride = usual.mine,
                        .family_peer_stride = usual.theirs,
                        .index = {}};
    auto& [before, end, peer_end] = listed.index;
    Index elements = 0;
    for (std::size_t i = 0; i < of.segments.size(); ++i) {
      const Segment& s = of.segments[i];
      end = std::max(end, s.begin.value + s.length);
      peer_end = std::max(peer_end, s.peer_begin.value + s.length);
      const bool goes_on = i > 0 && usual.mine > 0 && usual.theirs > 0 &&
                           s.length == of.segments[i - 1].length &&
                           between(of.segments[i - 1], s) == usual;
      if (goes_on) {
        ++listed.families.back().count;
      } else {
        listed.families.push_back({.first = s, .count = 1});
        before.push_back(elements);
      }
      elements += s.length;
    }
    before.push_back(elements);
    plan.elements_ += elements;
    of.segments = {};
    plan.listed_.push_back(std::move(listed));
  }
  return plan;
}

Plan make_plan(const Layout& mine, const Layout& theirs, Rank me, Role role, Algorithm algorithm,
               const Hosts& hosts) {
  validate_pair(mine, theirs);
  if (has_skew(mine, theirs) && !mine.listing && !theirs.listing) {
    if (algorithm != Algorithm::aspen)
      throw core::Error(
          core::Errc::unsupported,
          fmt::format("expected the algorithm aspen where a layout is skewed, found {}: "
                      "there is no other, and nothing to validate it by",
                      to_string(algorithm)));
    return make_listed_plan(mine, theirs, skewed_segments(mine, theirs, me, role, hosts));
  }
  for (const Layout* const layout : {&mine, &theirs})
    expect_computed(*layout, "a plan that no rank is asked for");
  Plan plan(theirs);
  plan.fingerprint_ = pair_fingerprint(mine, theirs);
  const ProcessGrid grid(mine);
  const auto coords = grid.coords_of(me);
  if (!coords) return plan;
  for (std::size_t d = 0; d < mine.dims.size(); ++d)
    plan.along_.push_back(overlaps(mine.dims[d], (*coords)[d], theirs.dims[d], algorithm));
  if (plan.size() == 0) return plan;
  if (grid.copies() > 1 || plan.theirs_.copies() > 1) {
    plan.deal(grid, me, role, hosts);
    return plan;
  }
  plan.elements_ = 1;
  for (std::size_t d = 0; d < mine.dims.size(); ++d)
    plan.elements_ *= local_extent(mine.dims[d], (*coords)[d]);
  return plan;
}

Plan make_validated_plan(const Layout& mine, const Layout& theirs, Rank me, Role role,
                         const Hosts& hosts) {
  for (const Layout* const layout : {&mine, &theirs})
    expect_computed(*layout, "a plan that is validated");
  Plan plan = make_plan(mine, theirs, me, role, Algorithm::aspen, hosts);
  const auto coords = coords_of(mine, me);
  if (!coords) return plan;
  for (std::size_t d = 0; d < mine.dims.size(); ++d) {
    const auto of = [&](Algorithm a) {
      return overlaps(mine.dims[d], (*coords)[d], theirs.dims[d], a);
    };
    const Overlaps reference = of(Algorithm::classical);
    for (const Algorithm a : {Algorithm::aspen, Algorithm::falls}) {
      const std::string text = difference(of(a), reference);
      if (!text.empty())
        throw core::Error(
            core::Errc::internal,
            fmt::format(
                "plan of rank {}, dimension {}, {} against classical: {}; \"{}\" to \"{}\"; "
                "please report this, and choose another index_algorithm meanwhile",
                me, d, to_string(a), text, to_string(mine), to_string(theirs)));
    }
  }
  return plan;
}

}  // namespace tremula::index_calc
