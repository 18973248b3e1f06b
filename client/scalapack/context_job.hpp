// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "client/redistribute/mpi_job.hpp"
#include "client/scalapack/blacs.hpp"
#include "client/scalapack/notice.hpp"
#include "transport/mpi/companion.hpp"

namespace tremula::client::scalapack {

using redistribute::Job;

/// The job of a BLACS context, which is kept until the context ends.
class ContextJob {
public:
  /// Returns the job of a context. The first call is collective over the context.
  /// @pre this process is in the context
  static ContextJob& of(int context) {
    return transport::mpi::companion<ContextJob>(comm_of(context));
  }
  explicit ContextJob(MPI_Comm comm) : job_(comm, ten_years) {
    if (job_.group().rank() == Rank{0}) transport::mpi::companion<InUse>(MPI_COMM_SELF);
  }

  Job& job() noexcept { return job_; }
  /// Returns the ranks of the context's own grid, row by row. The first call is collective.
  const std::vector<index_calc::RankRange>& members(const Grid& grid);

private:
  static constexpr double ten_years = 3.2e8;  // MPI and ScaLAPACK have no deadlines
  Job job_;
  std::vector<index_calc::RankRange> members_;
};

}  // namespace tremula::client::scalapack
