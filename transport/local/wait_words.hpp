// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a process sleeps until another one has changed shared memory: with more busy ranks than cores, a
// rank that waits gives its core to the one that works, which a loop of sched_yield does not.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>

namespace tremula::transport::local {

/// A counter in memory that processes share, and whether one of them sleeps on it. One writer.
struct alignas(64) WaitCounter {
  std::atomic<std::uint64_t> count{0};
  std::atomic<std::uint32_t> is_slept_on{0};

  /// Shows a new count, and wakes the process that sleeps on it.
  void show(std::uint64_t value) noexcept;
};

/// What a process waits for: that a counter is no longer as it was seen.
struct WaitWord {
  WaitCounter* counter = nullptr;
  std::uint64_t seen = 0;
};

/// Sleeps until one of the counters has changed, at most that long; may return before.
/// @return false at once if the system cannot, or there is nothing to wait for
bool sleep_on(std::span<const WaitWord> words, std::chrono::microseconds most) noexcept;

}  // namespace tremula::transport::local
