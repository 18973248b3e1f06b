// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sched.h>
#include <time.h>

#include <utility>

#include "core/deadline.hpp"

namespace tremula::client {

/// Repeats `poll` until it says true or the deadline has passed. Spins a moment, then lets others
/// run, then sleeps up to 0.1 ms at a time, so that waiting ranks do not take the cores from
/// computing ones.
/// @param is_patient  called now and then once the wait has become long (20 ms); may throw to end
/// it
/// @return            seconds waited, and whether poll said true
template <class Poll, class Patient>
std::pair<double, bool> wait_for(Poll&& poll, core::Deadline deadline, Patient&& is_patient) {
  using Clock = core::Deadline::Clock;
  if (poll()) return {0.0, true};
  const auto start = Clock::now();
  auto next_call = start + std::chrono::milliseconds(20);
  for (long turn = 1;; ++turn) {
    if (poll()) return {core::Deadline::Seconds(Clock::now() - start).count(), true};
    if (turn < 50) continue;
    sched_yield();
    if (turn % 16 != 0) continue;
    const auto now = Clock::now();
    if (now >= next_call) {
      is_patient();
      next_call = now + std::chrono::milliseconds(20);
      if (deadline.expired()) return {core::Deadline::Seconds(now - start).count(), false};
    }
    if (now - start > std::chrono::milliseconds(2)) {
      const timespec nap{.tv_sec = 0,
                         .tv_nsec = now - start > std::chrono::milliseconds(50) ? 100000 : 20000};
      nanosleep(&nap, nullptr);
    }
  }
}

}  // namespace tremula::client
