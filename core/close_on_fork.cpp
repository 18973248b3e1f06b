// SPDX-License-Identifier: Apache-2.0
#include "core/close_on_fork.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace tremula::core {

namespace {

constexpr std::size_t bits = 64, words = (std::size_t{1} << 20) / bits;

// Process-wide, as descriptors are, because a child runs only the handler below, which has no argument.
// Atomic words instead of a lock, because another thread may be changing them during the fork.
constinit std::array<std::atomic<std::uint64_t>, words> marked{};
constinit std::atomic<std::size_t> used = 0;  // how many words may have a bit set

/// Closes the marked descriptors. Runs in a child; calls only functions that are safe in a signal
/// handler.
void close_marked() {
  for (std::size_t word = 0, end = used.load(); word < end; ++word)
    for (std::uint64_t rest = marked[word].exchange(0); rest != 0; rest &= rest - 1)
      ::close(static_cast<int>(word * bits + static_cast<std::size_t>(std::countr_zero(rest))));
}

bool is_in_range(int descriptor) noexcept {
  return descriptor >= 0 && static_cast<std::size_t>(descriptor) < words * bits;
}

}  // namespace

void set_close_on_fork(int descriptor) noexcept {
  if (descriptor < 0) return;  // keeps the errno of the call that has failed to make one
  ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  static const int registered = pthread_atfork(nullptr, nullptr, close_marked);
  if (registered != 0 || !is_in_range(descriptor)) return;
  const auto number = static_cast<std::size_t>(descriptor);
  marked[number / bits].fetch_or(std::uint64_t{1} << number % bits);
  for (std::size_t known = used.load(); known <= number / bits;)
    if (used.compare_exchange_weak(known, number / bits + 1)) break;
}

void clear_close_on_fork(int descriptor) noexcept {
  if (!is_in_range(descriptor)) return;
  const auto number = static_cast<std::size_t>(descriptor);
  marked[number / bits].fetch_and(~(std::uint64_t{1} << number % bits));
}

}  // namespace tremula::core
