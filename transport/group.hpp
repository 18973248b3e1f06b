// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <utility>
#include <vector>

#include "core/deadline.hpp"
#include "core/types.hpp"

namespace tremula::transport {

/// The ranks of one job, which can exchange a few bytes. For set-up and agreement only, never for
/// the data of a step. All calls are collective: every rank makes the same calls in
/// the same order.
class Group {
public:
  virtual ~Group() = default;
  virtual core::Rank rank() const noexcept = 0;
  virtual core::Rank size() const noexcept = 0;
  /// Every rank gets the bytes of rank 0; those of the others are ignored.
  /// @throws core::Error timed_out naming the ranks that are missing and since when
  virtual core::Bytes broadcast(core::Bytes bytes, core::Deadline deadline) = 0;
  /// Every rank gets the bytes of every rank. Shape of the result: [rank].
  virtual std::vector<core::Bytes> allgather(core::Bytes bytes, core::Deadline deadline) = 0;

  /// @param check  called every 20 ms or so while a call waits; what it throws ends the wait, after
  ///               which the group is of no use any more
  /// @param move   called at every look while a call waits: moves what else this rank has under way
  void watch(std::function<void()> check, std::function<void()> move = [] {}) {
    check_ = std::move(check);
    move_ = std::move(move);
  }

protected:
  std::function<void()> check_ = [] {}, move_ = [] {};
};

}  // namespace tremula::transport
