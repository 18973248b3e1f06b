// SPDX-License-Identifier: Apache-2.0
#pragma once
// At log level info: which library does p?gemr2d and p?tran? for this program. A library that the
// program does not use is never called, so notice.cpp tells of that when it is loaded.
#include <mpi.h>

namespace tremula::client::scalapack {

/// Kept with MPI_COMM_SELF, so that one process tells it once.
struct InUse {
  explicit InUse(MPI_Comm);
};

}  // namespace tremula::client::scalapack
