// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <chrono>

namespace tremula::core {

/// The moment at which a wait gives up. Every function that waits takes one.
class Deadline {
public:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;

  /// Returns the deadline that is `seconds` from now.
  /// @param seconds  more than ten years count as ten years, negative values and NaN as 0
  static Deadline after(double seconds) {
    const double within = seconds > 0 ? std::min(seconds, 3.2e8) : 0;
    return Deadline(Clock::now() + std::chrono::duration_cast<Clock::duration>(Seconds(within)));
  }
  bool expired() const { return Clock::now() >= at_; }
  /// Returns the seconds left; 0 when expired.
  double remaining() const { return std::max(0.0, Seconds(at_ - Clock::now()).count()); }
  Clock::time_point at() const { return at_; }

private:
  explicit Deadline(Clock::time_point at) : at_(at) {}
  Clock::time_point at_;
};

}  // namespace tremula::core
