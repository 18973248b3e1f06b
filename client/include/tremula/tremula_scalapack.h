/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TREMULA_SCALAPACK_H
#define TREMULA_SCALAPACK_H
/*
 * p?gemr2d and p?tran? of ScaLAPACK, done by Tremula: arguments, descriptors and contexts are
 * ScaLAPACK's. The library tremula_scalapack has them under ScaLAPACK's own names, too: Cpdgemr2d,
 * pdgemr2d_, pdtran_, pztranu_, pztranc_ and so on; linked before ScaLAPACK, it takes over the
 * calls of a program that is not changed. It brings no BLACS: the program links the one of its
 * ScaLAPACK, with 4-byte integers.
 *
 * All indices are 1-based. Descriptors are those of dense matrices (desc[0] == 1) with a source
 * process; a source of -1 (a copy on every row or column of the grid) is refused. Local arrays may
 * exceed 2 GiB and may overlap. If m or n is 0, all return at once.
 *
 * Nothing is returned: as ScaLAPACK does, an error says on standard error which argument is wrong,
 * what was expected and what was found, and ends all with MPI_Abort. So does a partner that stays
 * away from the exchange longer than TREMULA_STEP_TIMEOUT (an hour); where the processes agree on
 * what to do (p?gemr2d, and the first call in a context) they wait for each other as MPI does.
 *
 * The first call in a context duplicates its communicator; that and the plans of the last calls are
 * freed by blacs_gridexit. Not for several threads at once.
 */
#include "tremula/tremula.h"

#ifdef __cplusplus
extern "C" {
#endif

/* sub(B) = sub(A): m x n elements from A(ia, ja) to B(ib, jb), each on a grid of its own, the
 * contexts in desca[1] and descb[1]. Called by all processes of `context`, which has at least those
 * of both grids; a process outside of a grid passes -1 for that grid's context, and what else it
 * passes for that matrix does not matter. Cells outside of sub(B) are left alone. */
TREMULA_API void tremula_pigemr2d(int m, int n, const int* a, int ia, int ja, const int* desca,
                                  int* b, int ib, int jb, const int* descb, int context);
TREMULA_API void tremula_psgemr2d(int m, int n, const float* a, int ia, int ja, const int* desca,
                                  float* b, int ib, int jb, const int* descb, int context);
TREMULA_API void tremula_pdgemr2d(int m, int n, const double* a, int ia, int ja, const int* desca,
                                  double* b, int ib, int jb, const int* descb, int context);
/* Complex numbers are two floats (c) or two doubles (z), the real part first. */
TREMULA_API void tremula_pcgemr2d(int m, int n, const void* a, int ia, int ja, const int* desca,
                                  void* b, int ib, int jb, const int* descb, int context);
TREMULA_API void tremula_pzgemr2d(int m, int n, const void* a, int ia, int ja, const int* desca,
                                  void* b, int ib, int jb, const int* descb, int context);

/* sub(C) = beta * sub(C) + alpha * transpose of sub(A): m x n elements from C(ic, jc) on, n x m
 * from A(ia, ja) on. Both matrices in one context, and called by all its processes; one of another
 * context returns at once. With beta == 0 sub(C) is not read, with alpha == 0 sub(A) is not. */
TREMULA_API void tremula_pstran(int m, int n, float alpha, const float* a, int ia, int ja,
                                const int* desca, float beta, float* c, int ic, int jc,
                                const int* descc);
TREMULA_API void tremula_pdtran(int m, int n, double alpha, const double* a, int ia, int ja,
                                const int* desca, double beta, double* c, int ic, int jc,
                                const int* descc);
/* The same of complex numbers; alpha and beta point to one. */
TREMULA_API void tremula_pctranu(int m, int n, const void* alpha, const void* a, int ia, int ja,
                                 const int* desca, const void* beta, void* c, int ic, int jc,
                                 const int* descc);
TREMULA_API void tremula_pztranu(int m, int n, const void* alpha, const void* a, int ia, int ja,
                                 const int* desca, const void* beta, void* c, int ic, int jc,
                                 const int* descc);
/* And with the conjugates of sub(A). */
TREMULA_API void tremula_pctranc(int m, int n, const void* alpha, const void* a, int ia, int ja,
                                 const int* desca, const void* beta, void* c, int ic, int jc,
                                 const int* descc);
TREMULA_API void tremula_pztranc(int m, int n, const void* alpha, const void* a, int ia, int ja,
                                 const int* desca, const void* beta, void* c, int ic, int jc,
                                 const int* descc);

#ifdef __cplusplus
}
#endif
#endif
