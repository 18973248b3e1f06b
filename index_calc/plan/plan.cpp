// SPDX-License-Identifier: Apache-2.0
#include "index_calc/plan/plan.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>

#include "core/error.hpp"
#include "index_calc/layout/blocks.hpp"
#include "index_calc/plan/copy_dealer.hpp"
#include "index_calc/plan/skewed_plan.hpp"

namespace tremula::index_calc {
namespace {

/// Returns a fingerprint that is the same for (a, b) and (b, a).
std::uint64_t pair_fingerprint(const Layout& a, const Layout& b) {
  std::array<std::uint64_t, 2> both{fingerprint(a), fingerprint(b)};
  if (both[0] > both[1]) std::swap(both[0], both[1]);
  if constexpr (std::endian::native == std::endian::big)
    for (auto& word : both) word = __builtin_bswap64(word);
  return XXH3_64bits(both.data(), sizeof(both));
}

/// Returns the segments, joined if they are neighbours in the local indices of both sides, because
/// the border of a period may divide a segment.
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

/// Describes the first segment in which a list differs from a reference; returns an empty text if
/// they are equal.
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

/// Returns the dimension along which copies share a package: the longest one, or the first of
/// several.
std::size_t longest_of(const Package& package) {
  std::size_t longest = 0;
  for (std::size_t d = 1; d < package.dimensions; ++d)
    if (package.along[d].elements() > package.along[longest].elements()) longest = d;
  return longest;
}

}  // namespace

Plan::Plan(const Layout& mine, const Layout& theirs)
    : theirs_(theirs), fingerprint_(pair_fingerprint(mine, theirs)) {}

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
  Package package{.peer = {}, .dimensions = along_.size(), .along = {}, .elements = 1};
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
    Package package{.peer = of.peer,
                    .dimensions = 2,
                    .along = {},
                    .elements = of.rows.elements() * of.pattern.elements()};
    package.along[0] = of.rows.list();
    package.along[1] = of.pattern.list();
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
      elements_ = saturating_sum(elements_, package.elements / lines * share.count);
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
    bytes += sizeof of + of.rows.memory_bytes() + of.pattern.memory_bytes();
  return bytes + shares_.capacity() * sizeof(Share);
}

Plan make_plan(const Layout& mine, const Layout& theirs, Rank me, Role role, Algorithm algorithm,
               const Hosts& hosts) {
  validate_pair(mine, theirs);
  if (is_skewed_pair(mine, theirs)) {
    if (algorithm != Algorithm::aspen)
      throw core::Error(core::Errc::unsupported,
                        fmt::format("expected the algorithm aspen for a skewed layout, found {}: "
                                    "no other algorithm supports one, so nothing can validate it",
                                    to_string(algorithm)));
    Plan plan(mine, theirs);
    plan.list_skewed(mine, theirs, me, role, hosts);
    return plan;
  }
  constexpr std::string_view what = "plan without communication";
  const auto &my_dims = expect_grid(mine, what).dims, &their_dims = expect_grid(theirs, what).dims;
  Plan plan(mine, theirs);
  const ProcessGrid grid(mine);
  const auto coords = grid.coords_of(me);
  if (!coords) return plan;
  for (std::size_t d = 0; d < my_dims.size(); ++d)
    plan.along_.push_back(overlaps(my_dims[d], (*coords)[d], their_dims[d], algorithm));
  if (plan.size() == 0) return plan;
  if (grid.copies() > 1 || plan.theirs_.copies() > 1) {
    plan.deal(grid, me, role, hosts);
    return plan;
  }
  plan.elements_ = 1;
  for (std::size_t d = 0; d < my_dims.size(); ++d)
    plan.elements_ *= local_extent(my_dims[d], (*coords)[d]);
  return plan;
}

Plan make_validated_plan(const Layout& mine, const Layout& theirs, Rank me, Role role,
                         const Hosts& hosts) {
  constexpr std::string_view what = "validated plan";
  const auto &my_dims = expect_grid(mine, what).dims, &their_dims = expect_grid(theirs, what).dims;
  Plan plan = make_plan(mine, theirs, me, role, Algorithm::aspen, hosts);
  const auto coords = coords_of(mine, me);
  if (!coords) return plan;
  for (std::size_t d = 0; d < my_dims.size(); ++d) {
    const auto of = [&](Algorithm a) {
      return overlaps(my_dims[d], (*coords)[d], their_dims[d], a);
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
                me.value, d, to_string(a), text, to_string(mine), to_string(theirs)));
    }
  }
  return plan;
}

}  // namespace tremula::index_calc
