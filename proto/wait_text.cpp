// SPDX-License-Identifier: Apache-2.0
#include "proto/wait_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace tremula::proto {

namespace {
constexpr std::size_t most_runs = 8;
}

std::set<core::Rank> ranks_of(const wire::Wait& wait) {
  std::set<core::Rank> ranks;
  for (const int rank : wait.ranks()) ranks.insert(core::Rank{rank});
  return ranks;
}

std::string ranks_text(const std::set<core::Rank>& ranks) {
  std::vector<std::string> runs;
  std::size_t named = 0;
  for (auto at = ranks.begin(); at != ranks.end() && runs.size() < most_runs;) {
    const core::Rank first = *at;
    core::Rank last = first;
    for (; at != ranks.end() && at->value - last.value <= 1; ++at, ++named) last = *at;
    runs.push_back(first == last ? fmt::format("{}", first.value)
                                 : fmt::format("{}-{}", first.value, last.value));
  }
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  if (named < ranks.size()) return text + fmt::format("{} and more", fmt::join(runs, ", "));
  if (runs.size() < 2) return text + fmt::format("{}", fmt::join(runs, ""));
  const std::string last = runs.back();
  runs.pop_back();
  return text + fmt::format("{} and {}", fmt::join(runs, ", "), last);
}

std::string wait_text(const wire::Wait& wait) {
  std::string text = fmt::format("in {}", wait.call());
  if (!wait.stream().empty())
    text += fmt::format(" of stream '{}', step {}", wait.stream(), wait.step());
  if (wait.group().empty())
    text += wait.consumers() > 0 ? ", for a consumer" : ", for a producer";
  else if (wait.is_for_all_ranks())
    text += fmt::format(", for the other ranks of group '{}'", wait.group());
  else if (wait.ranks().empty())
    text += fmt::format(", for group '{}'", wait.group());
  else
    text += fmt::format(", for {} of group '{}'", ranks_text(ranks_of(wait)), wait.group());
  if (!wait.what().empty()) text += " " + wait.what();
  return text;
}

}  // namespace tremula::proto
