// SPDX-License-Identifier: Apache-2.0
#pragma once
// A cache of plans: a stream that is opened again with the same layouts finds its plans there.
#include <cstdint>
#include <map>
#include <memory>

#include "index_calc/plan/plan.hpp"

namespace tremula::index_calc {

/// How a plan is made.
struct PlanOptions {
  Algorithm algorithm = Algorithm::aspen;
  bool validate = false;  ///< whether it is made by make_validated_plan
  Role role = Role::source;
  friend auto operator<=>(const PlanOptions&, const PlanOptions&) = default;
};

/// Keeps plans, found by the fingerprints of both layouts, the rank and the options. Not
/// thread-safe.
class PlanCache {
public:
  /// Largest number of bytes that all plans not in use may hold together; forget_idle() drops
  /// further plans, beginning with those unused for longest.
  static constexpr std::size_t most_idle_bytes = std::size_t{16} << 20;

  PlanCache() = default;
  /// @param hosts  hosts for which all plans are made, as for make_plan; must outlive this object
  explicit PlanCache(const Hosts& hosts) : hosts_(hosts) {}

  /// Returns what make_plan or make_validated_plan returns for these arguments; only the first call
  /// makes the plan. Calls forget_idle() whenever the plans hold twice the bytes that they held
  /// after its last call, so that making n plans looks at O(n) others.
  /// @throws core::Error as make_plan and make_validated_plan do
  /// Cost of a known plan: the fingerprints, a look-up and a comparison of the layouts. No layout
  /// is copied.
  std::shared_ptr<const Plan> get(const Layout& mine, const Layout& theirs, Rank me,
                                  const PlanOptions& options = {});

  /// Drops the plans that have been unused for longest, until all plans that are not in use hold at
  /// most most_idle_bytes. Call it when plans may no longer be in use.  O(plans)
  void forget_idle();

  std::size_t size() const noexcept { return plans_.size(); }
  std::uint64_t hits() const noexcept { return hits_; }
  /// Returns how many plans forget_idle() has looked at, over all calls.
  std::uint64_t looks() const noexcept { return looks_; }

private:
  struct Key {
    std::uint64_t mine, theirs;
    Rank me;
    PlanOptions options;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Entry {
    Layout mine, theirs;  ///< without ghost and leading; compared, because fingerprints may collide
    std::shared_ptr<const Plan> plan;
    std::uint64_t last_use = 0;
    std::size_t bytes = 0;  ///< held by the plan and both layouts
  };

  Hosts hosts_;
  std::map<Key, Entry> plans_;
  std::size_t bytes_ = 0;                        // held by all plans
  std::size_t look_at_bytes_ = most_idle_bytes;  // bytes_ beyond which to call forget_idle()
  std::uint64_t hits_ = 0, uses_ = 0, looks_ = 0;
};

}  // namespace tremula::index_calc
