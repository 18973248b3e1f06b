/* SPDX-License-Identifier: Apache-2.0 */
/* An existing program that was only relinked, with -ltremula_scalapack before its ScaLAPACK:
 *
 *   relink          checks that it calls the functions of Tremula, and their results
 *   relink wrong    passes a 0-based ia
 *   relink theirs   expects that the functions are those of ScaLAPACK
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <tremula/tremula.h>

void Cblacs_get(int context, int what, int* value);
void Cblacs_gridinit(int* context, const char* order, int rows, int columns);
void Cblacs_gridinfo(int context, int* rows, int* columns, int* my_row, int* my_column);
void Cblacs_gridexit(int context);
void pdgemr2d_(const int* m, const int* n, const double* a, const int* ia, const int* ja,
               const int* desca, double* b, const int* ib, const int* jb, const int* descb,
               const int* context);
void pdtran_(const int* m, const int* n, const double* alpha, const double* a, const int* ia,
             const int* ja, const int* desca, const double* beta, double* c, const int* ic,
             const int* jc, const int* descc);

enum { order = 20 };

/* The local part of a square matrix on the grid of a context. */
typedef struct Part {
  int desc[9], block, rows, columns, my_row, my_column, count, global[order * order];
  double cells[order * order];
} Part;

static void make(Part* p, int context, int block) {
  Cblacs_gridinfo(context, &p->rows, &p->columns, &p->my_row, &p->my_column);
  const int desc[9] = {1, context, order, order, block, block, 0, 0, 1};
  memcpy(p->desc, desc, sizeof desc);
  p->count = 0;
  if (p->my_row < 0) return;
  int held = 0;
  for (int i = 0; i < order; ++i) held += i / block % p->rows == p->my_row;
  if (held > 0) p->desc[8] = held;
  for (int j = 0; j < order; ++j)
    for (int i = 0; i < order; ++i)
      if (i / block % p->rows == p->my_row && j / block % p->columns == p->my_column)
        p->global[p->count++] = i + j * order;
}

static int is_from(const char* library, const char* name) {
  Dl_info info;
  void* const address = dlsym(RTLD_DEFAULT, name);
  if (dladdr(address, &info) != 0 && strstr(info.dli_fname, library) != NULL) return 1;
  fprintf(stderr, "expected %s in %s, found it elsewhere\n", name, library);
  return 0;
}

int main(int argc, char** argv) {
  const char* const mode = argc > 1 ? argv[1] : "";
  const char* const library =
      strcmp(mode, "theirs") == 0 ? "libscalapack-openmpi" : "libtremula_scalapack";
  MPI_Init(NULL, NULL);
  if (tremula_version()[0] == '\0') return 2; /* both libraries are in one process */
  int world, tall, wide;
  Cblacs_get(-1, 0, &world);
  tall = wide = world;
  Cblacs_gridinit(&tall, "Column", 4, 1);
  Cblacs_gridinit(&wide, "Row", 1, 3);
  static Part a, b, c;
  make(&a, tall, 3);
  make(&b, wide, 7);
  make(&c, wide, 7);
  for (int k = 0; k < a.count; ++k) a.cells[k] = a.global[k];

  const int n = order, first = strcmp(mode, "wrong") == 0 ? 0 : 1, one = 1;
  const double alpha = 2, beta = 0;
  pdgemr2d_(&n, &n, a.cells, &first, &one, a.desc, b.cells, &one, &one, b.desc, &tall);
  if (b.my_row >= 0)
    pdtran_(&n, &n, &alpha, b.cells, &one, &one, b.desc, &beta, c.cells, &one, &one, c.desc);

  int is_right =
      is_from(library, "pdgemr2d_") && is_from(library, "Cpdgemr2d") && is_from(library, "pdtran_");
  for (int k = 0; k < b.count; ++k) {
    const int i = b.global[k] % order, j = b.global[k] / order;
    if (b.cells[k] != i + j * order || c.cells[k] != 2.0 * (j + i * order)) is_right = 0;
  }
  if (!is_right)
    fprintf(stderr, "expected the matrix and twice its transpose, found other elements\n");
  Cblacs_gridexit(tall);
  if (b.my_row >= 0) Cblacs_gridexit(wide);
  MPI_Finalize();
  return !is_right;
}
