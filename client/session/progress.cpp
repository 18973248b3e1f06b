// SPDX-License-Identifier: Apache-2.0
#include "client/session/progress.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "client/waiting/wait.hpp"
#include "core/thread.hpp"

namespace tremula::client {

namespace {
/// Pause between two turns, during which the application has the core to itself. It grows from the shortest
/// to the longest while no transfer begins.
constexpr auto shortest_nap = std::chrono::microseconds(20);
constexpr auto longest_nap = std::chrono::microseconds(1000);
/// Pause while no data is under way, after which links send signs of life.
constexpr auto idle_nap = std::chrono::milliseconds(100);
}  // namespace

ProgressEngine::~ProgressEngine() {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void ProgressEngine::add(Moving& moving) {
  const auto lock = hold();
  all_.push_back({&moving});
}

void ProgressEngine::remove(Moving& moving) noexcept {
  const auto lock = hold();
  std::erase_if(all_, [&](const Entry& entry) { return entry.moving == &moving; });
}

bool ProgressEngine::advance(const Moving* except) noexcept {
  const auto lock = hold();
  if (is_advancing_) return false;
  is_advancing_ = true;
  bool is_under_way = false;
  const std::size_t count = all_.size(), first = count == 0 ? 0 : next_idle_ % count;
  const std::size_t looked_at = std::exchange(is_any_begun_, false) ? count : most_idle;
  for (std::size_t i = 0; i < count; ++i) {
    Entry& entry = all_[i];
    const std::size_t after_first = i >= first ? i - first : i + count - first;
    if (entry.moving == except) {
      entry.is_idle = false;  // it may have begun something
      continue;
    }
    if (entry.is_idle && after_first >= looked_at) continue;
    entry.is_idle = !entry.moving->advance();
    is_under_way = is_under_way || !entry.is_idle;
  }
  next_idle_ = first + most_idle;
  is_advancing_ = false;
  return is_under_way;
}

bool ProgressEngine::sleep() {
  const auto lock = hold();
  words_.clear();
  for (const Entry& entry : all_) entry.moving->list_waits(words_);
  return transport::local::sleep_on(words_, longest_sleep, longest_sleep_by_events);
}

std::vector<LinkTurns> ProgressEngine::turns() {
  const auto lock = hold();
  std::vector<LinkTurns> all;
  for (const Entry& entry : all_) entry.moving->list_turns(all);
  return all;
}

void ProgressEngine::start_thread() {
  const std::scoped_lock lock(mutex_);  // the thread reads thread_, so it waits until that is set
  if (!thread_.joinable()) thread_ = core::start_thread([this] { run(); });
}

void ProgressEngine::wake() {
  {
    const auto lock = hold();
    is_awake_ = is_new_ = is_any_begun_ = true;
  }
  if (!thread_.joinable()) return;
  changed_.notify_one();
}

void ProgressEngine::run() {
  std::unique_lock lock(mutex_);
  auto nap = shortest_nap;
  while (!is_over_) {
    if (!is_awake_) {
      changed_.wait_for(lock, idle_nap, [this] { return is_awake_ || is_over_; });
      if (is_over_) return;
      if (!is_awake_) is_any_begun_ = true;  // every link has signs of life to send
    }
    if (std::exchange(is_new_, false)) nap = shortest_nap;
    is_awake_ = advance();
    changed_.wait_for(lock, nap, [this] { return is_over_; });
    nap = std::min(nap + nap / 8, longest_nap);
  }
}

}  // namespace tremula::client
