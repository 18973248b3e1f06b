// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "transport/group.hpp"
#include "transport/mpi/mpi_call.hpp"

namespace tremula::transport::mpi {

/// The ranks of an MPI communicator. Works with every MPI thread level, if its user keeps to that
/// level.
class Group final : public transport::Group {
public:
  /// Duplicates `comm`. Collective.
  /// @throws core::Error invalid_argument, transport
  explicit Group(MPI_Comm comm);

  core::Rank rank() const noexcept override { return rank_; }
  core::Rank size() const noexcept override { return size_; }
  /// @pre less than 2 GiB
  /// @throws core::Error timed_out; the group is of no use from then on, as MPI cannot take a
  /// collective call back
  core::Bytes broadcast(core::Bytes bytes, core::Deadline deadline) override;
  /// @pre less than 2 GiB together
  /// @throws core::Error as broadcast
  std::vector<core::Bytes> allgather(core::Bytes bytes, core::Deadline deadline) override;

private:
  struct Round;
  void wait(std::unique_ptr<Round>& round, std::string_view what, core::Deadline deadline);

  Comm comm_;
  core::Rank rank_ = 0;
  core::Rank size_ = 0;
  std::string stuck_;  // the collective call that never ended; empty: none
};

}  // namespace tremula::transport::mpi
