// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "index_calc/pack/pack.hpp"

namespace tremula::client {

/// Shares the copying of large packages among threads, for a rank that has more than one core
/// (`copy_threads`). Thread-safe: a call that finds the threads busy copies by itself.
class CopyThreads {
public:
  /// @param count        number of threads that copy, including the caller's; 1 starts none
  /// @param least_bytes  fewest bytes to give a thread
  /// @throws core::Error internal if the system does not start that many
  explicit CopyThreads(int count, std::size_t least_bytes = std::size_t{1} << 20);
  ~CopyThreads() { end(); }
  CopyThreads(const CopyThreads&) = delete;

  /// Calls `copy` for stretches that make up `whole`, several concurrently, and returns when all
  /// are done.
  /// @throws one of the exceptions that `copy` has thrown, if any
  template <class Copy>
  void run(index_calc::Stretch whole, std::size_t element_bytes, const Copy& copy) {
    const auto bytes = static_cast<std::size_t>(whole.count) * element_bytes;
    if (threads_.empty() || bytes < 2 * least_bytes_) return copy(whole);
    const std::unique_lock use(in_use_, std::try_to_lock);
    if (!use) return copy(whole);
    share(whole, std::min(bytes / least_bytes_, threads_.size() + 1), std::cref(copy));
  }

private:
  using Function = std::function<void(index_calc::Stretch)>;
  void share(index_calc::Stretch whole, std::size_t among, const Function& copy);
  void end();
  void work();
  /// Copies stretches as long as there are any.
  void take_stretches(std::unique_lock<std::mutex>& lock);
  index_calc::Stretch stretch(core::Index i) const;

  std::size_t least_bytes_;
  std::mutex in_use_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  const Function* copy_ = nullptr;
  index_calc::Stretch whole_;
  core::Index stretches_ = 0, next_ = 0, done_ = 0;
  std::exception_ptr failure_;
  bool is_ended_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tremula::client
