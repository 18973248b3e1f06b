// SPDX-License-Identifier: Apache-2.0
// Measures the set-up of many fields: of a stream between two groups of equal size, and of a
// redistribution between them inside one job.
//
//   TREMULA_SERVER=HOST:PORT mpirun -n 2*RANKS tremula_set_up_bench FIELDS SIGNATURES
//
// The fields have SIGNATURES different pairs of layouts in turn, blocks of rows to blocks of columns.
// Prints: fields, signatures, then the seconds of the stream's declarations, of the producer's first
// begin_step, and of making the redistribution, each from the start of the first process to the end
// of the last.
#include <mpi.h>
#include <tremula/tremula_mpi.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <tremula/tremula_mpi.hpp>
#include <vector>

#include "tests/bench/timing.hpp"

namespace {

using tremula::bench::timed;

void measure(int fields, int signatures) {
  using tremula::Layout, tremula::Index;
  int me = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int ranks = size / 2;
  const bool produces = me < ranks;
  MPI_Comm group = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, produces ? 0 : 1, me, &group);
  tremula::Session session(produces ? "source" : "sink", group);
  const auto layout = [&](int field, bool of_producer, const std::string& more) {
    const int number = field % signatures;
    const std::vector<Index> shape{16 + number % 100, 16 + number / 100};
    return of_producer ? Layout::block({.shape = shape, .grid = {ranks, 1}, .more = more})
                       : Layout::block({.shape = shape, .grid = {1, ranks}, .more = more});
  };

  std::unique_ptr<tremula::OutStream> out;
  std::unique_ptr<tremula::InStream> in;
  std::vector<tremula::Field<double>> handles;
  if (produces)
    out = std::make_unique<tremula::OutStream>(session.out_stream("fields"));
  else
    in = std::make_unique<tremula::InStream>(session.in_stream("fields"));
  const double declared = timed([&] {
    for (int f = 0; f < fields; ++f) {
      const std::string name = std::to_string(f);
      handles.push_back(produces ? out->field<double>(name, layout(f, true, ""))
                                 : in->field<double>(name, layout(f, false, "")));
    }
  });
  std::vector<std::vector<double>> data;
  for (int f = 0; f < fields; ++f)
    data.emplace_back(layout(f, produces, "").local(session.rank()).allocated);
  const auto get_all = [&] {
    if (in->begin_step() != tremula::StepStatus::ok) MPI_Abort(MPI_COMM_WORLD, 4);
    for (std::size_t f = 0; f < data.size(); ++f) in->get(handles[f], data[f]);
    in->end_step();
  };
  // A consumer's begin_step waits for the step, which begins when all producer ranks are linked.
  if (!produces) MPI_Barrier(MPI_COMM_WORLD), get_all();
  double linked = 0;
  if (produces) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    out->begin_step();
    linked = MPI_Wtime() - begin;
    for (std::size_t f = 0; f < data.size(); ++f) out->put(handles[f], data[f]);
    out->end_step();
  }
  double slowest = 0;
  MPI_Allreduce(&linked, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);

  std::string first_half = "members=0-" + std::to_string(ranks - 1),
              second_half = "members=" + std::to_string(ranks) + "-" + std::to_string(size - 1);
  std::unique_ptr<tremula::Redistribution> redistribution;
  const double made = timed([&] {
    std::vector<tremula::Redistributed> arrays;
    for (int f = 0; f < fields; ++f)
      arrays.push_back(tremula::Redistributed::of<double>(layout(f, true, first_half),
                                                          layout(f, false, second_half)));
    redistribution = std::make_unique<tremula::Redistribution>(MPI_COMM_WORLD, arrays);
  });
  if (produces)
    out->close();
  else
    in->close();
  if (me == 0) std::printf("%d %d %.6f %.6f %.6f\n", fields, signatures, declared, slowest, made);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 3) {
    std::fprintf(stderr, "usage: mpirun -n 2*RANKS tremula_set_up_bench FIELDS SIGNATURES\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  try {
    measure(std::atoi(argv[1]), std::atoi(argv[2]));
  } catch (const tremula::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
