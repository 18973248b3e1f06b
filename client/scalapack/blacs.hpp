// SPDX-License-Identifier: Apache-2.0
#pragma once
// Process grids and communicators of BLACS, which the application provides.
#include <mpi.h>

namespace tremula::client::scalapack {

/// A process grid, and the position of this process in it.
struct Grid {
  int rows = -1, columns = -1, my_row = -1, my_column = -1;
  bool has_me() const noexcept { return my_row >= 0; }
};

/// Returns the grid of a context; all members are -1 for a context that does not contain this process, such as
/// context -1.
Grid grid_of(int context);

/// Returns the communicator that contains exactly the grid's processes. BLACS sends on it, and frees it in
/// blacs_gridexit; no other code may do either.
/// @pre grid_of(context).has_me()
MPI_Comm comm_of(int context);

}  // namespace tremula::client::scalapack
