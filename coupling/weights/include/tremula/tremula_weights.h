/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TREMULA_WEIGHTS_H
#define TREMULA_WEIGHTS_H
/*
 * Regridding: a consumer gets a field on its own grid by the sparse weights of a file, as SCRIP (Jones
 * 1999) and ESMF_RegridWeightGen write them in NetCDF. Each rank asks for the source elements that its own
 * rows need and for no others; the rows are summed up in ascending order of the file's source addresses,
 * in double precision, so that the result is the same bit for bit whatever the distributions of both
 * sides.
 *
 *     tremula_weights* weights;
 *     tremula_weights_open(session, "ocean_to_atmosphere.nc", NULL, layout, &weights);
 *     tremula_weights_field(weights, in, "sst", &sst);        instead of tremula_in_field
 *     ... tremula_in_begin_step(in) ...
 *     tremula_weights_get(weights, in, sst, TREMULA_F64, data, bytes);   instead of tremula_in_get
 *
 * All fields between the same two grids use one object, and so one plan. It takes one call at a time.
 */
#include "tremula/tremula.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tremula_weights tremula_weights;

/* Reads what this rank needs of the file `path`: the rows of the elements that `destination` gives it.
 * Every rank reads the file by itself, in pieces of bounded size. The file's grids are numbered first
 * dimension fastest, from 1.
 * options: NULL or YAML with the keys
 *   order         row (default): the last dimension of the arrays is the first, fastest, one of the file's
 *                 grids: shape=90x180 for a grid of 180 longitudes and 90 latitudes. column: the first
 *                 is, as of layouts of Fortran, where dimension 1 is the fastest: shape=180x90.
 *   source_shape  extents of the source array, e.g. [90, 180]; as many elements as the file's source grid
 *                 has. Default: the dimensions that the file gives that grid, in that order; one where
 *                 `destination` has one.
 *   normalize     fracarea: a row's weights are those of a mean over the covered part of the element, so
 *                 that a constant stays constant; destarea: over the whole element, so that the integral
 *                 stays. Default: as in the file.
 *   missing       a number or .nan: source elements of this value are left out, and the sum of the row's
 *                 others is multiplied by (sum of all its weights) / (sum of theirs).
 *   fill          a number or .nan: what an element gets that has no weights, or whose source elements are
 *                 all missing. Default: it stays as it is.
 *   conserve      global: the difference between the integrals of both grids, over the elements that the
 *                 file's masks leave and, of the destination, that have weights, is spread evenly over
 *                 these; positive: they are multiplied by the ratio; none (default). The ranks'
 *                 `destination` has each of these elements once.
 * Collective over the session. TREMULA_MISMATCH: ranks read different files or options. */
TREMULA_API tremula_status tremula_weights_open(tremula_session* session, const char* path,
                                                const char* options,
                                                const tremula_layout* destination,
                                                tremula_weights** weights);
/* NULL is allowed. After the streams whose fields use it, or before. */
TREMULA_API void tremula_weights_free(tremula_weights* weights);
/* The source elements that this rank asks for: points, ascending. Of `weights`. */
TREMULA_API const tremula_layout* tremula_weights_source(const tremula_weights* weights);
/* Declares a field of the stream at those points, in double precision: instead of tremula_in_field. */
TREMULA_API tremula_status tremula_weights_field(tremula_weights* weights, tremula_in_stream* in,
                                                 const char* name, int* field);
/* Gets the field and applies the weights. data: this rank's buffer of `destination`, of TREMULA_F64 or
 * TREMULA_F32. TREMULA_MISMATCH, naming it: a source element that a weight needs is on no rank of the
 * producer. Collective over the session with `conserve`. */
TREMULA_API tremula_status tremula_weights_get(tremula_weights* weights, tremula_in_stream* in,
                                               int field, tremula_type type, void* data,
                                               size_t bytes);

/* Of this rank; the same for every run. */
typedef struct tremula_weights_statistics {
  size_t size;
  uint64_t rows;   /* elements of the destination that have weights */
  uint64_t links;  /* weights */
  uint64_t points; /* source elements that are asked for */
} tremula_weights_statistics;
static inline tremula_weights_statistics tremula_weights_statistics_init(void) {
  tremula_weights_statistics statistics;
  memset(&statistics, 0, sizeof statistics);
  statistics.size = sizeof statistics;
  return statistics;
}
TREMULA_API tremula_status tremula_weights_count(const tremula_weights* weights,
                                                 tremula_weights_statistics* statistics);

#ifdef __cplusplus
}
#endif
#endif
