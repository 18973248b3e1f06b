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
/// the data of a step. All calls except those for notes are collective: every rank makes the same
/// calls in the same order.
class Group {
public:
  virtual ~Group() = default;
  virtual core::Rank rank() const noexcept = 0;
  virtual core::RankCount size() const noexcept = 0;
  /// Returns the bytes of rank 0 on every rank; the bytes of other ranks are ignored.
  /// @throws core::Error timed_out naming the missing ranks and since when they have been missing
  virtual core::Bytes broadcast(core::Bytes bytes, core::Deadline deadline) = 0;
  /// Returns the bytes of every rank on every rank. Shape of the result: [rank].
  virtual std::vector<core::Bytes> allgather(core::Bytes bytes, core::Deadline deadline) = 0;

  /// Resumes a call whose wait `check` has ended, and waits until every rank has joined the call. No
  /// other call may be made before that.
  /// @return the result that the call would have returned; for a broadcast, one element
  virtual std::vector<core::Bytes> finish(core::Deadline deadline) = 0;

  /// Longest note, in bytes. Notes travel independently of the collective calls, from rank 0 to
  /// another rank or back, whichever call the ranks are in: no call waits for them. Notes from one
  /// rank to another arrive in the order in which they were sent; a note in flight may be lost when
  /// either rank destroys its group.
  static constexpr std::size_t most_note_bytes = 500;
  struct Note {
    core::Rank from{};
    core::Bytes bytes;
  };
  /// Sends a note.  @pre either this rank or `to` is rank 0, not both; 1 to most_note_bytes bytes
  virtual void send_note(core::Rank to, core::BytesView bytes) = 0;
  /// Takes the next note that has arrived; nullopt if there is none.
  virtual std::optional<Note> take_note() = 0;

  /// Sets the functions that a waiting call runs.
  /// @param check  called every 20 ms or so while a call waits; an exception from it ends the wait,
  ///               but not the call, which the other ranks may still join: see finish()
  /// @param move   called at every poll while a call waits; advances the other work of this rank
  void watch(
      std::function<void()> check, std::function<void()> move = [] {}) {
    check_ = std::move(check);
    move_ = std::move(move);
  }

protected:
  std::function<void()> check_ = [] {}, move_ = [] {};
};

}  // namespace tremula::transport
