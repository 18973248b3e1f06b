// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sched.h>
#include <time.h>

#include <chrono>
#include <utility>

#include "core/deadline.hpp"

namespace tremula::client {

/// Result of one poll of the event that a rank waits for.
enum class Polled {
  nothing,
  moved,  ///< the event has not occurred, but data on its way has moved: the rank must not sleep yet
  done,
};
constexpr Polled polled(bool is_done) { return is_done ? Polled::done : Polled::nothing; }
constexpr Polled polled(Polled p) { return p; }

/// How long a rank stays awake after data has moved: about the time that a peer takes to copy a
/// chunk or two, and less than falling asleep and waking up would cost.
inline constexpr std::chrono::microseconds awake_after_move{50};
/// How often to poll sources that cannot wake this rank.
inline constexpr std::chrono::microseconds longest_sleep{200};
/// Poll interval when every event source except the server connection can wake this rank.
inline constexpr std::chrono::microseconds longest_sleep_by_events{2000};

/// Repeats `poll` until it returns true (or `done`) or the deadline has passed. Spins for a moment, then
/// yields to other threads, then sleeps up to 0.1 ms at a time, so that waiting ranks do not take the cores
/// from computing ones.
/// @param sleep       sleeps for a moment, until the event may have occurred; returns false if it cannot
/// @param is_patient  called every 20 ms once the wait has lasted 20 ms; may throw to end the wait
/// @return            seconds waited, and whether poll returned true
template <class Poll, class Patient, class Sleep>
std::pair<double, bool> wait_for(Poll&& poll, core::Deadline deadline, Patient&& is_patient,
                                 Sleep&& sleep) {
  using Clock = core::Deadline::Clock;
  if (polled(poll()) == Polled::done) return {0.0, true};
  const auto start = Clock::now();
  if (start >= deadline.at()) return {0.0, false};
  auto idle_since = start;
  bool has_moved = false;
  auto next_call = start + std::chrono::milliseconds(20);
  for (long turn = 1;; ++turn) {
    const Polled now_is = polled(poll());
    if (now_is == Polled::done)
      return {core::Deadline::Seconds(Clock::now() - start).count(), true};
    has_moved = has_moved || now_is == Polled::moved;
    if (turn < 50) continue;
    auto now = Clock::now();
    if (std::exchange(has_moved, false)) idle_since = now;
    const bool has_slept = now - idle_since > awake_after_move && sleep();
    if (!has_slept) sched_yield();
    if (!has_slept && turn % 16 != 0) continue;
    now = Clock::now();
    if (now >= next_call) {
      is_patient();
      next_call = now + std::chrono::milliseconds(20);
    }
    if (now >= deadline.at()) return {core::Deadline::Seconds(now - start).count(), false};
    if (!has_slept && now - idle_since > std::chrono::milliseconds(2)) {
      const bool is_long = now - idle_since > std::chrono::milliseconds(50);
      const timespec nap{.tv_sec = 0, .tv_nsec = is_long ? 100000 : 20000};
      nanosleep(&nap, nullptr);
    }
  }
}

template <class Poll, class Patient>
std::pair<double, bool> wait_for(Poll&& poll, core::Deadline deadline, Patient&& is_patient) {
  return wait_for(poll, deadline, is_patient, [] { return false; });
}

}  // namespace tremula::client
