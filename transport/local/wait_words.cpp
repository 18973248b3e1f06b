// SPDX-License-Identifier: Apache-2.0
#include "transport/local/wait_words.hpp"

#include <linux/futex.h>
#include <poll.h>
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

/// The kernel's struct futex_waitv, for older headers.
struct Waiter {
  std::uint64_t value = 0, address = 0;
  std::uint32_t flags = 2;  // a word of 32 bits, shared between processes
  std::uint32_t reserved = 0;
};
constexpr std::size_t most_words = 128;

/// Returns the lower half of the counter, which changes with every count.
std::uint32_t* word_of(std::atomic<std::uint64_t>& count) noexcept {
  constexpr std::size_t low = std::endian::native == std::endian::little ? 0 : 1;
  return reinterpret_cast<std::uint32_t*>(&count) + low;
}

/// Sleeps on the descriptors among the words.  @pre no word has a counter
bool poll_on(std::span<const WaitWord> words, std::chrono::microseconds most,
             std::chrono::microseconds most_by_events) noexcept {
  std::array<pollfd, most_words> descriptors;
  std::size_t count = 0;
  for (const WaitWord& word : words)
    if (word.descriptor >= 0 && count < most_words)
      descriptors[count++] = {.fd = word.descriptor, .events = POLLIN, .revents = 0};
  if (count == 0) return false;
  const auto longest = count == words.size() ? most_by_events : most;
  const timespec time{.tv_sec = longest.count() / 1000000,
                      .tv_nsec = longest.count() % 1000000 * 1000};
  return ppoll(descriptors.data(), count, &time, nullptr) >= 0 || errno == EINTR;
}

}  // namespace

void WaitCounter::show(std::uint64_t value) noexcept {
  // Cleared before the count is published: a process that falls asleep afterwards sets the flag
  // again, and then either that process sees the count or this one sees the flag.
  const bool was_slept_on =
      is_slept_on.load(std::memory_order_relaxed) != 0 && is_slept_on.exchange(0) != 0;
  count.store(value, std::memory_order_seq_cst);
  if (!was_slept_on && is_slept_on.load(std::memory_order_seq_cst) == 0) return;
  syscall(SYS_futex, word_of(count), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool sleep_on(std::span<const WaitWord> words, std::chrono::microseconds most,
              std::chrono::microseconds most_by_events) noexcept {
  const auto has_counter = [](const WaitWord& word) { return word.counter != nullptr; };
  if (std::ranges::none_of(words, has_counter)) return poll_on(words, most, most_by_events);
  std::array<Waiter, most_words> waiters;
  std::size_t count = 0;
  for (const WaitWord& word : words) {
    if (!has_counter(word) || count == most_words) continue;
    WaitCounter& counter = *word.counter;
    counter.is_slept_on.store(1, std::memory_order_seq_cst);
    if (counter.count.load(std::memory_order_seq_cst) != word.seen) return true;
    waiters[count].value = static_cast<std::uint32_t>(word.seen);
    waiters[count++].address = reinterpret_cast<std::uint64_t>(word_of(counter.count));
  }
  timespec until{};
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += static_cast<long>(most.count() * 1000);
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  const long result = syscall(SYS_futex_waitv, waiters.data(), count, 0, &until, CLOCK_MONOTONIC);
  // Any other result means that the system lacks the call or forbids it, e.g. by a seccomp
  // filter.
  return result >= 0 || errno == ETIMEDOUT || errno == EAGAIN || errno == EINTR;
}

}  // namespace tremula::transport::local
