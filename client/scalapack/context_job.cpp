// SPDX-License-Identifier: Apache-2.0
#include "client/scalapack/context_job.hpp"

#include "client/scalapack/matrix.hpp"

namespace tremula::client::scalapack {

const std::vector<index_calc::RankRange>& ContextJob::members(const Grid& grid) {
  if (!members_.empty()) return members_;
  const Rank cell = grid.my_row * grid.columns + grid.my_column;
  const auto size = static_cast<std::size_t>(job_.group().size());
  std::vector<Rank> cells(size), ranks(size);
  transport::mpi::check(
      MPI_Allgather(&cell, 1, MPI_INT, cells.data(), 1, MPI_INT, job_.group().comm()),
      "MPI_Allgather");
  for (std::size_t rank = 0; rank < size; ++rank)
    ranks[static_cast<std::size_t>(cells[rank])] = static_cast<Rank>(rank);
  return members_ = ranges_of(ranks);
}

}  // namespace tremula::client::scalapack
