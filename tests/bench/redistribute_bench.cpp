// SPDX-License-Identifier: Apache-2.0
// Compares one redistribution inside one job with the system's ScaLAPACK, which does the same in the
// same processes, in turn. Every element of both results is verified.
//
//   mpirun -n P tremula_redistribute_bench copy|tran|copy3 N  MB NB P Q  MB NB P Q  LEADING ROUNDS
//
// copy: pdgemr2d; tran: pdtran, alpha 1, beta 0; copy3: three matrices, in one round by Tremula, in
// three calls by ScaLAPACK. LEADING: leading dimension of the local matrices; 0 for the smallest
// possible. Prints one line: seconds of the first call and medians of later calls, from the start
// of the first process to the end of the last.
#include <dlfcn.h>
#include <tremula/tremula_mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

namespace {

void expect(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "expected %s; %s\n", what, tremula_last_error());
  MPI_Abort(MPI_COMM_WORLD, 3);
}

/// Returns a function of ScaLAPACK or, if `name` begins with "tremula_", of Tremula's stand-ins, which
/// use ScaLAPACK's BLACS.
template <class Function>
Function* symbol(const char* name) {
  static void* const library = dlopen("libscalapack-openmpi.so.2.2", RTLD_NOW | RTLD_GLOBAL);
  static void* const ours = dlopen(TREMULA_SCALAPACK, RTLD_NOW | RTLD_LOCAL);
  expect(library != nullptr && ours != nullptr, "both libraries");
  void* const found = dlsym(std::strncmp(name, "tremula_", 8) == 0 ? ours : library, name);
  expect(found != nullptr, name);
  return reinterpret_cast<Function*>(found);
}

/// One distributed matrix of doubles, column-major.
struct Matrix {
  int m, n, row_block, column_block, rows, columns;  // rows and columns of the grid
  int context = -1, my_row = -1, my_column = -1, leading = 1;
  std::vector<int> descriptor{};
  std::vector<double> local{};
  tremula_layout* layout = nullptr;

  /// Returns the global indices that coordinate `me` of `grid` holds.
  static std::vector<int> held(int extent, int block, int me, int grid) {
    std::vector<int> indices;
    for (int i = 0; i < extent; ++i)
      if (i / block % grid == me) indices.push_back(i);
    return indices;
  }
  /// @param partner  a matrix whose context is reused if it has the same grid, as pdtran requires; may be null
  void make(int wanted_leading, const Matrix* partner) {
    if (partner != nullptr && partner->rows == rows && partner->columns == columns)
      context = partner->context;
    else
      make_context();
    int ignored = 0;
    symbol<void(int, int*, int*, int*, int*)>("Cblacs_gridinfo")(context, &ignored, &ignored,
                                                                 &my_row, &my_column);
    const int local_rows = static_cast<int>(held(m, row_block, my_row, rows).size());
    const auto local_columns = held(n, column_block, my_column, columns).size();
    leading = std::max({1, local_rows, wanted_leading});
    descriptor = {1, context, m, n, row_block, column_block, 0, 0, leading};
    local.assign(static_cast<std::size_t>(leading) * local_columns, 0);
    expect(tremula_layout_from_scalapack(descriptor.data(), rows, columns, &layout) == TREMULA_OK,
           "a layout");
  }
  void make_context() {
    symbol<void(int, int, int*)>("Cblacs_get")(0, 0, &context);
    std::vector<int> processes(static_cast<std::size_t>(rows * columns));
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < columns; ++j)
        processes[static_cast<std::size_t>(i + j * rows)] = i * columns + j;
    symbol<void(int*, int*, int, int, int)>("Cblacs_gridmap")(&context, processes.data(), rows,
                                                              rows, columns);
  }
  template <class Visit>
  void for_each(Visit&& visit) {
    const auto is = held(m, row_block, my_row, rows),
               js = held(n, column_block, my_column, columns);
    for (std::size_t j = 0; j < js.size(); ++j)
      for (std::size_t i = 0; i < is.size(); ++i)
        visit(local[j * static_cast<std::size_t>(leading) + i], is[i], js[j]);
  }
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 13) {
    std::fprintf(stderr, "expected 12 arguments: see the head of redistribute_bench.cpp\n");
    return 1;
  }
  MPI_Init(&argc, &argv);
  int me = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  const std::string op = argv[1];
  std::vector<int> a;
  for (int i = 2; i < argc; ++i) a.push_back(std::atoi(argv[i]));
  const int n = a[0], leading = a[9], rounds = a[10];
  const bool is_transposed = op == "tran";
  const std::size_t count = op == "copy3" ? 3 : 1;

  std::vector<Matrix> from, to;
  for (std::size_t k = 0; k < count; ++k) {
    from.push_back({n, n, a[1], a[2], a[3], a[4]});
    to.push_back({n, n, a[5], a[6], a[7], a[8]});
    from.back().make(leading, nullptr);
    to.back().make(leading, &from.back());
  }
  const auto value = [&](std::size_t k, int i, int j, int round) {
    return static_cast<double>(i) * n + j + 0.25 * static_cast<double>(k) + round;
  };

  std::vector<tremula_update> updates(count);
  const int axes[] = {1, 0};
  std::vector<const void*> sources;
  std::vector<void*> targets;
  std::vector<std::size_t> source_bytes, target_bytes;
  for (std::size_t k = 0; k < count; ++k) {
    updates[k] = tremula_update_init(from[k].layout, to[k].layout, TREMULA_F64);
    if (is_transposed) updates[k].axes = axes;
    sources.push_back(from[k].local.data());
    targets.push_back(to[k].local.data());
    source_bytes.push_back(from[k].local.size() * 8);
    target_bytes.push_back(to[k].local.size() * 8);
  }
  tremula_redistribution* plan = nullptr;
  const auto ours = [&] {
    if (plan == nullptr)
      expect(tremula_redistribution_make(MPI_COMM_WORLD, updates.data(), count,
                                         sizeof(tremula_update), &plan) == TREMULA_OK,
             "a plan");
    expect(tremula_redistribution_run(plan, sources.data(), source_bytes.data(), targets.data(),
                                      target_bytes.data()) == TREMULA_OK,
           "a run");
  };
  const auto without_plan = [&] {
    for (std::size_t k = 0; k < count; ++k) {
      tremula_redistribution* once = nullptr;
      expect(tremula_redistribution_make(MPI_COMM_WORLD, &updates[k], 1, sizeof(tremula_update),
                                         &once) == TREMULA_OK &&
                 tremula_redistribution_run(once, &sources[k], &source_bytes[k], &targets[k],
                                            &target_bytes[k]) == TREMULA_OK,
             "a plan that is made for one run");
      tremula_redistribution_free(once);
    }
  };
  using Gemr2d = void(int, int, double*, int, int, int*, double*, int, int, int*, int);
  const auto pdgemr2d = symbol<Gemr2d>("Cpdgemr2d"),
             our_pdgemr2d = symbol<Gemr2d>("tremula_pdgemr2d");
  const auto pdtran = symbol<void(int*, int*, double*, double*, int*, int*, int*, double*, double*,
                                  int*, int*, int*)>("pdtran_");
  const auto our_pdtran = symbol<void(int, int, double, const double*, int, int, const int*, double,
                                      double*, int, int, const int*)>("tremula_pdtran");
  const auto stand_in = [&] {
    for (std::size_t k = 0; k < count; ++k) {
      double *const x = from[k].local.data(), *const y = to[k].local.data();
      int *const x_is = from[k].descriptor.data(), *const y_is = to[k].descriptor.data();
      if (is_transposed)
        our_pdtran(n, n, 1, x, 1, 1, x_is, 0, y, 1, 1, y_is);
      else
        our_pdgemr2d(n, n, x, 1, 1, x_is, y, 1, 1, y_is, x_is[1]);
    }
  };
  const auto theirs = [&] {
    int one = 1, size = n;
    double alpha = 1, beta = 0;
    for (std::size_t k = 0; k < count; ++k) {
      double *const x = from[k].local.data(), *const y = to[k].local.data();
      int *const x_is = from[k].descriptor.data(), *const y_is = to[k].descriptor.data();
      if (is_transposed)
        pdtran(&size, &size, &alpha, x, &one, &one, x_is, &beta, y, &one, &one, y_is);
      else
        pdgemr2d(n, n, x, 1, 1, x_is, y, 1, 1, y_is, x_is[1]);
    }
  };

  int round = 0;
  const auto timed = [&](const auto& call) {
    ++round;
    for (std::size_t k = 0; k < count; ++k) {
      from[k].for_each([&](double& cell, int i, int j) { cell = value(k, i, j, round); });
      to[k].for_each([&](double& cell, int, int) { cell = -1; });
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    call();
    const double end = MPI_Wtime();
    double began = 0, ended = 0;
    MPI_Allreduce(&begin, &began, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(&end, &ended, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    for (std::size_t k = 0; k < count; ++k)
      to[k].for_each([&](double cell, int i, int j) {
        expect(cell == (is_transposed ? value(k, j, i, round) : value(k, i, j, round)),
               "every element in its place");
      });
    return ended - began;
  };
  const auto copied = [&] {
    for (std::size_t k = 0; k < count; ++k)
      std::memcpy(to[k].local.data(), from[k].local.data(),
                  std::min(source_bytes[k], target_bytes[k]));
  };
  const auto seconds_of_memcpy = [&] {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    copied();
    const double end = MPI_Wtime();
    double began = 0, ended = 0;
    MPI_Allreduce(&begin, &began, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(&end, &ended, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return ended - began;
  };

  const double first = timed(ours);
  timed(theirs);
  timed(without_plan);
  timed(stand_in);
  std::vector<double> our_seconds, their_seconds, bare_seconds, stand_in_seconds, copy_seconds;
  for (int i = 0; i < rounds; ++i) {
    our_seconds.push_back(timed(ours));
    their_seconds.push_back(timed(theirs));
    bare_seconds.push_back(timed(without_plan));
    stand_in_seconds.push_back(timed(stand_in));
    copy_seconds.push_back(seconds_of_memcpy());
  }
  if (me == 0)
    std::printf("%.9f %.9f %.9f %.9f %.9f %.9f\n", first, median(our_seconds), median(bare_seconds),
                median(stand_in_seconds), median(their_seconds), median(copy_seconds));
  tremula_redistribution_free(plan);
  MPI_Finalize();
}
