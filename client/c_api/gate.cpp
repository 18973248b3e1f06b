// SPDX-License-Identifier: Apache-2.0
#include "client/c_api/gate.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <utility>

#include "core/error.hpp"

namespace tremula::client {

namespace {
std::size_t page_bytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }
}  // namespace

HomeProcess::HomeProcess() : pid_(getpid()) {
  void* const page = mmap(nullptr, page_bytes(), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, /*offset=*/0);
  if (page == MAP_FAILED) return;
  if (madvise(page, page_bytes(), MADV_WIPEONFORK) != 0) {  // Linux before 4.14
    munmap(page, page_bytes());
    return;
  }
  *static_cast<char*>(page) = 1;
  mark_ = static_cast<const volatile char*>(page);
}

HomeProcess::~HomeProcess() {
  if (mark_ != nullptr) munmap(const_cast<char*>(mark_), page_bytes());
}

bool HomeProcess::is_here() const noexcept {
  return mark_ != nullptr ? *mark_ != 0 : getpid() == pid_;
}

Gate::Gate(std::string owner, std::function<void()> check)
    : owner_(std::move(owner)), check_(std::move(check)) {}

Gate::Entry Gate::enter() {
  core::expects(is_at_home(), [this] {
    return fmt::format(
        "{}: expected a call from process {}, which opened it; found one from process {}, a child "
        "that was forked later: fork before a session is opened, or open another session in the "
        "child",
        owner_, home_.pid(), getpid());
  });
  core::expects(!is_taken_.exchange(true, std::memory_order_acquire), [this] {
    return fmt::format(
        "{}: expected one call at a time, over all its streams; found a second one before the "
        "first has returned: let one thread make the calls, put a lock around them, or open a "
        "session of another group for the other thread",
        owner_);
  });
  try {
    check_();
  } catch (...) {
    is_taken_.store(false, std::memory_order_release);
    throw;
  }
  return Entry(*this);
}

void Gate::leave() noexcept {
  const auto later = std::exchange(later_, {});
  inside_.store({}, std::memory_order_relaxed);
  is_taken_.store(false, std::memory_order_release);
  for (const auto& work : later) work();
}

Gate::Entry Gate::enter_to_free() noexcept {
  while (is_taken_.exchange(true, std::memory_order_acquire))
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  return Entry(*this);
}

}  // namespace tremula::client
