// SPDX-License-Identifier: Apache-2.0
// Plans of flat buffers: of ranks that list what they own, and of skewed blocks.
#include <algorithm>

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

/// The distances that most neighbours of equal length have, as far as a vote by one pass tells
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

}  // namespace

template <class ForEach>
void Plan::list(Rank peer, const ForEach& for_each) {
  UsualStrides votes;
  for_each([&](const Segment& s) { votes.count(s); });
  const Strides usual = votes.usual();
  Listed listed{.peer = peer,
                .families = {},
                .family_stride = usual.mine,
                .family_peer_stride = usual.theirs,
                .index = {}};
  auto& [before, end, peer_end] = listed.index;
  Index elements = 0;
  Segment last{};
  for_each([&](const Segment& s) {
    end = std::max(end, s.begin.value + s.length);
    peer_end = std::max(peer_end, s.peer_begin.value + s.length);
    const bool goes_on =
        usual.mine > 0 && usual.theirs > 0 && s.length == last.length && between(last, s) == usual;
    if (goes_on) {
      ++listed.families.back().count;
    } else {
      listed.families.push_back({.first = s, .count = 1});
      before.push_back(elements);
    }
    elements += s.length;
    last = s;
  });
  before.push_back(elements);
  elements_ += elements;
  listed_.push_back(std::move(listed));
}

Plan make_listed_plan(const Layout& mine, const Layout& theirs, std::vector<PeerSegments> segments,
                      std::uint64_t match) {
  validate_pair(mine, theirs);
  Plan plan(mine, theirs);
  plan.fingerprint_ ^= match * 0x9E3779B97F4A7C15u;
  plan.is_listed_ = true;
  for (PeerSegments& of : segments) {
    plan.list(of.peer, [&](auto&& visit) { std::ranges::for_each(of.segments, visit); });
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
    for (const CopyShare& share : shares)
      list(theirs_.rank_at(boxes.cell(), dealer.peer_copy(share)),
           [&](auto&& visit) { boxes.for_each_run(share.first, share.count, visit); });
  }
  std::ranges::sort(listed_, {}, &Listed::peer);
}

}  // namespace tremula::index_calc
