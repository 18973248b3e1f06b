// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "client/redistribute/mpi_job.hpp"
#include "client/scalapack/blacs.hpp"
#include "client/scalapack/notice.hpp"
#include "transport/mpi/mpi_companion.hpp"

namespace tremula::client::scalapack {

using redistribute::Job;

/// What stays with a BLACS context until it ends.
class ContextJob {
public:
  /// Collective over the context at the first call.
  /// @pre this process is in it
  static ContextJob& of(int context) {
    return transport::mpi::companion<ContextJob>(comm_of(context));
  }
  explicit ContextJob(MPI_Comm comm) : job_(comm, ten_years) {
    if (job_.group().rank() == 0) transport::mpi::companion<InUse>(MPI_COMM_SELF);
  }

  Job& job() noexcept { return job_; }
  /// The ranks of the context's own grid, row by row. Collective at the first call.
  const std::vector<index_calc::RankRange>& members(const Grid& grid);

private:
  static constexpr double ten_years = 3.2e8;  // MPI and ScaLAPACK have no deadline
  Job job_;
  std::vector<index_calc::RankRange> members_;
};

}  // namespace tremula::client::scalapack
