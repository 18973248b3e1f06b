// SPDX-License-Identifier: Apache-2.0
// The exported names: those of Tremula, and those of ScaLAPACK for C (Cpdgemr2d) and Fortran
// (pdgemr2d_, pdtran_).
#include <complex>
#include <cstdio>
#include <exception>

#include "client/scalapack/matrix.hpp"
#include "tremula/tremula_scalapack.h"

namespace {

using namespace tremula::client::scalapack;
using tremula::core::ElementType;

/// Reports errors as ScaLAPACK does, whose callers check no status.
template <class Body>
void run_or_abort(const char* function, Body&& body) noexcept {
  try {
    body();
  } catch (const std::exception& e) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    std::fprintf(stderr, "%s, process %d of MPI_COMM_WORLD: %s\n", function, rank, e.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): the arguments are types
#define TREMULA_GEMR2D(name, type, element)                                                        \
  static void run_##name(int m, int n, const type* a, int ia, int ja, const int* desca, type* b,   \
                         int ib, int jb, const int* descb, int context) {                          \
    run_or_abort(#name, [&] {                                                                      \
      gemr2d(ElementType::element, m, n, a, ia, ja, desca, b, ib, jb, descb, context);             \
    });                                                                                            \
  }                                                                                                \
  extern "C" {                                                                                     \
  void tremula_##name(int m, int n, const type* a, int ia, int ja, const int* desca, type* b,      \
                      int ib, int jb, const int* descb, int context) {                             \
    run_##name(m, n, a, ia, ja, desca, b, ib, jb, descb, context);                                 \
  }                                                                                                \
  TREMULA_API void C##name(int m, int n, const type* a, int ia, int ja, const int* desca, type* b, \
                           int ib, int jb, const int* descb, int context) {                        \
    run_##name(m, n, a, ia, ja, desca, b, ib, jb, descb, context);                                 \
  }                                                                                                \
  TREMULA_API void name##_(const int* m, const int* n, const type* a, const int* ia,               \
                           const int* ja, const int* desca, type* b, const int* ib, const int* jb, \
                           const int* descb, const int* context) {                                 \
    run_##name(*m, *n, a, *ia, *ja, desca, b, *ib, *jb, descb, *context);                          \
  }                                                                                                \
  }

/// @param scalar  how alpha and beta are passed in C
/// @param value   expression for the value of a scalar x
#define TREMULA_TRAN(name, type, number, scalar, value, element, is_conjugate)                     \
  static void run_##name(int m, int n, const number& alpha, const type* a, int ia, int ja,         \
                         const int* desca, const number& beta, type* c, int ic, int jc,            \
                         const int* descc) {                                                       \
    run_or_abort(#name, [&] {                                                                      \
      tran({ElementType::element, ElementType::element, alpha, beta, is_conjugate}, m, n, a, ia,   \
           ja, desca, c, ic, jc, descc);                                                           \
    });                                                                                            \
  }                                                                                                \
  extern "C" {                                                                                     \
  void tremula_##name(int m, int n, scalar alpha, const type* a, int ia, int ja, const int* desca, \
                      scalar beta, type* c, int ic, int jc, const int* descc) {                    \
    run_##name(m, n, value(number, alpha), a, ia, ja, desca, value(number, beta), c, ic, jc,       \
               descc);                                                                             \
  }                                                                                                \
  TREMULA_API void name##_(const int* m, const int* n, const number* alpha, const type* a,         \
                           const int* ia, const int* ja, const int* desca, const number* beta,     \
                           type* c, const int* ic, const int* jc, const int* descc) {              \
    run_##name(*m, *n, *alpha, a, *ia, *ja, desca, *beta, c, *ic, *jc, descc);                     \
  }                                                                                                \
  }
// NOLINTEND(bugprone-macro-parentheses)
#define TREMULA_ITSELF(number, x) x
#define TREMULA_POINTED_TO(number, x) *static_cast<const number*>(x)

TREMULA_GEMR2D(pigemr2d, int, i32)
TREMULA_GEMR2D(psgemr2d, float, f32)
TREMULA_GEMR2D(pdgemr2d, double, f64)
TREMULA_GEMR2D(pcgemr2d, void, c64)
TREMULA_GEMR2D(pzgemr2d, void, c128)

TREMULA_TRAN(pstran, float, float, float, TREMULA_ITSELF, f32, false)
TREMULA_TRAN(pdtran, double, double, double, TREMULA_ITSELF, f64, false)
TREMULA_TRAN(pctranu, void, std::complex<float>, const void*, TREMULA_POINTED_TO, c64, false)
TREMULA_TRAN(pztranu, void, std::complex<double>, const void*, TREMULA_POINTED_TO, c128, false)
TREMULA_TRAN(pctranc, void, std::complex<float>, const void*, TREMULA_POINTED_TO, c64, true)
TREMULA_TRAN(pztranc, void, std::complex<double>, const void*, TREMULA_POINTED_TO, c128, true)
