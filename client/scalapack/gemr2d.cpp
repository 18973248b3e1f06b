// SPDX-License-Identifier: Apache-2.0
// The processes of the common context agree, in one reduction, on the values that only the
// processes of a grid know: its matrix, and which rank has which cell. The reduction takes the
// lowest value, so any value wins over "unknown". Each value is also sent negated: the lowest and
// the highest value show whether all processes of the grid agree.
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <limits>
#include <utility>

#include "client/scalapack/context_job.hpp"
#include "client/scalapack/matrix.hpp"
#include "core/error.hpp"

namespace tremula::client::scalapack {
namespace {

constexpr std::int64_t unknown = std::numeric_limits<std::int64_t>::max();

/// Names of the numbers that must be equal on all processes of a matrix. {} is replaced by the name
/// of the matrix.
constexpr std::array names{"rows of the grid of desc{}",
                           "columns of the grid of desc{}",
                           "i{}",
                           "j{}",
                           "desc{}[0] (DTYPE_)",
                           "desc{}[2] (M_)",
                           "desc{}[3] (N_)",
                           "desc{}[4] (MB_)",
                           "desc{}[5] (NB_)",
                           "desc{}[6] (RSRC_)",
                           "desc{}[7] (CSRC_)"};
using Numbers = std::array<int*, names.size()>;
Numbers numbers_of(Matrix& x) {
  auto& d = x.descriptor;
  return {&x.grid.rows, &x.grid.columns, &x.row, &x.column, &d[0], &d[2],
          &d[3],        &d[4],           &d[5],  &d[6],     &d[7]};
}

class Agreement {
public:
  Agreement(std::size_t matrices, RankCount size)
      : size_(static_cast<std::size_t>(size)),
        values_(matrices * (2 * names.size() + size_), unknown) {}

  /// Enters the values of matrix i that this process knows.
  void contribute(std::size_t i, Matrix matrix, Rank me) {
    if (!matrix.grid.has_me()) return;
    const auto numbers = numbers_of(matrix);
    for (std::size_t k = 0; k < numbers.size(); ++k) {
      at(i)[2 * k] = *numbers[k];
      at(i)[2 * k + 1] = -std::int64_t{*numbers[k]};
    }
    at(i)[2 * names.size() + core::at(me)] =
        std::int64_t{matrix.grid.my_row} * matrix.grid.columns + matrix.grid.my_column;
  }

  /// Combines the values of all processes. Collective.
  void agree(MPI_Comm comm) {
    transport::mpi::check(
        MPI_Allreduce(MPI_IN_PLACE, values_.data(), static_cast<int>(values_.size()), MPI_INT64_T,
                      MPI_MIN, comm),
        "MPI_Allreduce");
  }

  /// Completes `matrix` with the values that the processes of its grid know.
  void complete(std::size_t i, Matrix& matrix) {
    const std::int64_t* value = at(i);
    core::expects(*value != unknown, [&] {
      return fmt::format(
          "desc{}: expected the context of a grid in its second entry on the processes of that "
          "grid; found -1 on all",
          matrix.name);
    });
    const auto numbers = numbers_of(matrix);
    for (std::size_t k = 0; k < numbers.size(); ++k, value += 2) {
      core::expects(value[0] == -value[1], [&] {
        return fmt::format("{}: expected one value on all processes of its grid; found {} to {}",
                           fmt::format(fmt::runtime(names[k]), matrix.name), value[0], -value[1]);
      });
      *numbers[k] = static_cast<int>(value[0]);
    }
    const auto cells =
        static_cast<std::size_t>(matrix.grid.rows) * static_cast<std::size_t>(matrix.grid.columns);
    std::vector<Rank> ranks(cells, Rank{-1});
    for (const Rank rank : core::all_ranks(static_cast<RankCount>(size_))) {
      const std::int64_t cell = value[core::at(rank)];
      if (cell == unknown) continue;
      const Rank before = std::exchange(ranks[static_cast<std::size_t>(cell)], rank);
      core::expects(before < Rank{0}, [&] {
        return fmt::format(
            "desc{}[1] (CTXT_): expected the context of one grid, or -1; found processes {} and {} "
            "of the common context in the same cell of two grids",
            matrix.name, before.value, rank.value);
      });
    }
    for (std::size_t cell = 0; cell < cells; ++cell)
      core::expects(ranks[cell] >= Rank{0}, [&] {
        return fmt::format(
            "context: expected a context that contains all processes of the grid of desc{}; found "
            "that the process in row {} and column {} is missing",
            matrix.name, cell / static_cast<std::size_t>(matrix.grid.columns),
            cell % static_cast<std::size_t>(matrix.grid.columns));
      });
    matrix.members = ranges_of(ranks);
  }

private:
  /// Returns the values of matrix i: its numbers, each followed by its negative, then the cell of each rank.
  std::int64_t* at(std::size_t i) { return values_.data() + i * (2 * names.size() + size_); }

  std::size_t size_;
  std::vector<std::int64_t> values_;
};

}  // namespace

void gemr2d(core::ElementType type, int m, int n, const void* a, int ia, int ja, const int* desca,
            void* b, int ib, int jb, const int* descb, int context) {
  if (is_empty(m, n)) return;
  core::expects(grid_of(context).has_me(), [&] {
    return fmt::format(
        "context: expected a context that contains all processes of both grids, including this "
        "one; found {}",
        context);
  });
  Job& job = ContextJob::of(context).job();
  std::array matrices{matrix_of('a', desca, ia, ja), matrix_of('b', descb, ib, jb)};
  Agreement agreement(matrices.size(), job.group().size());
  for (std::size_t i = 0; i < matrices.size(); ++i)
    agreement.contribute(i, matrices[i], job.group().rank());
  agreement.agree(job.group().comm());
  for (std::size_t i = 0; i < matrices.size(); ++i) agreement.complete(i, matrices[i]);
  move(job, {.m = m, .n = n, .transformation = {.from = type, .to = type}}, matrices[0], a,
       matrices[1], b);
}

}  // namespace tremula::client::scalapack
