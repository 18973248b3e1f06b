// SPDX-License-Identifier: Apache-2.0
#include "index_calc/relabel/process_classes.hpp"

#include <algorithm>

namespace tremula::index_calc {

ProcessClasses::ProcessClasses(const std::vector<RankCount>& place_of) : places_(place_of) {
  std::ranges::sort(places_);
  const auto [first, last] = std::ranges::unique(places_);
  places_.erase(first, last);
  processes_.resize(places_.size());
  for (const Rank rank : core::all_ranks(static_cast<RankCount>(place_of.size()))) {
    const auto k = std::ranges::lower_bound(places_, place_of[core::at(rank)]) - places_.begin();
    processes_[static_cast<std::size_t>(k)].push_back(rank);
    of_.push_back(static_cast<RankCount>(k));
  }
}

std::vector<RankCount> ProcessClasses::sizes() const {
  std::vector<RankCount> sizes;
  sizes.reserve(processes_.size());
  for (const auto& processes : processes_)
    sizes.push_back(static_cast<RankCount>(processes.size()));
  return sizes;
}

std::optional<RankCount> ProcessClasses::at(RankCount place) const {
  const auto found = std::ranges::lower_bound(places_, place);
  if (found == places_.end() || *found != place) return std::nullopt;
  return static_cast<RankCount>(found - places_.begin());
}

std::vector<Rank> ProcessClasses::processes_for(
    const std::vector<RankCount>& class_of_label) const {
  std::vector<std::vector<Rank>> free(
      processes_.size());  // processes that do not keep their label, descending
  for (std::size_t j = of_.size(); j-- > 0;)
    if (class_of_label[j] != of_[j])
      free[static_cast<std::size_t>(of_[j])].push_back(core::to_rank(j));
  std::vector<Rank> process;
  process.reserve(of_.size());
  for (const Rank rank : core::all_ranks(static_cast<RankCount>(of_.size()))) {
    const RankCount wanted = class_of_label[core::at(rank)];
    if (wanted == of_[core::at(rank)]) {
      process.push_back(rank);
      continue;
    }
    auto& candidates = free[static_cast<std::size_t>(wanted)];
    process.push_back(candidates.back());
    candidates.pop_back();
  }
  return process;
}

}  // namespace tremula::index_calc
