// SPDX-License-Identifier: Apache-2.0
#include "client/scalapack/blacs.hpp"

extern "C" {
void Cblacs_gridinfo(int context, int* rows, int* columns, int* my_row, int* my_column);
void Cblacs_get(int context, int what, int* value);
MPI_Comm Cblacs2sys_handle(int handle);
}

namespace tremula::client::scalapack {

Grid grid_of(int context) {
  Grid grid;
  Cblacs_gridinfo(context, &grid.rows, &grid.columns, &grid.my_row, &grid.my_column);
  return grid;
}

MPI_Comm comm_of(int context) {
  constexpr int handle_of_the_grid = 10;
  int handle = 0;
  Cblacs_get(context, handle_of_the_grid, &handle);
  // The handle is not returned to BLACS: a communicator has only one handle, the application may hold it as
  // well, and BLACS finds it again for the next communicator that MPI creates in the same place.
  return Cblacs2sys_handle(handle);
}

}  // namespace tremula::client::scalapack
