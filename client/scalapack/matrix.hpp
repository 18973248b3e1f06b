// SPDX-License-Identifier: Apache-2.0
#pragma once
// The arguments of a ScaLAPACK function as layouts.
#include <array>
#include <vector>

#include "client/redistribute/mpi_job.hpp"
#include "client/scalapack/blacs.hpp"

namespace tremula::client::scalapack {

using redistribute::Job;

/// A matrix as the processes of its grid know it.
struct Matrix {
  char name;  ///< of the argument: its descriptor is desca, its submatrix begins at (ia, ja)
  std::array<int, 9> descriptor{};
  int row = 1, column = 1;                       ///< of the submatrix's first element; 1-based
  Grid grid;                                     ///< of `descriptor`
  std::vector<index_calc::RankRange> members{};  ///< ranks of the communicator, row by row
};

/// From the arguments of a caller. Outside the grid only the context of the descriptor is read.
Matrix matrix_of(char name, const int* descriptor, int row, int column);

/// The ranks of the cells of a grid, as the members of a layout.
std::vector<index_calc::RankRange> ranges_of(const std::vector<Rank>& ranks);

/// sub(to) = alpha * op(sub(from)) + beta * sub(to), as `transformation` says.
struct Movement {
  int m = 0, n = 0;         ///< of sub(to)
  bool transposes = false;  ///< then sub(from) is n x m
  index_calc::Transformation transformation{};
};
/// Collective over the job. The local parts may overlap, as those of two submatrices of one matrix
/// do.
/// @throws core::Error invalid_argument naming the argument, and as Redistribution
void move(Job& job, const Movement& movement, const Matrix& from, const void* from_data,
          const Matrix& to, void* to_data);

/// p?gemr2d and p?tran?.
void gemr2d(core::ElementType type, int m, int n, const void* a, int ia, int ja, const int* desca,
            void* b, int ib, int jb, const int* descb, int context);
void tran(const index_calc::Transformation& transformation, int m, int n, const void* a, int ia,
          int ja, const int* desca, void* c, int ic, int jc, const int* descc);

/// True if there is nothing to move.
/// @throws core::Error invalid_argument if m or n is negative
bool is_empty(int m, int n);

}  // namespace tremula::client::scalapack
