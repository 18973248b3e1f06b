// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
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

  core::Rank rank() const noexcept override { return rank_; }
  core::Rank size() const noexcept override { return size_; }
  /// @pre less than 2 GiB
  /// @throws core::Error timed_out; the group is of no use from then on, as MPI cannot take a
  /// collective call back
  core::Bytes broadcast(core::Bytes bytes, core::Deadline deadline) override;
  /// @pre less than 2 GiB together
  /// @throws core::Error as broadcast
  std::vector<core::Bytes> allgather(core::Bytes bytes, core::Deadline deadline) override;
  /// As allgather, for ranks that are known to be there: MPI waits without a deadline, which takes
  /// a fraction of the time.
  std::vector<core::Bytes> allgather_at_once(core::Bytes bytes);
  /// The duplicate of the communicator.
  MPI_Comm comm() const noexcept { return comm_.get(); }
  /// Messages may still arrive on the duplicate: it is kept until MPI_Finalize. The group is of no
  /// use any more.
  void keep() noexcept;

private:
  struct Round;
  std::vector<core::Bytes> gather(core::Bytes bytes, std::optional<core::Deadline> deadline);
  void wait(std::unique_ptr<Round>& round, std::string_view what, core::Deadline deadline);

  Comm comm_;
  core::Rank rank_ = 0;
  core::Rank size_ = 0;
  std::string stuck_;  // the collective call that never ended; empty: none
};

}  // namespace tremula::transport::mpi
