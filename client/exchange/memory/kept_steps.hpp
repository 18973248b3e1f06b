// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
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
    auto& fields = steps_[step % steps_.size()];
    if (fields.size() <= field) fields.resize(field + 1);
    fields[field].assign(local.begin(), local.end());
  }
  /// @pre the step was put whole, and is one of the newest
  std::span<const std::byte> get(std::uint64_t step, std::size_t field) const {
    return steps_[step % steps_.size()][field];
  }

private:
  std::vector<std::vector<std::vector<std::byte>>> steps_;  // shape: [step][field][byte]
};

}  // namespace tremula::client
