// SPDX-License-Identifier: Apache-2.0
#pragma once
// Steps that are under way move on while the application computes, if it wants a thread for that.
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace tremula::client {

/// Who makes a stream move between its calls.
enum class Progress {
  calls,   ///< nobody: what is under way waits for the next call
  thread,  ///< a thread of the stream, which sleeps when nothing is under way
};

/// A thread that polls while something is under way; without one, an object that does nothing.
class ProgressThread {
public:
  /// @param poll  moves on what is under way; false when nothing is. Called with the lock held;
  ///              must not throw
  ProgressThread(Progress progress, std::function<bool()> poll);
  /// Returns when the thread has ended: at most one poll later.
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;

  /// To be held by whoever touches what `poll` touches.
  std::unique_lock<std::mutex> hold();
  /// Something is under way now.
  void wake();

private:
  void run();

  std::function<bool()> poll_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_awake_ = false, is_over_ = false;
  std::thread thread_;  // last: it uses the above
};

}  // namespace tremula::client
