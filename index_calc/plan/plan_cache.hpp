// SPDX-License-Identifier: Apache-2.0
#pragma once
// Plans that were made before: streams that come again with the same layouts find theirs here.
#include <cstdint>
#include <map>
#include <memory>

#include "index_calc/plan/plan.hpp"

namespace tremula::index_calc {

/// How a plan is made.
struct PlanOptions {
  Algorithm algorithm = Algorithm::aspen;
  bool validate = false;  ///< make_validated_plan
  Role role = Role::source;
  friend auto operator<=>(const PlanOptions&, const PlanOptions&) = default;
};

/// Keyed by the fingerprints of both layouts, the rank and the options. Not thread-safe.
class PlanCache {
public:
  /// Plans that are in use nowhere may hold so many bytes in all; forget_idle() forgets what exceeds
  /// them, the longest unused first.
  static constexpr std::size_t most_idle_bytes = std::size_t{16} << 20;

  PlanCache() = default;
  /// @param hosts  that all its plans are made for, as make_plan; outlive it
  explicit PlanCache(const Hosts& hosts) : hosts_(hosts) {}

  /// The plan of make_plan, made at the first call for these arguments.
  /// @throws core::Error as make_plan and make_validated_plan
  /// Cost of a plan that is known: the fingerprints, a comparison of the layouts and a look-up; no
  /// layout is copied. It calls forget_idle() whenever the plans hold twice the bytes that they held
  /// after the last time, so that n plans look at O(n) others.
  std::shared_ptr<const Plan> get(const Layout& mine, const Layout& theirs, Rank me,
                                  const PlanOptions& options = {});

  /// To be called when plans may have fallen out of use.  O(plans)
  void forget_idle();

  std::size_t size() const noexcept { return plans_.size(); }
  std::uint64_t hits() const noexcept { return hits_; }
  /// Plans that forget_idle() has looked at, all calls together.
  std::uint64_t looks() const noexcept { return looks_; }

private:
  struct Key {
    std::uint64_t mine, theirs;
    Rank me;
    PlanOptions options;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Entry {
    Layout mine, theirs;  ///< without ghost and leading: two layouts may share a fingerprint
    std::shared_ptr<const Plan> plan;
    std::uint64_t last_use = 0;
    std::size_t bytes = 0;  ///< of all this
  };

  Hosts hosts_;
  std::map<Key, Entry> plans_;
  std::size_t bytes_ = 0, look_at_bytes_ = most_idle_bytes;  // of all plans; at which to look again
  std::uint64_t hits_ = 0, uses_ = 0, looks_ = 0;
};

}  // namespace tremula::index_calc
