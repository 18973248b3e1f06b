// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "core/deadline.hpp"
#include "core/types.hpp"

namespace tremula::transport {

/// The ranks of one job, which can exchange a few bytes. For set-up and agreement only, never for
/// the data of a step. All calls but those of notes are collective: every rank makes
/// the same ones in the same order.
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

  /// Goes on with a call whose wait `check` has ended, until every rank has come to it; no other call
  /// is made before.
  /// @return what the call would have given; of a broadcast, one element
  virtual std::vector<core::Bytes> finish(core::Deadline deadline) = 0;

  /// Notes go beside the collective calls, from rank 0 to another rank or back, in whatever call the
  /// ranks are: nothing waits. Those of one rank to another come in the order in which they were sent;
  /// one on its way may be lost when either rank destroys its group.
  static constexpr std::size_t most_note_bytes = 500;
  struct Note {
    core::Rank from = 0;
    core::Bytes bytes;
  };
  /// @pre this rank is rank 0 or `to` is, not both; 1 to most_note_bytes
  virtual void send_note(core::Rank to, core::BytesView bytes) = 0;
  /// One that has come.
  virtual std::optional<Note> take_note() = 0;

  /// @param check  called every 20 ms or so while a call waits; what it throws ends the wait, but not
  ///               the call, to which the other ranks may still come: see finish()
  /// @param move   called at every look while a call waits: moves what else this rank has under way
  void watch(
      std::function<void()> check, std::function<void()> move = [] {}) {
    check_ = std::move(check);
    move_ = std::move(move);
  }

protected:
  std::function<void()> check_ = [] {}, move_ = [] {};
};

}  // namespace tremula::transport
