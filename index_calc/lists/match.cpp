// SPDX-License-Identifier: Apache-2.0
#include "index_calc/lists/match.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/error.hpp"
#include "index_calc/layout/blocks.hpp"
#include "index_calc/lists/run_code.hpp"

namespace tremula::index_calc {
namespace {

/// Returns the first number of slice `s` of `count`; for s = `count`, the end of the last slice.
Index slice_begin(Index elements, RankCount s, RankCount count) {
  return elements / count * s + elements % count * s / count;
}

/// Calls visit(run) for the parts of ascending `runs` between `begin` and `end`.
template <class Visit>
void for_each_between(std::span<const ListRun> runs, Index begin, Index end, Visit&& visit) {
  auto at = std::ranges::upper_bound(runs, begin, {}, &ListRun::end);
  for (; at != runs.end() && at->global < end; ++at) {
    const Index first = std::max(at->global, begin), last = std::min(at->global + at->length, end);
    visit(ListRun{first, at->local + first - at->global, last - first});
  }
}

/// Returns the first run at or after `at` that ends after `number`; the runs ascend. O(log of its
/// distance)
template <class Run, class End>
Run first_behind(Run at, Run last, Index number, End&& end_of) {
  std::ptrdiff_t step = 1;
  for (; step < last - at && end_of(at[step]) <= number; step *= 2) at += step;
  return std::partition_point(at, at + std::min(step + 1, last - at),
                              [&](const auto& run) { return end_of(run) <= number; });
}

/// Calls visit(a, b) for each stretch of elements that two lists have in common, as parts of their
/// runs: both have the same number and length. The stretches are in the order of `a`. An element
/// that `b` lists several times is visited once for each of its places.
/// @pre `a` ascends by the beginnings of its runs, `b` by beginnings and by ends
/// Cost: proportional to the runs of `a` and the stretches, times a logarithm.
template <class Visit>
void for_each_common(std::span<const ListRun> a, std::span<const ListRun> b, Visit&& visit) {
  auto next = b.begin();
  for (const ListRun& x : a) {
    next = first_behind(next, b.end(), x.global, [](const ListRun& run) { return run.end(); });
    for (auto y = next; y != b.end() && y->global < x.end(); ++y) {
      const Index first = std::max(x.global, y->global), last = std::min(x.end(), y->end());
      visit(ListRun{first, x.local + first - x.global, last - first},
            ListRun{first, y->local + first - y->global, last - first});
    }
  }
}

/// A run and the rank that has it.
struct Owned {
  Index begin = 0, end = 0;
  Rank rank{};
};

/// Merges the lists of all ranks of a side into one ascending list.
std::vector<Owned> merged(std::span<const std::vector<ListRun>> lists) {
  std::vector<Owned> all;
  std::vector<std::size_t> bounds{0};
  for (std::size_t r = 0; r < lists.size(); ++r) {
    for (const ListRun& run : lists[r])
      all.push_back({run.global, run.global + run.length, to_rank(r)});
    bounds.push_back(all.size());
  }
  const auto at = [&](std::size_t list) {
    return all.begin() + static_cast<std::ptrdiff_t>(bounds[std::min(list, bounds.size() - 1)]);
  };
  for (std::size_t width = 1; width < lists.size(); width *= 2)
    for (std::size_t r = 0; r + width < lists.size(); r += 2 * width)
      std::inplace_merge(at(r), at(r + width), at(r + 2 * width),
                         [](const Owned& a, const Owned& b) { return a.begin < b.begin; });
  return all;
}

/// Assigns every element to one rank.
/// @throws core::Error mismatch
std::vector<Owned> single(const std::vector<Owned>& all, const char* side,
                          const MatchedSides::Rules& rules, const std::vector<Index>& shape,
                          Index begin, Index end) {
  const auto expect_no_gap = [&](Index from, Index to) {
    if (rules.is_partial || from >= to) return;
    throw core::Error(core::Errc::mismatch,
                      fmt::format("index lists of the {}: expected every element on a rank; found "
                                  "element {} on none: list it, or declare the layout partial",
                                  side, element_text(shape, from)));
  };
  std::vector<Owned> result;
  result.reserve(all.size());
  Index covered = begin;
  Rank last{};
  for (Owned run : all) {
    if (run.begin < covered) {
      if (!rules.has_copies)
        throw core::Error(
            core::Errc::mismatch,
            fmt::format("index lists of the {}: expected every element on one rank; "
                        "found element {} on ranks {} and {}: list it once, or "
                        "declare the layout to have copies",
                        side, element_text(shape, run.begin), last.value, run.rank.value));
      run.begin = covered;
    }
    if (run.begin >= run.end) continue;
    expect_no_gap(covered, run.begin);
    covered = run.end;
    last = run.rank;
    result.push_back(run);
  }
  expect_no_gap(covered, end);
  return result;
}

std::vector<Bytes> lists_of(std::vector<RunWriter>& writers) {
  std::vector<Bytes> bytes(writers.size());
  for (std::size_t i = 0; i < writers.size(); ++i) writers[i].write_to(bytes[i]);
  return bytes;
}

}  // namespace

MatchedSides matched_sides(const Layout& source, RankCount sources, const Layout& sink,
                           RankCount sinks) {
  const auto rules = [](const Layout& layout) {
    return MatchedSides::Rules{is_partial(layout), has_copies(layout)};
  };
  return {.shape = shape(source),
          .sources = sources,
          .sinks = sinks,
          .source = rules(source),
          .sink = rules(sink)};
}

SourceMatch::SourceMatch(const MatchedSides& sides, const IndexList& list, Rank me)
    : sides_(sides), list_(list), me_(me), wanted_(static_cast<std::size_t>(sides.sinks)) {}

std::vector<Bytes> SourceMatch::to_directory(std::span<const Bytes> from_sinks) {
  const Index all = elements_of(sides_.shape);
  std::vector<RunReader> readers;
  for (const Bytes& bytes : from_sinks) readers.emplace_back(bytes);
  std::vector<Bytes> out(static_cast<std::size_t>(sides_.sinks));
  for (RankCount s = 0; s < sides_.sinks; ++s) {
    const Index begin = slice_begin(all, s, sides_.sinks),
                end = slice_begin(all, s + 1, sides_.sinks);
    Bytes& bytes = out[static_cast<std::size_t>(s)];
    RunWriter mine(false);
    for_each_between(list_.runs(), begin, end, [&](const ListRun& run) { mine.add(run); });
    mine.write_to(bytes);
    if (s % sides_.sources != me_.value) continue;
    for (RunReader& reader : readers) {
      RunWriter passed(false);
      for (const ListRun& run : reader.read(false, begin, end)) passed.add(run);
      passed.write_to(bytes);
    }
  }
  return out;
}

std::vector<Bytes> SourceMatch::places(std::span<const Bytes> from_directory) {
  const Index all = elements_of(sides_.shape);
  std::vector<RunWriter> places(wanted_.size(), RunWriter(true));
  for (RankCount s = 0; s < sides_.sinks; ++s) {
    RunReader reader(from_directory[static_cast<std::size_t>(s)]);
    const Index begin = slice_begin(all, s, sides_.sinks),
                end = slice_begin(all, s + 1, sides_.sinks);
    for (std::size_t sink = 0; sink < wanted_.size(); ++sink) {
      const auto runs = reader.read(false, begin, end);
      if (runs.empty()) continue;
      const auto first =
          std::ranges::upper_bound(list_.runs(), runs.front().global, {}, &ListRun::end);
      for_each_common(
          runs, std::span(first, list_.runs().end()), [&](const ListRun&, const ListRun& mine) {
            places[sink].add(mine);
            ListRun* const last = wanted_[sink].empty() ? nullptr : &wanted_[sink].back();
            const bool goes_on = last != nullptr &&  // the border of a slice has cut the run
                                 last->global + last->length == mine.global &&
                                 last->local + last->length == mine.local;
            if (goes_on)
              last->length += mine.length;
            else
              wanted_[sink].push_back(mine);
          });
    }
  }
  return lists_of(places);
}

std::vector<PeerSegments> SourceMatch::segments(std::span<const Bytes> from_sinks) const {
  const Index all = elements_of(sides_.shape);
  std::vector<PeerSegments> result;
  for (std::size_t sink = 0; sink < wanted_.size(); ++sink) {
    const auto theirs = RunReader(from_sinks[sink]).read(true, 0, all, true);
    PeerSegments peer{.peer = to_rank(sink), .segments = {}};
    for_each_common(theirs, wanted_[sink], [&](const ListRun& there, const ListRun& mine) {
      peer.segments.push_back({{mine.local}, {there.local}, mine.length});
    });
    if (!peer.segments.empty()) result.push_back(std::move(peer));
  }
  return result;
}

SinkMatch::SinkMatch(const MatchedSides& sides, const IndexList& list, Rank me)
    : sides_(sides), list_(list), me_(me) {}

std::vector<Bytes> SinkMatch::to_sources() const {
  const Index all = elements_of(sides_.shape);
  std::vector<Bytes> out(static_cast<std::size_t>(sides_.sources));
  for (RankCount s = 0; s < sides_.sinks; ++s) {
    RunWriter runs(false);
    Index covered = 0;
    for_each_between(list_.runs(), slice_begin(all, s, sides_.sinks),
                     slice_begin(all, s + 1, sides_.sinks), [&](const ListRun& run) {
                       if (run.global >= covered) runs.add(run);  // leaves out repeats
                       covered = run.global + run.length;
                     });
    runs.write_to(out[static_cast<std::size_t>(s % sides_.sources)]);
  }
  return out;
}

std::vector<Bytes> SinkMatch::overlaps(std::span<const Bytes> from_sources) const {
  const Index all = elements_of(sides_.shape);
  const Index begin = slice_begin(all, me_.value, sides_.sinks),
              end = slice_begin(all, me_.value + 1, sides_.sinks);
  std::vector<std::vector<ListRun>> of_sources, of_sinks;
  for (const Rank rank : all_ranks(static_cast<RankCount>(from_sources.size()))) {
    RunReader reader(from_sources[at(rank)]);
    of_sources.push_back(reader.read(false, begin, end));
    if (rank != Rank{me_.value % sides_.sources}) continue;
    for (RankCount s = 0; s < sides_.sinks; ++s) of_sinks.push_back(reader.read(false, begin, end));
  }
  single(merged(of_sinks), "consumer", sides_.sink, sides_.shape, begin, end);
  const auto owners =
      single(merged(of_sources), "producer", sides_.source, sides_.shape, begin, end);
  const auto sources = static_cast<std::size_t>(sides_.sources);
  std::vector<Bytes> out(sources);
  for (const auto& wanted : of_sinks) {
    std::vector<RunWriter> from(sources, RunWriter(false));
    auto owner = owners.begin();
    for (const ListRun& run : wanted) {
      const Index run_end = run.global + run.length;
      owner = first_behind(owner, owners.end(), run.global, [](const Owned& o) { return o.end; });
      for (auto o = owner; o != owners.end() && o->begin < run_end; ++o) {
        const Index first = std::max(run.global, o->begin), last = std::min(run_end, o->end);
        from[at(o->rank)].add({.global = first, .length = last - first});
      }
    }
    for (std::size_t r = 0; r < sources; ++r) from[r].write_to(out[r]);
  }
  return out;
}

std::vector<Bytes> SinkMatch::places(std::span<const Bytes> from_sources) {
  const Index all = elements_of(sides_.shape);
  std::vector<RunWriter> places(from_sources.size(), RunWriter(true));
  for (std::size_t r = 0; r < from_sources.size(); ++r) {
    PeerSegments peer{.peer = to_rank(r), .segments = {}};
    for_each_common(RunReader(from_sources[r]).read(true, 0, all), list_.runs(),
                    [&](const ListRun& there, const ListRun& mine) {
                      places[r].add(mine);
                      peer.segments.push_back({{mine.local}, {there.local}, mine.length});
                    });
    if (!peer.segments.empty()) segments_.push_back(std::move(peer));
  }
  return lists_of(places);
}

MatchedLists match_lists(const MatchedSides& sides, const IndexList* source, const IndexList* sink,
                         Rank me, ListMover& mover) {
  std::optional<SourceMatch> out;
  std::optional<SinkMatch> in;
  if (source != nullptr) out.emplace(sides, *source, me);
  if (sink != nullptr) in.emplace(sides, *sink, me);
  const auto none = std::vector<Bytes>();
  auto came = mover.back(in ? in->to_sources() : none);
  came = mover.forth(out ? out->to_directory(came) : none);
  came = mover.back(in ? in->overlaps(came) : none);
  came = mover.forth(out ? out->places(came) : none);
  came = mover.back(in ? in->places(came) : none);
  MatchedLists matched;
  if (out) matched.as_source = out->segments(came);
  if (in) matched.as_sink = in->segments();
  return matched;
}

}  // namespace tremula::index_calc
