// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <deque>
#include <memory>
#include <vector>

#include "transport/group.hpp"
#include "transport/mpi/call.hpp"

namespace tremula::transport::mpi {

/// The ranks of an MPI communicator. Works at any MPI thread level, provided that the caller keeps
/// to that level.
class Group final : public transport::Group {
public:
  /// Duplicates `comm` as duplicate(comm, timeout) does.
  Group(MPI_Comm comm, double timeout);
  ~Group() override;

  core::Rank rank() const noexcept override { return rank_; }
  core::RankCount size() const noexcept override { return size_; }
  /// Returns the bytes of rank 0.
  /// @pre less than 2 GiB
  /// @throws core::Error timed_out; MPI cannot cancel a collective call
  core::Bytes broadcast(core::Bytes bytes, core::Deadline deadline) override;
  /// Returns the bytes of every rank.
  /// @pre less than 2 GiB in all
  /// @throws core::Error as broadcast()
  std::vector<core::Bytes> allgather(core::Bytes bytes, core::Deadline deadline) override;
  std::vector<core::Bytes> finish(core::Deadline deadline) override;
  /// Returns the bytes of every rank, as allgather() does, but in a fraction of the time, because MPI
  /// waits without a deadline.  @pre all ranks are known to join
  std::vector<core::Bytes> allgather_at_once(core::Bytes bytes);
  void send_note(core::Rank to, core::BytesView bytes) override;
  std::optional<Note> take_note() override;
  /// Returns the duplicate of the communicator.
  MPI_Comm comm() const noexcept { return comm_.get(); }
  /// Keeps the duplicate until MPI_Finalize, because messages may still arrive on it. The group cannot
  /// be used afterwards.
  void keep() noexcept;

private:
  struct Round;
  /// Begins a collective call.
  /// @throws core::Error timed_out if an earlier call has not ended
  Round& begin();
  /// Begins the second part of the call.  @return whether there is one to wait for
  bool begin_rest();
  void wait(core::Deadline deadline);

  Comm comm_;
  core::Rank rank_;
  core::RankCount size_ = 0;
  bool has_notes_ = false;        // notes were sent or looked for
  std::unique_ptr<Round> round_;  // the collective call that has not ended
  struct NoteOnItsWay;
  std::deque<std::unique_ptr<NoteOnItsWay>>
      sent_;  // notes in flight, and perhaps some that have arrived
};

}  // namespace tremula::transport::mpi
