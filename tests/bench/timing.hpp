// SPDX-License-Identifier: Apache-2.0
#pragma once
// Measures runs that span all processes of one job.
#include <mpi.h>

#include <algorithm>
#include <vector>

namespace tremula::bench {

/// Returns the seconds from the start of the first process to the end of the last. Collective.
template <class Run>
double timed(Run&& run) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  run();
  const double end = MPI_Wtime();
  double first = 0, last = 0;
  MPI_Allreduce(&begin, &first, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
  MPI_Allreduce(&end, &last, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return last - first;
}

inline double median(std::vector<double> seconds) {
  std::nth_element(seconds.begin(), seconds.begin() + long(seconds.size() / 2), seconds.end());
  return seconds[seconds.size() / 2];
}
inline double least(const std::vector<double>& seconds) {
  return *std::min_element(seconds.begin(), seconds.end());
}

}  // namespace tremula::bench
