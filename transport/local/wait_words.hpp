// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a process sleeps until another one has changed shared memory, or something has come over a wire:
// with more busy ranks than cores, a rank that waits gives its core to the one that works, which a loop
// of sched_yield does not.
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

/// What a process waits for: that a counter is no longer as it was seen, or that a descriptor can be
/// read. With neither: something that tells nobody, and has to be looked at.
struct WaitWord {
  WaitCounter* counter = nullptr;
  std::uint64_t seen = 0;
  int descriptor = -1;
};

/// Sleeps until one of the counters has changed, or one of the descriptors can be read; may return
/// before.
/// @param most     for which it sleeps at most
/// @param most_by_events  for which it does if descriptors are all that there is
/// @return false at once if the system cannot, or there is nothing that could end the sleep
bool sleep_on(std::span<const WaitWord> words, std::chrono::microseconds most,
              std::chrono::microseconds most_by_events) noexcept;

}  // namespace tremula::transport::local
