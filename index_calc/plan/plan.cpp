// SPDX-License-Identifier: Apache-2.0
#include "index_calc/plan/plan.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>

#include "core/error.hpp"

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

}  // namespace

std::size_t Plan::size() const noexcept {
  if (along_.empty()) return 0;
  std::size_t count = 1;
  for (const Overlaps& o : along_) count *= o.size();
  return count;
}

Package Plan::operator[](std::size_t i) const {
  Package package{.peer = 0, .dimensions = along_.size(), .along = {}, .elements = 1};
  GridCoords coords{};
  for (std::size_t d = along_.size(); d-- > 0;) {
    const Overlaps& o = along_[d];
    const std::size_t k = i % o.size();
    i /= o.size();
    coords[d] = o.peers()[k];
    package.along[d] = o[k];
    package.elements *= o.elements(k);
  }
  package.peer = theirs_.rank_at(coords);
  return package;
}

std::optional<Package> Plan::package_for(Rank peer) const {
  const auto coords = theirs_.coords_of(peer);
  if (!coords || along_.empty()) return std::nullopt;
  std::size_t i = 0;
  for (std::size_t d = 0; d < along_.size(); ++d) {
    const auto peers = along_[d].peers();
    const auto at = std::lower_bound(peers.begin(), peers.end(), (*coords)[d]);
    if (at == peers.end() || *at != (*coords)[d]) return std::nullopt;
    i = i * peers.size() + static_cast<std::size_t>(at - peers.begin());
  }
  return (*this)[i];
}

std::size_t Plan::memory_bytes() const noexcept {
  std::size_t bytes = sizeof(*this) - sizeof(theirs_) + theirs_.memory_bytes();
  for (const Overlaps& o : along_) bytes += o.memory_bytes();
  return bytes;
}

Plan make_plan(const Layout& mine, const Layout& theirs, Rank me, Algorithm algorithm) {
  validate_pair(mine, theirs);
  Plan plan(theirs);
  plan.fingerprint_ = pair_fingerprint(mine, theirs);
  const auto coords = coords_of(mine, me);
  if (!coords) return plan;
  for (std::size_t d = 0; d < mine.dims.size(); ++d)
    plan.along_.push_back(overlaps(mine.dims[d], (*coords)[d], theirs.dims[d], algorithm));
  if (plan.size() == 0) return plan;
  plan.elements_ = 1;
  for (std::size_t d = 0; d < mine.dims.size(); ++d)
    plan.elements_ *= local_extent(mine.dims[d], (*coords)[d]);
  return plan;
}

Plan make_validated_plan(const Layout& mine, const Layout& theirs, Rank me) {
  Plan plan = make_plan(mine, theirs, me, Algorithm::aspen);
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
