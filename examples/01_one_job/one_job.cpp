// SPDX-License-Identifier: Apache-2.0
// One job repeatedly redistributes its own matrix from rows to columns. On the way the matrix is
// transposed, scaled and converted to single precision. It needs no server.
#include <mpi.h>

#include <cstdio>
#include <tremula/tremula_mpi.hpp>
#include <vector>

void run(int rank, int size) {
  using tremula::Layout;
  const auto rows = Layout::block({.shape = {1000, 800}, .grid = {size, 1}});
  const auto turned = Layout::block_cyclic(
      {.shape = {800, 1000}, .grid = {size, 1}, .block = {16, 1000}, .more = "store=column"});
  tremula::Redistribution to_turned(
      MPI_COMM_WORLD,
      {tremula::Redistributed::of<double, float>(rows, turned, {.alpha = 0.5, .axes = {1, 0}})});

  const auto mine = rows.local(rank), other = turned.local(rank);
  std::vector<double> matrix(mine.allocated);
  std::vector<float> result(other.allocated);
  for (int step = 0; step < 3; ++step) {
    for (tremula::Index i = 0; i < mine.extents[0]; ++i)
      for (tremula::Index j = 0; j < mine.extents[1]; ++j)
        matrix[i * mine.strides[0] + j] = 1e6 * step + 800.0 * rows.global_index(rank, 0, i) + j;
    to_turned(matrix, result);
    if (rank == 0)
      std::printf("step %d: element (1, 0) of the matrix, halved: %.1f\n", step,
                  result[other.strides[1]]);
  }
  const auto s = to_turned.statistics();
  std::printf("rank %d: %llu bytes sent, %llu stayed\n", rank, (unsigned long long)s.bytes_sent,
              (unsigned long long)s.bytes_kept);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  try {
    run(rank, size);
  } catch (const tremula::Error& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
