// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "core/error.hpp"
#include "transport/group.hpp"

namespace tremula::client {

/// State shared by the ranks of a group that are threads of one test.
class ThreadRanks {
public:
  explicit ThreadRanks(core::RankCount size) : parts_(static_cast<std::size_t>(size)) {}

  /// Adds the bytes of a rank that has arrived.  @return the round that it has joined
  std::size_t arrive(core::Rank rank, core::Bytes bytes) {
    const std::scoped_lock lock(mutex_);
    const auto round = round_;
    parts_[core::at(rank)] = std::move(bytes);
    if (++arrived_ == parts_.size()) {
      arrived_ = 0;
      ++round_;
      whole_ = parts_;
      changed_.notify_all();
    }
    return round;
  }
  std::vector<core::Bytes> wait(std::size_t round, core::Deadline deadline,
                                const std::function<void()>& check,
                                const std::function<void()>& move) {
    std::unique_lock lock(mutex_);
    while (
        !changed_.wait_for(lock, std::chrono::milliseconds(1), [&] { return round_ != round; })) {
      lock.unlock();
      move();
      check();
      lock.lock();
      if (deadline.expired())
        throw core::Error(core::Errc::timed_out,
                          "thread group: expected all ranks to arrive; some did not");
    }
    return whole_;  // unchanged until this rank has joined the next round
  }
  core::RankCount size() const noexcept { return static_cast<core::RankCount>(parts_.size()); }

  void send_note(core::Rank from, core::Rank to, core::BytesView bytes) {
    const std::scoped_lock lock(mutex_);
    notes_[to].push_back({from, core::Bytes(bytes.begin(), bytes.end())});
  }
  std::optional<transport::Group::Note> take_note(core::Rank rank) {
    const std::scoped_lock lock(mutex_);
    auto& notes = notes_[rank];
    if (notes.empty()) return std::nullopt;
    auto note = std::move(notes.front());
    notes.pop_front();
    return note;
  }

private:
  std::map<core::Rank, std::deque<transport::Group::Note>> notes_;  // by receiving rank
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<core::Bytes> parts_, whole_;
  std::size_t arrived_ = 0, round_ = 0;
};

class ThreadGroup final : public transport::Group {
public:
  ThreadGroup(ThreadRanks& ranks, core::Rank rank) : ranks_(ranks), rank_(rank) {}
  core::Rank rank() const noexcept override { return rank_; }
  core::RankCount size() const noexcept override { return ranks_.size(); }
  core::Bytes broadcast(core::Bytes bytes, core::Deadline deadline) override {
    return allgather(std::move(bytes), deadline).front();
  }
  std::vector<core::Bytes> allgather(core::Bytes bytes, core::Deadline deadline) override {
    round_ = ranks_.arrive(rank_, std::move(bytes));
    return finish(deadline);
  }
  std::vector<core::Bytes> finish(core::Deadline deadline) override {
    return ranks_.wait(round_, deadline, check_, move_);
  }
  void send_note(core::Rank to, core::BytesView bytes) override {
    ranks_.send_note(rank_, to, bytes);
  }
  std::optional<Note> take_note() override { return ranks_.take_note(rank_); }

private:
  ThreadRanks& ranks_;
  core::Rank rank_;
  std::size_t round_ = 0;  // this rank's current round
};

}  // namespace tremula::client
