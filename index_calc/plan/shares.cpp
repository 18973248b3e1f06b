// SPDX-License-Identifier: Apache-2.0
#include "index_calc/plan/shares.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "index_calc/basics/mixed.hpp"

namespace tremula::index_calc {
namespace {

__extension__ using Wide = __int128;

/// Cuts all lines that `sinks` copies of the sink need, one copy after another, into equal
/// pieces, one for each copy of the source. The turn decides which cuts are rounded up.
class Cuts {
public:
  Cuts(const CopiedPair& pair, RankCount sinks)
      : all_(Wide{pair.lines} * sinks),
        from_(pair.from),
        shift_(static_cast<Index>(pair.turn % static_cast<std::uint64_t>(pair.from))) {}
  /// Returns where the piece of copy k begins; for k = from, where the last piece ends.
  Wide operator[](RankCount k) const { return (k * all_ + shift_) / from_; }
  /// Returns the copy whose piece holds a line.
  RankCount copy_at(Wide line) const {
    RankCount low = 0, high = from_;  // cuts[low] <= line < cuts[high]
    while (high - low > 1) {
      const RankCount middle = low + (high - low) / 2;
      ((*this)[middle] <= line ? low : high) = middle;
    }
    return low;
  }

private:
  Wide all_;
  RankCount from_;
  Index shift_;
};

bool has_places(const CopiedPair& pair) {
  const auto both = [](const auto& a, const auto& b) { return !a.empty() && !b.empty(); };
  return both(pair.from_places.ranks, pair.to_places.ranks) ||
         both(pair.from_places.hosts, pair.to_places.hosts);
}

}  // namespace

std::vector<CopyShare> deal_copies(const CopiedPair& pair) {
  const auto number = [](RankCount copy) { return static_cast<std::size_t>(copy); };
  std::vector<CopyShare> shares;
  std::vector<Index> begun(number(pair.to));  // lines given so far to each copy of the sink
  RankCount others = pair.to;                 // copies of the sink that still need lines
  if (!pair.from_places.ranks.empty() && !pair.to_places.ranks.empty()) {
    std::map<Rank, RankCount> copy_on;
    for (RankCount k = 0; k < pair.from; ++k) copy_on.emplace(pair.from_places.ranks[number(k)], k);
    for (RankCount j = 0; j < pair.to; ++j) {
      const auto own = copy_on.find(pair.to_places.ranks[number(j)]);
      if (own == copy_on.end()) continue;
      shares.push_back({.from = own->second, .to = j, .first = 0, .count = pair.lines});
      begun[number(j)] = pair.lines;
      --others;
    }
  }
  const Cuts cuts(pair, others);
  std::vector<Wide> left(number(pair.from));  // lines that each copy of the source may still send
  for (RankCount k = 0; k < pair.from; ++k) left[number(k)] = cuts[k + 1] - cuts[k];
  // Assigns the lines that copy j of the sink still needs to `sources`, beginning with number `at`;
  // moves on to the next source when one has no lines left.
  const auto fill = [&](RankCount j, const std::vector<RankCount>& sources, std::size_t& at) {
    Index& first = begun[number(j)];
    while (first < pair.lines && at < sources.size()) {
      Wide& rest = left[number(sources[at])];
      const auto count = static_cast<Index>(std::min(rest, Wide{pair.lines - first}));
      if (count > 0)
        shares.push_back({.from = sources[at], .to = j, .first = first, .count = count});
      rest -= count;
      first += count;
      if (rest == 0) ++at;
    }
  };
  if (!pair.from_places.hosts.empty() && !pair.to_places.hosts.empty()) {
    std::map<std::uint32_t, std::pair<std::vector<RankCount>, std::size_t>> on_host;
    for (RankCount k = 0; k < pair.from; ++k)
      on_host[pair.from_places.hosts[number(k)]].first.push_back(k);
    for (RankCount j = 0; j < pair.to; ++j)
      if (const auto near = on_host.find(pair.to_places.hosts[number(j)]); near != on_host.end())
        fill(j, near->second.first, near->second.second);
  }
  std::vector<RankCount> all(number(pair.from));
  std::iota(all.begin(), all.end(), 0);
  std::size_t at = 0;
  for (RankCount j = 0; j < pair.to; ++j) fill(j, all, at);
  std::ranges::sort(shares, {}, [](const CopyShare& s) { return std::pair(s.to, s.first); });
  return shares;
}

std::vector<CopyShare> shares_of_source(const CopiedPair& pair, RankCount copy) {
  std::vector<CopyShare> shares;
  if (has_places(pair)) {
    for (const CopyShare& share : deal_copies(pair))
      if (share.from == copy) shares.push_back(share);
    return shares;
  }
  const Cuts cuts(pair, pair.to);
  for (Wide at = cuts[copy], end = cuts[copy + 1]; at < end;) {
    const auto to = static_cast<RankCount>(at / pair.lines);
    const auto first = static_cast<Index>(at % pair.lines);
    const auto count = static_cast<Index>(std::min(end - at, Wide{pair.lines - first}));
    shares.push_back({.from = copy, .to = to, .first = first, .count = count});
    at += count;
  }
  return shares;
}

std::vector<CopyShare> shares_of_sink(const CopiedPair& pair, RankCount copy) {
  std::vector<CopyShare> shares;
  if (has_places(pair)) {
    for (const CopyShare& share : deal_copies(pair))
      if (share.to == copy) shares.push_back(share);
    return shares;
  }
  const Cuts cuts(pair, pair.to);
  const Wide begin = Wide{pair.lines} * copy, end = begin + pair.lines;
  for (Wide at = begin; at < end;) {
    const RankCount from = cuts.copy_at(at);
    const auto count = static_cast<Index>(std::min(end, cuts[from + 1]) - at);
    shares.push_back(
        {.from = from, .to = copy, .first = static_cast<Index>(at - begin), .count = count});
    at += count;
  }
  return shares;
}

std::uint64_t turn_of(Index source, Index sink) noexcept {
  return mixed(static_cast<std::uint64_t>(source) * golden + static_cast<std::uint64_t>(sink));
}

}  // namespace tremula::index_calc
