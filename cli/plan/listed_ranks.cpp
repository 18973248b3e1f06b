// SPDX-License-Identifier: Apache-2.0
#include "cli/plan/listed_ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace tremula::cli {

namespace {

using core::Bytes, core::Rank, core::RankCount, core::to_rank;
using index_calc::IndexList, index_calc::Layout, index_calc::SinkMatch, index_calc::SourceMatch;

/// Returns what each rank owns under a layout without lists. Shape: [rank of the group]
std::vector<IndexList> lists_of(const Layout& layout) {
  const std::vector<Rank> ranks = ranks_of(layout);
  std::vector<IndexList> lists(at(*std::ranges::max_element(ranks)) + 1);
  for (const Rank rank : ranks)
    lists[at(rank)] = IndexList::of_layout(layout, rank, local_part(layout, rank));
  return lists;
}

/// Passes bytes from every rank to every rank on the other side, as messages would.
/// @param reply  returns what rank `r` sends to each rank on the other side, given what it
///               received: reply(match of r, came)
/// @param came   what each rank has received; shape: [rank][rank on the other side]
/// @return       what each rank sends; shape: [rank on the other side][rank]
template <class Match, class Reply>
std::vector<std::vector<Bytes>> exchanged(std::vector<Match>& ranks, std::size_t others,
                                          const std::vector<std::vector<Bytes>>& came,
                                          const Reply& reply) {
  std::vector<std::vector<Bytes>> out(others, std::vector<Bytes>(ranks.size()));
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    auto sent = reply(ranks[r], came[r]);
    for (std::size_t other = 0; other < others; ++other) out[other][r] = std::move(sent[other]);
  }
  return out;
}

template <class Match>
std::vector<Match> matches(const index_calc::MatchedSides& sides,
                           const std::vector<IndexList>& lists) {
  std::vector<Match> result;
  result.reserve(lists.size());
  for (std::size_t r = 0; r < lists.size(); ++r) result.emplace_back(sides, lists[r], to_rank(r));
  return result;
}

}  // namespace

ListedRanks match_all(const Layout& from, const Layout& to,
                      std::optional<std::vector<IndexList>> producers,
                      std::optional<std::vector<IndexList>> consumers) {
  validate_pair(from, to);
  ListedRanks ranks;
  auto& [sources, sinks, seconds] = ranks;
  if (producers)
    for (std::size_t r = 0; r < producers->size(); ++r) try {
        (*producers)[r].expect_source(shape(from));
      } catch (const core::Error& e) {
        throw core::Error(e.code(), fmt::format("--from-lists: rank {}: {}", r, e.what()));
      }
  sources.lists = producers ? std::move(*producers) : lists_of(from);
  sinks.lists = consumers ? std::move(*consumers) : lists_of(to);
  const std::size_t m = sources.lists.size(), n = sinks.lists.size();
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto sides = matched_sides(from, static_cast<RankCount>(m), to, static_cast<RankCount>(n));
  auto out = matches<SourceMatch>(sides, sources.lists);
  auto in = matches<SinkMatch>(sides, sinks.lists);
  auto came = exchanged(in, m, std::vector<std::vector<Bytes>>(n),
                        [](SinkMatch& sink, const auto&) { return sink.to_sources(); });
  came = exchanged(out, n, came,
                   [](SourceMatch& source, const auto& c) { return source.to_directory(c); });
  came = exchanged(in, m, came, [](SinkMatch& sink, const auto& c) { return sink.overlaps(c); });
  came =
      exchanged(out, n, came, [](SourceMatch& source, const auto& c) { return source.places(c); });
  came = exchanged(in, m, came, [](SinkMatch& sink, const auto& c) { return sink.places(c); });
  for (std::size_t r = 0; r < m; ++r) sources.segments.push_back(out[r].segments(came[r]));
  for (SinkMatch& sink : in) sinks.segments.push_back(sink.segments());
  seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return ranks;
}

}  // namespace tremula::cli
