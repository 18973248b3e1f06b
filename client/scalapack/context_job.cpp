// SPDX-License-Identifier: Apache-2.0
#include "client/scalapack/context_job.hpp"

#include "client/scalapack/matrix.hpp"

namespace tremula::client::scalapack {

const std::vector<index_calc::RankRange>& ContextJob::members(const Grid& grid) {
  if (!members_.empty()) return members_;
  const RankCount cell = grid.my_row * grid.columns + grid.my_column;
  const auto size = static_cast<std::size_t>(job_.group().size());
  std::vector<RankCount> cells(size);
  std::vector<Rank> ranks(size);
  transport::mpi::check(
      MPI_Allgather(&cell, 1, MPI_INT, cells.data(), 1, MPI_INT, job_.group().comm()),
      "MPI_Allgather");
  for (const Rank rank : core::all_ranks(job_.group().size()))
    ranks[static_cast<std::size_t>(cells[core::at(rank)])] = rank;
  return members_ = ranges_of(ranks);
}

}  // namespace tremula::client::scalapack
