// SPDX-License-Identifier: Apache-2.0
// Compares p?tran? of Tremula with ScaLAPACK and with the definition.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/scalapack/matrices.hpp"

namespace tremula::scalapack_tests {
namespace {

template <class T>
using Real = decltype(std::abs(T{}));

template <class T>
using Fortran = void(const int*, const int*, const T*, const Element<T>*, const int*, const int*,
                     const int*, const T*, Element<T>*, const int*, const int*, const int*);
/// The type of a scalar argument is T, or const void* if T is complex.
template <class T, class Scalar>
using C = void(int, int, Scalar, const Element<T>*, int, int, const int*, Scalar, Element<T>*, int,
               int, const int*);

template <class T>
struct Case {
  int m, n;
  T alpha, beta;
  Shape a_shape, c_shape;
  bool conjugates;
};

template <class T>
void transpose(const Library& library, const std::string& name, const Case<T>& x, const Part<T>& a,
               Part<T>& c) {
  const auto call = [&](auto* function, auto alpha, auto beta) {
    function(x.m, x.n, alpha, a.cells.data(), a.row, a.column, a.descriptor.data(), beta,
             c.cells.data(), c.row, c.column, c.descriptor.data());
  };
  if (name.back() == '_')
    library.function<Fortran<T>>(name)(&x.m, &x.n, &x.alpha, a.cells.data(), &a.row, &a.column,
                                       a.descriptor.data(), &x.beta, c.cells.data(), &c.row,
                                       &c.column, c.descriptor.data());
  else if constexpr (std::is_arithmetic_v<T>)
    call(library.function<C<T, T>>(name), x.alpha, x.beta);
  else
    call(library.function<C<T, const void*>>(name), &x.alpha, &x.beta);
}

/// Returns the largest difference in units of the allowed rounding error; HUGE_VAL if any exceeds it or is NaN.
template <class T>
double difference(const Case<T>& x, const std::vector<T>& found, const std::vector<T>& expected) {
  double worst = found.size() == expected.size() ? 0 : HUGE_VAL;
  for (std::size_t k = 0; k < found.size() && worst < HUGE_VAL; ++k) {
    if (found[k] == expected[k]) continue;
    // Values of cells are below 20000.
    const double allowed = 20000 * 2 * (std::abs(x.alpha) + std::abs(x.beta)) *
                           static_cast<double>(std::numeric_limits<Real<T>>::epsilon());
    const double off = std::abs(found[k] - expected[k]) / allowed;
    worst = off <= 1 ? std::max(worst, off) : HUGE_VAL;
  }
  return worst;
}

template <class T>
void compare(Random& random, const std::string& name, Case<T> x, const Context& context) {
  const std::string called = random.one_in(2) ? "tremula_" + name : name + "_";
  if (!context.has_me()) return;
  Part<T> a(context, x.a_shape), expected(context, x.c_shape);
  const T nan = number<T>(std::numeric_limits<double>::quiet_NaN());
  a.fill(1);
  expected.fill(5000);
  Part<T> by_reference = expected, by_tremula = expected;
  const auto before = a.cells;
  if (x.alpha == T{}) a.for_each_of(x.n, x.m, [&](T& cell, int, int) { cell = nan; });
  if (x.beta == T{}) by_tremula.for_each_of(x.m, x.n, [&](T& cell, int, int) { cell = nan; });
  expected.for_each_of(x.m, x.n, [&](T& cell, int r, int c) {
    T value = a.filled(1, c, r);
    if constexpr (!std::is_arithmetic_v<T>)
      if (x.conjugates) value = std::conj(value);
    if (x.alpha == T{1} && x.beta == T{})
      cell = value;
    else
      cell = x.beta * cell + x.alpha * value;
  });
  transpose(Library::tested(), called, x, a, by_tremula);
  if (x.alpha == T{}) a.cells = before;
  transpose(Library::reference(), name + "_", x, a, by_reference);
  EXPECT_LE(difference(x, by_tremula.cells, expected.cells), 1)
      << called << " alpha " << x.alpha << " beta " << x.beta;
  EXPECT_LE(difference(x, by_tremula.cells, by_reference.cells), 1)
      << called << " and ScaLAPACK, alpha " << x.alpha << " beta " << x.beta;
  if (x.alpha == T{1} && x.beta == T{}) {
    EXPECT_TRUE(same_bits(by_tremula.cells, expected.cells)) << called;
  }
  EXPECT_TRUE(same_bits(a.cells, before)) << called << " has changed a";
}

template <class T>
T scalar(Random& random) {
  constexpr double values[] = {0, 1, 1, -2, 0.3};
  const double value = values[random.in(0, 4)];
  if constexpr (!std::is_arithmetic_v<T>)
    if (random.one_in(2))
      return T(static_cast<typename T::value_type>(value),
               static_cast<typename T::value_type>(0.7));
  return T(static_cast<Real<T>>(value));
}

TEST(Tran, EqualsScalapackUpToRounding) {
  Random random = shared_random();
  std::vector<int> all(static_cast<std::size_t>(world_size()));
  std::iota(all.begin(), all.end(), 0);
  for (int round = 0; round < 60; ++round) {
    const GridShape grid(random, all);
    const Context context(grid.rows, grid.columns, grid.ranks);
    const int m = random.one_in(12) ? 0 : pick(random, 1, 40);
    const int n = random.one_in(12) ? 0 : pick(random, 1, 40);
    const Shape a(random, n, m, grid.rows, grid.columns), c(random, m, n, grid.rows, grid.columns);
    SCOPED_TRACE("round " + std::to_string(round));
    const auto check = [&]<class T>(const char* name, T) {
      const T alpha = scalar<T>(random), beta = random.one_in(2) ? T{} : scalar<T>(random);
      compare<T>(random, name, {m, n, alpha, beta, a, c, std::string(name).back() == 'c'}, context);
    };
    check("pstran", float{});
    check("pdtran", double{});
    check("pctranu", std::complex<float>{});
    check("pztranu", std::complex<double>{});
    check("pctranc", std::complex<float>{});
    check("pztranc", std::complex<double>{});
  }
}

}  // namespace
}  // namespace tremula::scalapack_tests
