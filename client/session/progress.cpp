// SPDX-License-Identifier: Apache-2.0
#include "client/session/progress.hpp"

#include <signal.h>

#include <chrono>
#include <utility>

namespace tremula::client {

namespace {
/// Between two polls the core belongs to the application.
constexpr auto nap = std::chrono::microseconds(20);
}  // namespace

ProgressThread::ProgressThread(Progress progress, std::function<bool()> poll)
    : poll_(std::move(poll)) {
  if (progress != Progress::thread) return;
  // The application's signals are not for this thread.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

ProgressThread::~ProgressThread() {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

std::unique_lock<std::mutex> ProgressThread::hold() {
  return thread_.joinable() ? std::unique_lock(mutex_) : std::unique_lock<std::mutex>();
}

void ProgressThread::wake() {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    is_awake_ = true;
  }
  changed_.notify_one();
}

void ProgressThread::run() {
  std::unique_lock lock(mutex_);
  while (!is_over_) {
    if (!is_awake_) {
      changed_.wait(lock, [this] { return is_awake_ || is_over_; });
      continue;
    }
    is_awake_ = poll_();
    lock.unlock();
    std::this_thread::sleep_for(nap);
    lock.lock();
  }
}

}  // namespace tremula::client
