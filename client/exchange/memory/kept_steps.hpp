// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tremula::client {

/// Copies of the newest steps of a producer on one rank, for consumers that come later. Memory: as many
/// copies of all arrays that the rank puts, made when each is needed first.
class KeptSteps {
public:
  /// @param count  steps kept; 0: none
  explicit KeptSteps(int count) : steps_(static_cast<std::size_t>(count)) {}

  /// @return how many steps before `end` are kept at most
  std::uint64_t count_before(std::uint64_t end) const noexcept {
    return std::min<std::uint64_t>(end, steps_.size());
  }
  /// Takes a copy of a field of `step`, in the place of that of an older step.
  void put(std::uint64_t step, std::size_t field, std::span<const std::byte> local) {
    if (steps_.empty()) return;
    auto& arrays = at(step).arrays;
    if (arrays.size() <= field) arrays.resize(field + 1);
    arrays[field].assign(local.begin(), local.end());
  }
  /// The same of what is told beside the arrays.
  void put(std::uint64_t step, std::optional<std::int64_t> time,
           std::span<const std::byte> attributes) {
    if (steps_.empty()) return;
    at(step).time = time;
    at(step).attributes.assign(attributes.begin(), attributes.end());
  }
  struct Step {
    std::vector<std::vector<std::byte>> arrays;  // shape: [field][byte]
    std::optional<std::int64_t> time;
    std::vector<std::byte> attributes;
  };
  /// @pre the step was put whole, and is one of the newest
  const Step& get(std::uint64_t step) const { return steps_[step % steps_.size()]; }

private:
  Step& at(std::uint64_t step) { return steps_[step % steps_.size()]; }
  std::vector<Step> steps_;
};

}  // namespace tremula::client
