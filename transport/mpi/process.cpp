// SPDX-License-Identifier: Apache-2.0
#include "transport/mpi/process.hpp"

namespace tremula::transport::mpi {

Process::Process() {
  int level = MPI_THREAD_SINGLE;  // Transport reports what is missing
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread");
}

Process::~Process() { MPI_Finalize(); }

}  // namespace tremula::transport::mpi
