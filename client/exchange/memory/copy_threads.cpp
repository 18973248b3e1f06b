// SPDX-License-Identifier: Apache-2.0
#include "client/exchange/memory/copy_threads.hpp"

#include <fmt/format.h>

#include <string>
#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "core/thread.hpp"

namespace tremula::client {

using core::Index, index_calc::Stretch;

CopyThreads::CopyThreads(int count, std::size_t least_bytes) : least_bytes_(least_bytes) {
  std::string refused;
  try {
    for (int i = 1; i < count; ++i) threads_.push_back(core::start_thread([this] { work(); }));
  } catch (const std::system_error& e) {
    refused = e.what();
  }
  if (refused.empty()) return;
  const std::size_t started = threads_.size() + 1;
  end();
  throw core::Error(
      core::Errc::internal,
      fmt::format("copy_threads: expected {} threads, found that only {} could be started "
                  "({}); ask for fewer",
                  count, started, refused));
}

void CopyThreads::end() {
  {
    const std::scoped_lock lock(mutex_);
    is_ended_ = true;
  }
  changed_.notify_all();
  for (auto& thread : threads_) thread.join();
}

Stretch CopyThreads::stretch(Index i) const {
  // Whole elements, one more in the first ones.
  const Index each = whole_.count / stretches_, more = whole_.count % stretches_;
  return {.first = whole_.first + i * each + std::min(i, more), .count = each + (i < more ? 1 : 0)};
}

void CopyThreads::take_stretches(std::unique_lock<std::mutex>& lock) {
  while (next_ < stretches_) {
    const Stretch mine = stretch(next_++);
    const Function& copy = *copy_;
    lock.unlock();
    std::exception_ptr failure;
    try {
      copy(mine);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure) failure_ = failure;
    if (++done_ == stretches_) changed_.notify_all();
  }
}

void CopyThreads::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_ended_ || next_ < stretches_; });
    if (is_ended_) return;
    take_stretches(lock);
  }
}

void CopyThreads::share(Stretch whole, std::size_t among, const Function& copy) {
  std::unique_lock lock(mutex_);
  copy_ = &copy;
  whole_ = whole;
  stretches_ = static_cast<Index>(among);
  next_ = done_ = 0;
  changed_.notify_all();
  take_stretches(lock);
  changed_.wait(lock, [this] { return done_ == stretches_; });
  stretches_ = next_ = 0;
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace tremula::client
