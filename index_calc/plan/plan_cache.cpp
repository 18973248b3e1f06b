// SPDX-License-Identifier: Apache-2.0
#include "index_calc/plan/plan_cache.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace tremula::index_calc {

namespace {

/// Returns whether the two layouts have the same plans.
bool are_alike(const Layout& a, const Layout& b) {
  return a.kind() == b.kind() && a.ranks() == b.ranks() && a.storage().order == b.storage().order;
}

}  // namespace

std::shared_ptr<const Plan> PlanCache::get(const Layout& mine, const Layout& theirs, Rank me,
                                           const PlanOptions& options) {
  const Key key{fingerprint(mine), fingerprint(theirs), me, options};
  const auto known = plans_.find(key);
  if (known != plans_.end() && are_alike(known->second.mine, mine) &&
      are_alike(known->second.theirs, theirs)) {
    ++hits_;
    known->second.last_use = ++uses_;
    return known->second.plan;
  }
  Entry entry{mine.dense(), theirs.dense(), nullptr, 0, 0};
  entry.plan = std::make_shared<const Plan>(
      options.validate ? make_validated_plan(mine, theirs, me, options.role, hosts_)
                       : make_plan(mine, theirs, me, options.role, options.algorithm, hosts_));
  entry.last_use = ++uses_;
  entry.bytes = entry.plan->memory_bytes() + memory_bytes(entry.mine) + memory_bytes(entry.theirs);
  const auto plan = entry.plan;  // in use
  if (known != plans_.end()) bytes_ -= known->second.bytes;
  bytes_ += entry.bytes;
  plans_.insert_or_assign(key, std::move(entry));
  if (bytes_ > look_at_bytes_) forget_idle();
  return plan;
}

void PlanCache::forget_idle() {
  std::vector<std::pair<std::uint64_t, Key>> idle;  // by last use
  std::size_t bytes = 0;
  looks_ += plans_.size();
  for (const auto& [key, entry] : plans_) {
    if (entry.plan.use_count() > 1) continue;
    idle.emplace_back(entry.last_use, key);
    bytes += entry.bytes;
  }
  std::ranges::sort(idle);
  for (auto oldest = idle.begin(); bytes > most_idle_bytes; ++oldest) {
    const auto gone = plans_.find(oldest->second);
    bytes -= gone->second.bytes;
    bytes_ -= gone->second.bytes;
    plans_.erase(gone);
  }
  look_at_bytes_ = std::max(2 * bytes_, most_idle_bytes);
}

}  // namespace tremula::index_calc
