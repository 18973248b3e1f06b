// SPDX-License-Identifier: Apache-2.0
#pragma once
// Makes random ScaLAPACK matrices in which each cell has a different value.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <complex>
#include <cstring>
#include <numeric>

#include "tests/index_calc/random.hpp"
#include "tests/scalapack/libraries.hpp"

namespace tremula::scalapack_tests {

/// The type of an element in the C interface: void if it is complex.
template <class T>
using Element = std::conditional_t<std::is_arithmetic_v<T>, T, void>;

using index_calc::testing::Random;

inline int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}
inline int world_size() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

/// Returns a generator with the same seed on all ranks. Collective.
inline Random shared_random() {
  unsigned seed = std::random_device{}();
  if (const char* given = std::getenv("TREMULA_TEST_SEED"))
    seed = static_cast<unsigned>(std::stoul(given));
  MPI_Bcast(&seed, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
  setenv("TREMULA_TEST_SEED", std::to_string(seed).c_str(), 1);
  if (world_rank() != 0) std::cout.setstate(std::ios::badbit);
  return Random();
}

inline int pick(Random& random, int low, int high) {
  return static_cast<int>(random.in(low, high));
}

/// Returns `count` of `ranks` in random order.
inline std::vector<int> some_of(Random& random, std::vector<int> ranks, int count) {
  for (std::size_t i = ranks.size(); i > 1; --i)
    std::swap(ranks[i - 1], ranks[static_cast<std::size_t>(random.in(0, static_cast<int>(i) - 1))]);
  ranks.resize(static_cast<std::size_t>(count));
  return ranks;
}

/// A grid of random shape on some of the given ranks.
struct GridShape {
  GridShape(Random& random, const std::vector<int>& from) {
    const int size = static_cast<int>(from.size());
    rows = pick(random, 1, size);
    columns = pick(random, 1, size / rows);
    ranks = some_of(random, from, rows * columns);
  }
  int rows, columns;
  std::vector<int> ranks;
};

template <class T>
T number(double value) {
  if constexpr (std::is_arithmetic_v<T>)
    return static_cast<T>(value);
  else
    return T(static_cast<typename T::value_type>(value),
             static_cast<typename T::value_type>(-value - 0.5));
}

/// A matrix and the submatrix of m x n elements that begins at (row, column), 1-based.
struct Shape {
  Shape(Random& random, int m, int n, int grid_rows, int grid_columns)
      : row(pick(random, 1, 9)),
        column(pick(random, 1, 9)),
        rows(row - 1 + m + pick(random, 0, 7)),
        columns(column - 1 + n + pick(random, 0, 7)),
        row_block(pick(random, 1, 9)),
        column_block(pick(random, 1, 9)),
        row_source(pick(random, 0, grid_rows - 1)),
        column_source(pick(random, 0, grid_columns - 1)),
        unused(pick(random, 0, 3)) {
    if (!random.one_in(4)) return;
    row = column = 1, rows = std::max(m, 1), columns = std::max(n, 1);
  }
  int row, column, rows, columns, row_block, column_block, row_source, column_source;
  int unused;  // rows of a local array in addition to the necessary ones
};

/// The part of a matrix that this process holds.
template <class T>
class Part {
public:
  Part(const Context& context, const Shape& s) : shape_(s), context_(context) {
    if (!context.has_me()) {  // the function must ignore the values in this case
      descriptor.fill(-77 - world_rank());
      descriptor[1] = -1;
      row = column = -5 - world_rank();
      return;
    }
    is_ = held(s.rows, s.row_block, s.row_source, context.my_row, context.rows);
    js_ = held(s.columns, s.column_block, s.column_source, context.my_column, context.columns);
    leading_ = std::max<std::size_t>(1, is_.size()) + static_cast<std::size_t>(s.unused);
    cells.resize(leading_ * js_.size());
    for (std::size_t k = 0; k < cells.size(); ++k)
      cells[k] = number<T>(-1.0 - static_cast<double>(k));
    descriptor = {1,
                  context.number,
                  s.rows,
                  s.columns,
                  s.row_block,
                  s.column_block,
                  s.row_source,
                  s.column_source,
                  static_cast<int>(leading_)};
    row = s.row, column = s.column;
  }

  /// Calls visit(cell, i, j) with the 0-based place in the matrix.
  template <class Visit>
  void for_each(Visit&& visit) {
    for (std::size_t c = 0; c < js_.size(); ++c)
      for (std::size_t r = 0; r < is_.size(); ++r) visit(cells[c * leading_ + r], is_[r], js_[c]);
  }
  /// Calls visit(cell, i, j) for the cells of the submatrix of m x n elements, with the 0-based place in it.
  template <class Visit>
  void for_each_of(int m, int n, Visit&& visit) {
    for_each([&](T& cell, int i, int j) {
      const int r = i - (shape_.row - 1), c = j - (shape_.column - 1);
      if (r >= 0 && r < m && c >= 0 && c < n) visit(cell, r, c);
    });
  }
  /// Sets each cell to `first` plus the column-major number of its place in the matrix.
  void fill(double first) {
    for_each(
        [&](T& cell, int i, int j) { cell = number<T>(first + i + double{1} * j * shape_.rows); });
  }
  T filled(double first, int r, int c) const {
    return number<T>(first + (shape_.row - 1 + r) +
                     double{1} * (shape_.column - 1 + c) * shape_.rows);
  }

  const Context& context() const { return context_; }

  std::array<int, 9> descriptor{};
  int row = 1, column = 1;
  std::vector<T> cells;

private:
  static std::vector<int> held(int extent, int block, int source, int me, int grid) {
    std::vector<int> indices;
    for (int i = 0; i < extent; ++i)
      if ((i / block + source) % grid == me) indices.push_back(i);
    return indices;
  }

  Shape shape_;
  const Context& context_;
  std::vector<int> is_, js_;
  std::size_t leading_ = 1;
};

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

}  // namespace tremula::scalapack_tests
