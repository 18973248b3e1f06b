// SPDX-License-Identifier: Apache-2.0
#pragma once
// The agreement between simulation and analysis, and the common frame of both programs.
#include <mpi.h>

#include <cstdio>
#include <exception>

namespace melt {

/// Each step has a row for every atom: `id` in 64 bits, as keys must be; `x`, its position in the
/// periodic box of LAMMPS; and `unwrapped`, its position if atoms left the box instead of entering
/// it again at the opposite end. The attribute `box` of `x` holds the edge lengths of the box. The
/// time of a step is its timestep.
inline constexpr const char* stream_name = "atoms";

inline constexpr int every = 50;       ///< timesteps from one step of the stream to the next
inline constexpr double cutoff = 2.5;  ///< cutoff distance of the forces, and of g(r)
inline constexpr int bins = 125;       ///< number of bins of g(r)
inline constexpr int digits = 10;      ///< number of digits that LAMMPS prints

/// Runs `work` between MPI_Init_thread and MPI_Finalize. An exception on one rank ends the whole
/// job with status 1, because the other ranks wait for this one.
/// @return what main must return
template <class Work>
int run_job(int argc, char** argv, Work work) {
  int provided = MPI_THREAD_SINGLE, status = 1;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  try {
    status = work();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return status;
}

}  // namespace melt
