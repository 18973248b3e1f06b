// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <deque>
#include <memory>
#include <vector>

#include "transport/group.hpp"
#include "transport/mpi/mpi_call.hpp"

namespace tremula::transport::mpi {

/// The ranks of an MPI communicator. Works with every MPI thread level, if its caller keeps to that
/// level.
class Group final : public transport::Group {
public:
  /// As duplicate(comm, timeout).
  Group(MPI_Comm comm, double timeout);
  ~Group() override;

  core::Rank rank() const noexcept override { return rank_; }
  core::Rank size() const noexcept override { return size_; }
  /// @pre less than 2 GiB
  /// @throws core::Error timed_out; MPI cannot take a collective call back
  core::Bytes broadcast(core::Bytes bytes, core::Deadline deadline) override;
  /// @pre less than 2 GiB together
  /// @throws core::Error as broadcast
  std::vector<core::Bytes> allgather(core::Bytes bytes, core::Deadline deadline) override;
  std::vector<core::Bytes> finish(core::Deadline deadline) override;
  /// As allgather, for ranks that are known to be there: MPI waits without a deadline, which takes
  /// a fraction of the time.
  std::vector<core::Bytes> allgather_at_once(core::Bytes bytes);
  void send_note(core::Rank to, core::BytesView bytes) override;
  std::optional<Note> take_note() override;
  /// The duplicate of the communicator.
  MPI_Comm comm() const noexcept { return comm_.get(); }
  /// Messages may still arrive on the duplicate: it is kept until MPI_Finalize. The group is of no
  /// use any more.
  void keep() noexcept;

private:
  struct Round;
  /// @throws core::Error timed_out if an earlier call has not ended
  Round& begin();
  /// @return whether there is more to wait for
  bool begin_rest();
  void wait(core::Deadline deadline);

  Comm comm_;
  core::Rank rank_ = 0;
  core::Rank size_ = 0;
  bool has_notes_ = false;        // some were sent or looked for
  std::unique_ptr<Round> round_;  // the collective call that has not ended
  struct NoteOnItsWay;
  std::deque<std::unique_ptr<NoteOnItsWay>>
      sent_;  // that have not gone, and perhaps some that have
};

}  // namespace tremula::transport::mpi
