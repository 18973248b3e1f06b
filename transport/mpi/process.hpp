// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "transport/mpi/call.hpp"

namespace tremula::transport::mpi {

/// Initialises MPI in one of Tremula's own programs, and finalises it at the end; applications do this
/// themselves. At most one object per process.
class Process {
public:
  /// Initialises MPI. Collective over the job, as the destructor is.
  /// @throws core::Error transport
  Process();
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  MPI_Comm world() const { return MPI_COMM_WORLD; }
};

}  // namespace tremula::transport::mpi
