/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TREMULA_SCALAPACK_H
#define TREMULA_SCALAPACK_H
/*
 * p?gemr2d and p?tran? of ScaLAPACK, implemented by Tremula, with the arguments, descriptors and contexts of
 * ScaLAPACK. The library tremula_scalapack also exports them under the names of ScaLAPACK (Cpdgemr2d,
 * pdgemr2d_, pdtran_, pztranu_, pztranc_ and so on): linked before ScaLAPACK, it takes over the calls of an
 * unchanged program. It also takes over the calls of a program that was linked without it and runs with
 * LD_PRELOAD=<prefix>/lib/libtremula_scalapack.so. With TREMULA_LOG=info, one line on standard error reports
 * which library was found. The library contains no BLACS: the program links the BLACS of its ScaLAPACK, with
 * 4-byte integers.
 *
 * All indices are 1-based. Descriptors are those of dense matrices (desc[0] == 1) with a source
 * process; a source of -1 (a copy on every row or column of the grid) is refused. Local arrays may
 * exceed 2 GiB and may overlap. If m or n is 0, all functions return immediately.
 *
 * The functions return nothing: as in ScaLAPACK, an error writes to standard error which argument
 * is wrong, what was expected and what was found, and ends the job with MPI_Abort. A process that
 * is missing from the exchange for longer than TREMULA_STEP_TIMEOUT (default: an hour) has the same
 * effect. While the processes agree on what to do (p?gemr2d, and the first call in a context), they
 * wait for each other without a time limit, as in MPI.
 *
 * The first call in a context duplicates its communicator; blacs_gridexit frees the duplicate and
 * the plans of the last calls. Not thread-safe.
 */
#include "tremula/tremula.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Copies sub(A) to sub(B): m x n elements from A(ia, ja) to B(ib, jb), each on its own grid, with
 * the contexts desca[1] and descb[1]. Called by all processes of `context`, which contains at least
 * the processes of both grids. A process outside a grid passes -1 as the context of that grid; its
 * other arguments for that matrix are ignored. Cells outside sub(B) are left unchanged. */
TREMULA_API void tremula_pigemr2d(int m, int n, const int* a, int ia, int ja, const int* desca,
                                  int* b, int ib, int jb, const int* descb, int context);
TREMULA_API void tremula_psgemr2d(int m, int n, const float* a, int ia, int ja, const int* desca,
                                  float* b, int ib, int jb, const int* descb, int context);
TREMULA_API void tremula_pdgemr2d(int m, int n, const double* a, int ia, int ja, const int* desca,
                                  double* b, int ib, int jb, const int* descb, int context);
/* Copy complex numbers: two floats (c) or two doubles (z) each, the real part first. */
TREMULA_API void tremula_pcgemr2d(int m, int n, const void* a, int ia, int ja, const int* desca,
                                  void* b, int ib, int jb, const int* descb, int context);
TREMULA_API void tremula_pzgemr2d(int m, int n, const void* a, int ia, int ja, const int* desca,
                                  void* b, int ib, int jb, const int* descb, int context);

/* Computes sub(C) = beta * sub(C) + alpha * transpose of sub(A): m x n elements that begin at
 * C(ic, jc), and n x m that begin at A(ia, ja). Both matrices have the same context, and all its
 * processes call this; a process outside the context returns immediately. If beta == 0, sub(C) is
 * not read; if alpha == 0, sub(A) is not read. */
TREMULA_API void tremula_pstran(int m, int n, float alpha, const float* a, int ia, int ja,
                                const int* desca, float beta, float* c, int ic, int jc,
                                const int* descc);
TREMULA_API void tremula_pdtran(int m, int n, double alpha, const double* a, int ia, int ja,
                                const int* desca, double beta, double* c, int ic, int jc,
                                const int* descc);
/* Does what p?tran does, for complex numbers; alpha and beta point to one complex number each. */
TREMULA_API void tremula_pctranu(int m, int n, const void* alpha, const void* a, int ia, int ja,
                                 const int* desca, const void* beta, void* c, int ic, int jc,
                                 const int* descc);
TREMULA_API void tremula_pztranu(int m, int n, const void* alpha, const void* a, int ia, int ja,
                                 const int* desca, const void* beta, void* c, int ic, int jc,
                                 const int* descc);
/* Does what p?tranu does, with the conjugate transpose of sub(A). */
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
