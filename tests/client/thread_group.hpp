// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

#include "core/error.hpp"
#include "transport/group.hpp"

namespace tremula::client {

/// What the ranks of a group share when they are threads of one test.
class ThreadRanks {
public:
  explicit ThreadRanks(core::Rank size) : parts_(static_cast<std::size_t>(size)) {}

  std::vector<core::Bytes> allgather(core::Rank rank, core::Bytes bytes, core::Deadline deadline,
                                     const std::function<void()>& check,
                                     const std::function<void()>& move) {
    std::unique_lock lock(mutex_);
    const auto round = round_;
    parts_[static_cast<std::size_t>(rank)] = std::move(bytes);
    if (++arrived_ == parts_.size()) {
      arrived_ = 0;
      ++round_;
      whole_ = parts_;
      changed_.notify_all();
    } else {
      while (
          !changed_.wait_for(lock, std::chrono::milliseconds(1), [&] { return round_ != round; })) {
        lock.unlock();
        move();
        check();
        lock.lock();
        if (deadline.expired())
          throw core::Error(core::Errc::timed_out,
                            "thread group: expected all ranks to come; they did not");
      }
    }
    return whole_;  // no rank can begin the round after next before this one has left
  }
  core::Rank size() const noexcept { return static_cast<core::Rank>(parts_.size()); }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<core::Bytes> parts_, whole_;
  std::size_t arrived_ = 0, round_ = 0;
};

class ThreadGroup final : public transport::Group {
public:
  ThreadGroup(ThreadRanks& ranks, core::Rank rank) : ranks_(ranks), rank_(rank) {}
  core::Rank rank() const noexcept override { return rank_; }
  core::Rank size() const noexcept override { return ranks_.size(); }
  core::Bytes broadcast(core::Bytes bytes, core::Deadline deadline) override {
    return allgather(std::move(bytes), deadline).front();
  }
  std::vector<core::Bytes> allgather(core::Bytes bytes, core::Deadline deadline) override {
    return ranks_.allgather(rank_, std::move(bytes), deadline, check_, move_);
  }

private:
  ThreadRanks& ranks_;
  core::Rank rank_;
};

}  // namespace tremula::client
