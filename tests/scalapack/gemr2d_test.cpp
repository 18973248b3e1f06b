// SPDX-License-Identifier: Apache-2.0
// Compares p?gemr2d of Tremula with ScaLAPACK and with the definition, cell by cell.
#include <gtest/gtest.h>

#include "tests/scalapack/matrices.hpp"

namespace tremula::scalapack_tests {
namespace {

template <class T>
using Fortran = void(const int*, const int*, const Element<T>*, const int*, const int*, const int*,
                     Element<T>*, const int*, const int*, const int*, const int*);
template <class T>
using C = void(int, int, const Element<T>*, int, int, const int*, Element<T>*, int, int, const int*,
               int);

template <class T>
void redistribute(const Library& library, const std::string& name, int m, int n, const Part<T>& a,
                  Part<T>& b, int context) {
  if (name.back() == '_')
    library.function<Fortran<T>>(name)(&m, &n, a.cells.data(), &a.row, &a.column,
                                       a.descriptor.data(), b.cells.data(), &b.row, &b.column,
                                       b.descriptor.data(), &context);
  else
    library.function<C<T>>(name)(m, n, a.cells.data(), a.row, a.column, a.descriptor.data(),
                                 b.cells.data(), b.row, b.column, b.descriptor.data(), context);
}

template <class T>
void compare(Random& random, char letter, int m, int n, const Shape& a_shape, const Context& a_grid,
             const Shape& b_shape, const Context& b_grid, const Context& common) {
  const std::string name = std::string("p") + letter + "gemr2d";
  const std::string ours[] = {"tremula_" + name, "C" + name, name + "_"};
  const std::string& called = ours[random.in(0, 2)];
  if (!common.has_me()) return;
  Part<T> a(a_grid, a_shape), expected(b_grid, b_shape);
  a.fill(1);
  expected.fill(5000);
  Part<T> by_reference = expected, by_tremula = expected;
  const auto before = a.cells;
  expected.for_each_of(m, n, [&](T& cell, int r, int c) { cell = a.filled(1, r, c); });

  redistribute(Library::reference(), name + "_", m, n, a, by_reference, common.number);
  redistribute(Library::tested(), called, m, n, a, by_tremula, common.number);
  EXPECT_TRUE(same_bits(by_tremula.cells, by_reference.cells)) << called;
  EXPECT_TRUE(same_bits(by_tremula.cells, expected.cells)) << called;
  EXPECT_TRUE(same_bits(a.cells, before)) << called << " has changed a";
}

TEST(Libraries, AreDistinct) {
  for (const std::string name :
       {"Cpigemr2d", "Cpsgemr2d", "Cpdgemr2d", "Cpcgemr2d", "Cpzgemr2d", "pigemr2d_", "psgemr2d_",
        "pdgemr2d_", "pcgemr2d_", "pzgemr2d_", "pstran_", "pdtran_", "pctranu_", "pztranu_",
        "pctranc_", "pztranc_"}) {
    void *const theirs = Library::reference().address(name), *const ours =
                                                                 Library::tested().address(name);
    EXPECT_NE(theirs, ours) << name;
    EXPECT_NE(origin_of(theirs).find("libscalapack"), std::string::npos) << name;
    EXPECT_NE(origin_of(ours).find("libtremula_scalapack"), std::string::npos) << name;
  }
}

TEST(Gemr2d, EqualsScalapack) {
  Random random = shared_random();
  std::vector<int> all(static_cast<std::size_t>(world_size()));
  std::iota(all.begin(), all.end(), 0);
  for (int round = 0; round < 60; ++round) {
    // In some rounds a few processes are not in the common context, and take no part.
    const auto in_common =
        some_of(random, all, world_size() - (random.one_in(3) ? pick(random, 1, 2) : 0));
    const int size = static_cast<int>(in_common.size());
    const int columns = random.one_in(2) ? size : 1;
    const Context common(size / columns, columns, in_common);
    const GridShape a(random, in_common), b(random, in_common);
    const Context a_grid(a.rows, a.columns, a.ranks), b_grid(b.rows, b.columns, b.ranks);
    const int m = random.one_in(12) ? 0 : pick(random, 1, 40);
    const int n = random.one_in(12) ? 0 : pick(random, 1, 40);
    const Shape a_shape(random, m, n, a.rows, a.columns), b_shape(random, m, n, b.rows, b.columns);
    SCOPED_TRACE("round " + std::to_string(round));
    const auto check = [&]<class T>(char letter, T) {
      compare<T>(random, letter, m, n, a_shape, a_grid, b_shape, b_grid, common);
    };
    check('i', int{});
    check('s', float{});
    check('d', double{});
    check('c', std::complex<float>{});
    check('z', std::complex<double>{});
  }
}

// ScaLAPACK does not define moves of a matrix within itself, so the definition is the oracle.
TEST(Gemr2d, MovesSubmatricesOfOneMatrix) {
  Random random = shared_random();
  std::vector<int> all(static_cast<std::size_t>(world_size()));
  std::iota(all.begin(), all.end(), 0);
  for (int round = 0; round < 20; ++round) {
    const GridShape grid(random, all);
    const Context context(grid.rows, grid.columns, grid.ranks);
    const int m = pick(random, 1, 20), n = pick(random, 1, 20);
    Shape from(random, m, n, grid.rows, grid.columns);
    from.rows += 9, from.columns += 9;
    Shape to = from;
    to.row = pick(random, 1, from.rows - m + 1);
    to.column = pick(random, 1, from.columns - n + 1);
    if (!context.has_me()) continue;
    Part<double> a(context, from), expected(context, to);
    a.fill(1);
    expected.fill(1);
    expected.for_each_of(m, n, [&](double& cell, int r, int c) { cell = a.filled(1, r, c); });
    Library::tested().function<C<double>>("Cpdgemr2d")(
        m, n, a.cells.data(), from.row, from.column, a.descriptor.data(), a.cells.data(), to.row,
        to.column, a.descriptor.data(), context.number);
    EXPECT_TRUE(same_bits(a.cells, expected.cells)) << "round " << round;
  }
}

}  // namespace
}  // namespace tremula::scalapack_tests
