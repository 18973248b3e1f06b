// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tremula::client {

/// The newest steps of a producer on one rank, for consumers that come later. Memory: as many copies of
/// all arrays that the rank puts, made when each is needed first; none of what is lent.
class KeptSteps {
public:
  /// @param count  steps kept; 0: none
  /// @param lends  the arrays stay as they are until the step is replaced
  explicit KeptSteps(int count, bool lends = false)
      : lends_(lends), steps_(static_cast<std::size_t>(count)) {}

  /// @param put  steps that were
  /// @return how many of them are kept
  std::uint64_t count(std::uint64_t put) const noexcept {
    return std::min<std::uint64_t>(put - forgotten_, steps_.size());
  }
  /// None of the steps that were put is kept any more: what was lent is the application's again.
  /// @param put  steps that were
  void forget(std::uint64_t put) noexcept { forgotten_ = put; }
  /// Keeps a field of `step`, in the place of that of an older step.
  void put(std::uint64_t step, std::size_t field, std::span<const std::byte> local) {
    if (steps_.empty()) return;
    Step& kept = at(step);
    if (kept.arrays.size() <= field) kept.arrays.resize(field + 1), kept.copies.resize(field + 1);
    if (!lends_) kept.copies[field].assign(local.begin(), local.end());
    kept.arrays[field] = lends_ ? local : kept.copies[field];
  }
  /// The same of what is told beside the arrays.
  void put(std::uint64_t step, std::optional<std::int64_t> time,
           std::span<const std::byte> attributes,
           std::span<const std::vector<std::int64_t>> counts) {
    if (steps_.empty()) return;
    at(step).time = time;
    at(step).counts.assign(counts.begin(), counts.end());
    at(step).attributes.assign(attributes.begin(), attributes.end());
  }
  struct Step {
    std::vector<std::span<const std::byte>> arrays;  // shape: [field]
    std::vector<std::vector<std::byte>> copies;      // likewise; empty if they are lent
    std::optional<std::int64_t> time;
    std::vector<std::byte> attributes;
    std::vector<std::vector<std::int64_t>> counts;  // of fields that change; shape: [field]
  };
  /// @pre the step was put whole, and is one of the newest
  const Step& get(std::uint64_t step) const { return steps_[step % steps_.size()]; }

private:
  Step& at(std::uint64_t step) { return steps_[step % steps_.size()]; }
  bool lends_;
  std::vector<Step> steps_;
  std::uint64_t forgotten_ = 0;
};

}  // namespace tremula::client
