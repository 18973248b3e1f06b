// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sleeps until another process has changed shared memory, or something has arrived over a wire.
// With more busy ranks than cores, a rank that sleeps gives its core to a rank that works; a loop
// of sched_yield does not.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>

namespace tremula::transport::local {

/// A counter in memory that processes share, and a flag for a process that sleeps on it. Has one
/// writer.
struct alignas(64) WaitCounter {
  std::atomic<std::uint64_t> count{0};
  std::atomic<std::uint32_t> is_slept_on{0};

  /// Publishes a new count, and wakes the process that sleeps on the counter.
  void show(std::uint64_t value) noexcept;
};

/// An event that a process waits for: a counter has changed since it was seen, or a descriptor has
/// become readable. With neither, the event cannot end a sleep and has to be polled.
struct WaitWord {
  WaitCounter* counter = nullptr;
  std::uint64_t seen = 0;
  int descriptor = -1;
};

/// Sleeps until one of the counters has changed or, if there are no counters, until one of the
/// descriptors has become readable; may return earlier.
/// @param most            longest sleep
/// @param most_by_events  longest sleep if all of `words` are descriptors
/// @return false immediately if the system cannot sleep this way, or if no event could end the sleep
bool sleep_on(std::span<const WaitWord> words, std::chrono::microseconds most,
              std::chrono::microseconds most_by_events) noexcept;

}  // namespace tremula::transport::local
