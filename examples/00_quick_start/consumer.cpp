// SPDX-License-Identifier: Apache-2.0
// Another job, with any other number of processes, that gets the matrix with blocks of 16 columns
// distributed to its ranks in turn.
#include <mpi.h>
#include <tremula/tremula_mpi.h>

#include <cstdio>
#include <numeric>
#include <tremula/tremula.hpp>
#include <vector>

void consume() {
  tremula::Session session("consumer", MPI_COMM_WORLD);
  const auto layout = tremula::Layout::block_cyclic(
      {.shape = {1000, 800}, .grid = {1, session.size()}, .block = {1000, 16}});
  tremula::InStream in = session.in_stream("matrix");
  const auto field = in.field<double>("value", layout);

  std::vector<double> data(layout.local(session.rank()).allocated);
  while (in.begin_step() == tremula::StepStatus::ok) {
    in.get(field, data);
    in.end_step();

    double sum = std::accumulate(data.begin(), data.end(), 0.0), total = 0;
    MPI_Reduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (session.rank() == 0) std::printf("step %d: mean %.1f\n", int(in.step()), total / 800000);
  }
  in.close();
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    consume();
  } catch (const tremula::Error& error) {
    std::fprintf(stderr, "consumer: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
