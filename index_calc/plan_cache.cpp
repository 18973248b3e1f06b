// SPDX-License-Identifier: Apache-2.0
#include "index_calc/plan_cache.hpp"

namespace tremula::index_calc {

namespace {

/// Without what a plan does not depend on.
Layout seen_by_a_plan(Layout layout) {
  layout.ghost.clear();
  layout.leading = 0;
  return layout;
}

}  // namespace

std::shared_ptr<const Plan> PlanCache::get(const Layout& mine, const Layout& theirs, Rank me,
                                           const PlanOptions& options) {
  const Key key{fingerprint(mine), fingerprint(theirs), me, options};
  Entry entry{seen_by_a_plan(mine), seen_by_a_plan(theirs), nullptr};
  const auto known = plans_.find(key);
  if (known != plans_.end() && known->second.mine == entry.mine &&
      known->second.theirs == entry.theirs) {
    ++hits_;
    return known->second.plan;
  }
  entry.plan = std::make_shared<const Plan>(options.validate
                                                ? make_validated_plan(mine, theirs, me)
                                                : make_plan(mine, theirs, me, options.algorithm));
  forget_idle_plans();
  return plans_.insert_or_assign(key, std::move(entry)).first->second.plan;
}

void PlanCache::forget_idle_plans() {
  if (plans_.size() < most_idle_plans) return;
  std::erase_if(plans_, [](const auto& entry) { return entry.second.plan.use_count() == 1; });
}

}  // namespace tremula::index_calc
