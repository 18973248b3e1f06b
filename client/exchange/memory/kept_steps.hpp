// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tremula::client {

/// The newest steps of a producer on one rank, for consumers that join later. Memory: for each kept
/// step a copy of every array that the rank puts, allocated when first needed; none for lent
/// arrays.
class KeptSteps {
public:
  /// @param count  number of steps kept; 0 keeps none
  /// @param lends  the arrays stay unchanged until their step is replaced, so they are not copied
  explicit KeptSteps(int count, bool lends = false)
      : lends_(lends), steps_(static_cast<std::size_t>(count)) {}

  /// Returns how many steps are kept.
  /// @param put  number of steps put so far
  std::uint64_t count(std::uint64_t put) const noexcept {
    return std::min<std::uint64_t>(put - forgotten_, steps_.size());
  }
  /// Drops every step put so far: lent arrays belong to the application again.
  /// @param put  number of steps put so far
  void forget(std::uint64_t put) noexcept { forgotten_ = put; }
  /// Keeps a field of `step`, replacing the same field of an older step.
  void put(std::uint64_t step, std::size_t field, std::span<const std::byte> local) {
    if (steps_.empty()) return;
    Step& kept = at(step);
    if (kept.arrays.size() <= field) kept.arrays.resize(field + 1), kept.copies.resize(field + 1);
    if (!lends_) kept.copies[field].assign(local.begin(), local.end());
    kept.arrays[field] = lends_ ? local : kept.copies[field];
  }
  /// Keeps the metadata of `step`: its time, its attributes and the counts of its changing fields.
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
    std::vector<std::vector<std::byte>> copies;      // shape: [field]; empty if the arrays are lent
    std::optional<std::int64_t> time;
    std::vector<std::byte> attributes;
    std::vector<std::vector<std::int64_t>> counts;  // of changing fields; shape: [field]
  };
  /// Returns a kept step.  @pre all of `step` was put, and it is one of the newest `count`
  const Step& get(std::uint64_t step) const { return steps_[step % steps_.size()]; }

private:
  Step& at(std::uint64_t step) { return steps_[step % steps_.size()]; }
  bool lends_;
  std::vector<Step> steps_;
  std::uint64_t forgotten_ = 0;
};

}  // namespace tremula::client
