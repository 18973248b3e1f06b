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
  char name;  ///< last letter of the arguments: 'a' for desca, ia and ja
  std::array<int, 9> descriptor{};
  int row = 1, column = 1;  ///< index of the submatrix's first element; 1-based
  Grid grid;                ///< grid of the descriptor's context
  std::vector<index_calc::RankRange> members{};  ///< ranks of the communicator, row by row
};

/// Returns the matrix from the arguments of a caller. Outside the grid, only the context in the descriptor is read.
Matrix matrix_of(char name, const int* descriptor, int row, int column);

/// Returns the ranks of the cells of a grid as the members of a layout.
std::vector<index_calc::RankRange> ranges_of(const std::vector<Rank>& ranks);

/// A movement of a submatrix: sub(to) = alpha * op(sub(from)) + beta * sub(to), where `transformation`
/// gives alpha, beta and op.
struct Movement {
  int m = 0, n = 0;         ///< rows and columns of sub(to)
  bool transposes = false;  ///< sub(from) is n x m and is transposed
  index_calc::Transformation transformation{};
};
/// Moves a submatrix. Collective over the job. The local parts may overlap, as those of two submatrices of one
/// matrix do.
/// @throws core::Error invalid_argument naming the argument, and the errors of Redistribution
void move(Job& job, const Movement& movement, const Matrix& from, const void* from_data,
          const Matrix& to, void* to_data);

/// Performs p?gemr2d; tran() performs p?tran?.
void gemr2d(core::ElementType type, int m, int n, const void* a, int ia, int ja, const int* desca,
            void* b, int ib, int jb, const int* descb, int context);
void tran(const index_calc::Transformation& transformation, int m, int n, const void* a, int ia,
          int ja, const int* desca, void* c, int ic, int jc, const int* descc);

/// Returns whether there is nothing to move.
/// @throws core::Error invalid_argument if m or n is negative
bool is_empty(int m, int n);

}  // namespace tremula::client::scalapack
