// SPDX-License-Identifier: Apache-2.0
// A job with any number of processes that puts a matrix, held in bands of rows, ten times.
#include <mpi.h>
#include <tremula/tremula_mpi.h>

#include <cstdio>
#include <tremula/tremula.hpp>
#include <vector>

void produce() {
  tremula::Session session("producer", MPI_COMM_WORLD);
  const auto layout = tremula::Layout::block({.shape = {1000, 800}, .grid = {session.size(), 1}});
  tremula::OutStream out = session.out_stream("matrix");
  const auto field = out.field<double>("value", layout);

  const auto local = layout.local(session.rank());  // my rows and columns
  std::vector<double> data(local.allocated);
  for (int step = 0; step < 10; ++step) {
    for (tremula::Index row = 0; row < local.extents[0]; ++row) {
      const auto global_row = layout.global_index(session.rank(), 0, row);
      for (tremula::Index column = 0; column < local.extents[1]; ++column) {
        data[row * local.strides[0] + column] = 1e6 * step + 800.0 * global_row + column;
      }
    }
    out.put(field, data);
  }
  out.close();
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    produce();
  } catch (const tremula::Error& error) {
    std::fprintf(stderr, "producer: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
