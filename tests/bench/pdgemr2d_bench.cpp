// SPDX-License-Identifier: Apache-2.0
// Does the work of a stream inside one job with the system's ScaLAPACK: pdgemr2d moves a matrix of
// doubles from one block-cyclic layout to another. Every element is verified in every round.
//
//   mpirun -n P tremula_pdgemr2d_bench ROWS COLUMNS  MB NB P Q  MB NB P Q  APART ROUNDS
//
// APART 1: the grids use different processes, as in two jobs; 0: both grids share processes. Prints
// the median seconds of a round, from the start of the first process to the end of the last.
#include <dlfcn.h>
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

namespace {

/// Returns a function of libscalapack, which has no header. Exits if the name is not found.
template <class Function>
Function* symbol(const char* name) {
  static void* library = dlopen("libscalapack-openmpi.so.2.2", RTLD_NOW | RTLD_GLOBAL);
  void* found = library == nullptr ? nullptr : dlsym(library, name);
  if (found == nullptr) {
    std::fprintf(stderr, "expected %s in libscalapack-openmpi.so.2.2, found none\n", name);
    std::exit(2);
  }
  return reinterpret_cast<Function*>(found);
}

struct Side {
  int rows_block, columns_block, rows, columns;  // rows and columns of the grid
  int context = -1, my_row = -1, my_column = -1;
  std::vector<int> descriptor;
  std::vector<double> local;

  /// Returns the global indices that coordinate `me` of `grid` holds.
  static std::vector<int> held(int extent, int block, int me, int grid) {
    std::vector<int> indices;
    for (int i = 0; i < extent; ++i)
      if (i / block % grid == me) indices.push_back(i);
    return indices;
  }
  template <class Visit>
  void for_each(int m, int n, Visit&& visit) {
    if (my_row < 0) return;
    const auto is = held(m, rows_block, my_row, rows),
               js = held(n, columns_block, my_column, columns);
    double* at = local.data();
    for (const int j : js)
      for (const int i : is) visit(*at++, static_cast<double>(i) * n + j);
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 13) {
    std::fprintf(stderr, "expected 12 arguments: see the head of pdgemr2d_bench.cpp\n");
    return 1;
  }
  MPI_Init(&argc, &argv);
  std::vector<int> a;
  for (int i = 1; i < argc; ++i) a.push_back(std::atoi(argv[i]));
  const int m = a[0], n = a[1], rounds = a[11];
  int me = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const auto get = symbol<void(int, int, int*)>("Cblacs_get");
  const auto map = symbol<void(int*, int*, int, int, int)>("Cblacs_gridmap");
  const auto information = symbol<void(int, int*, int*, int*, int*)>("Cblacs_gridinfo");
  const auto pdgemr2d =
      symbol<void(int, int, double*, int, int, int*, double*, int, int, int*, int)>("Cpdgemr2d");

  Side sides[2] = {{a[2], a[3], a[4], a[5], -1, -1, -1, {}, {}},
                   {a[6], a[7], a[8], a[9], -1, -1, -1, {}, {}}};
  int first = 0;
  for (Side& side : sides) {
    std::vector<int> processes(static_cast<std::size_t>(side.rows * side.columns));
    std::iota(processes.begin(), processes.end(), first);  // column-major: any order will do
    get(0, 0, &side.context);
    map(&side.context, processes.data(), side.rows, side.rows, side.columns);
    int rows = 0, columns = 0;
    if (side.context >= 0)
      information(side.context, &rows, &columns, &side.my_row, &side.my_column);
    const auto count = [&](int extent, int block, int coordinate, int grid) {
      return side.my_row < 0 ? 0
                             : static_cast<int>(Side::held(extent, block, coordinate, grid).size());
    };
    const int local_rows = count(m, side.rows_block, side.my_row, side.rows);
    const int local_columns = count(n, side.columns_block, side.my_column, side.columns);
    side.descriptor = {1, side.context,           m, n, side.rows_block, side.columns_block, 0,
                       0, std::max(1, local_rows)};
    side.local.resize(static_cast<std::size_t>(local_rows) *
                      static_cast<std::size_t>(local_columns));
    if (a[10] != 0) first += side.rows * side.columns;
  }
  int all = -1;
  std::vector<int> everybody(static_cast<std::size_t>(size));
  std::iota(everybody.begin(), everybody.end(), 0);
  get(0, 0, &all);
  map(&all, everybody.data(), 1, 1, size);

  std::vector<double> seconds;
  for (int round = 0; round < rounds + 1; ++round) {
    sides[0].for_each(m, n, [&](double& cell, double number) { cell = number + round; });
    std::fill(sides[1].local.begin(), sides[1].local.end(), -1);
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    pdgemr2d(m, n, sides[0].local.data(), 1, 1, sides[0].descriptor.data(), sides[1].local.data(),
             1, 1, sides[1].descriptor.data(), all);
    const double end = MPI_Wtime();
    double began = 0, ended = 0;
    MPI_Reduce(&begin, &began, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Reduce(&end, &ended, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (round > 0) seconds.push_back(ended - began);  // the first round warms up
    sides[1].for_each(m, n, [&](double& cell, double number) {
      if (cell != number + round) {
        std::fprintf(stderr, "expected %.0f, found %.0f\n", number + round, cell);
        MPI_Abort(MPI_COMM_WORLD, 3);
      }
    });
  }
  std::nth_element(seconds.begin(), seconds.begin() + rounds / 2, seconds.end());
  if (me == 0) std::printf("%.9f\n", seconds[static_cast<std::size_t>(rounds / 2)]);
  MPI_Finalize();
}
