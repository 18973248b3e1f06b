// SPDX-License-Identifier: Apache-2.0
#include "transport/local/wait_words.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <climits>

namespace tremula::transport::local {

namespace {

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449  // since Linux 5.16
#endif

/// As the kernel has it, for headers that are older.
struct Waiter {
  std::uint64_t value = 0, address = 0;
  std::uint32_t flags = 2;  // a word of 32 bits, shared between processes
  std::uint32_t reserved = 0;
};
constexpr std::size_t most_words = 128;

/// The half of the counter that changes.
std::uint32_t* word_of(std::atomic<std::uint64_t>& count) noexcept {
  constexpr std::size_t low = std::endian::native == std::endian::little ? 0 : 1;
  return reinterpret_cast<std::uint32_t*>(&count) + low;
}

}  // namespace

void WaitCounter::show(std::uint64_t value) noexcept {
  count.store(value, std::memory_order_seq_cst);
  if (is_slept_on.load(std::memory_order_seq_cst) == 0) return;
  is_slept_on.store(0, std::memory_order_relaxed);
  syscall(SYS_futex, word_of(count), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool sleep_on(std::span<const WaitWord> words, std::chrono::microseconds most) noexcept {
  if (words.empty()) return false;
  std::array<Waiter, most_words> waiters;
  const std::size_t count = std::min(words.size(), most_words);
  for (std::size_t i = 0; i < count; ++i) {
    WaitCounter& counter = *words[i].counter;
    counter.is_slept_on.store(1, std::memory_order_seq_cst);
    if (counter.count.load(std::memory_order_seq_cst) != words[i].seen) return true;
    waiters[i].value = static_cast<std::uint32_t>(words[i].seen);
    waiters[i].address = reinterpret_cast<std::uint64_t>(word_of(counter.count));
  }
  timespec until{};
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += static_cast<long>(most.count() * 1000);
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  const long result = syscall(SYS_futex_waitv, waiters.data(), count, 0, &until, CLOCK_MONOTONIC);
  return result >= 0 || errno != ENOSYS;
}

}  // namespace tremula::transport::local
