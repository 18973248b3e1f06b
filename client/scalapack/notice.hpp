// SPDX-License-Identifier: Apache-2.0
#pragma once
// Logs, at level info, which library performs p?gemr2d and p?tran? for this program. If the program
// uses another library, this library is never called, so notice.cpp reports that when this library is loaded.
#include <mpi.h>

namespace tremula::client::scalapack {

/// Reports that this library is in use. Kept with MPI_COMM_SELF, so that a process reports it once.
struct InUse {
  explicit InUse(MPI_Comm);
};

}  // namespace tremula::client::scalapack
