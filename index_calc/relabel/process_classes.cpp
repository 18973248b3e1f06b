// SPDX-License-Identifier: Apache-2.0
#include "index_calc/relabel/process_classes.hpp"

#include <algorithm>

namespace tremula::index_calc {

ProcessClasses::ProcessClasses(const std::vector<Rank>& place_of) : places_(place_of) {
  std::ranges::sort(places_);
  const auto [first, last] = std::ranges::unique(places_);
  places_.erase(first, last);
  processes_.resize(places_.size());
  for (const Rank place : place_of) {
    const auto k = std::ranges::lower_bound(places_, place) - places_.begin();
    processes_[static_cast<std::size_t>(k)].push_back(static_cast<Rank>(of_.size()));
    of_.push_back(static_cast<Rank>(k));
  }
}

std::vector<Rank> ProcessClasses::sizes() const {
  std::vector<Rank> sizes;
  sizes.reserve(processes_.size());
  for (const auto& processes : processes_) sizes.push_back(static_cast<Rank>(processes.size()));
  return sizes;
}

std::optional<Rank> ProcessClasses::at(Rank place) const {
  const auto found = std::ranges::lower_bound(places_, place);
  if (found == places_.end() || *found != place) return std::nullopt;
  return static_cast<Rank>(found - places_.begin());
}

std::vector<Rank> ProcessClasses::processes_for(const std::vector<Rank>& class_of_label) const {
  std::vector<std::vector<Rank>> free(
      processes_.size());  // processes that do not keep their label, descending
  for (std::size_t j = of_.size(); j-- > 0;)
    if (class_of_label[j] != of_[j])
      free[static_cast<std::size_t>(of_[j])].push_back(static_cast<Rank>(j));
  std::vector<Rank> process;
  process.reserve(of_.size());
  for (std::size_t r = 0; r < of_.size(); ++r) {
    if (class_of_label[r] == of_[r]) {
      process.push_back(static_cast<Rank>(r));
      continue;
    }
    auto& candidates = free[static_cast<std::size_t>(class_of_label[r])];
    process.push_back(candidates.back());
    candidates.pop_back();
  }
  return process;
}

}  // namespace tremula::index_calc
