/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TREMULA_WEIGHTS_H
#define TREMULA_WEIGHTS_H
/*
 * Regridding: a consumer gets a field on its own grid with the sparse weights of a file, as SCRIP
 * (Jones 1999) and ESMF_RegridWeightGen write them in NetCDF. Each rank asks for the source
 * elements that its own rows need and for no others; the elements of a row are added in ascending
 * order of the file's source addresses, in double precision, so that the result is the same bit for
 * bit, however both sides are distributed.
 *
 *     tremula_weights* weights;
 *     tremula_weights_open(session, "ocean_to_atmosphere.nc", NULL, layout, &weights);
 *     tremula_weights_field(weights, in, "sst", &sst);        instead of tremula_in_field
 *     ... tremula_in_begin_step(in) ...
 *     tremula_weights_get(weights, in, sst, TREMULA_F64, data, bytes);   instead of tremula_in_get
 *
 * All fields between the same two grids use one object, and so one plan. Make one call on it at a time.
 */
#include "tremula/tremula.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tremula_weights tremula_weights;

/* Reads the part of the file `path` that this rank needs: the rows of the elements that `destination` gives it.
 * path: a NetCDF file; with groups FILE/GROUP, e.g. "weights.nc/air_to_sea". Every rank reads it by itself, in
 * pieces of 2^18 elements. The file's grids are numbered first dimension fastest, from 1. A file without the
 * sizes of its grids (n_a, n_b, src_grid_dims ...) gets them from source_shape and `destination`. Links of
 * address 0 and weight 0 are padding and are ignored. Links of weight 0 need no source element and add nothing,
 * whatever the element holds, even NaN.
 * options: NULL or YAML with the keys
 *   order         row (default): the last dimension of the arrays is the first and fastest of the
 *                 file's grids: shape=90x180 for a grid of 180 longitudes and 90 latitudes. column:
 *                 the first dimension is, as in layouts of Fortran, where dimension 1 is the
 *                 fastest: shape=180x90. An array with as many dimensions as the file's grid must
 *                 have its extents in that order, else TREMULA_MISMATCH; dimensions of extent 1 do
 *                 not count.
 *   source_shape  extents of the source array, e.g. [90, 180]; as many elements as the file's source grid
 *                 has. Default: the dimensions that the file gives that grid, in that order; one
 *                 dimension if `destination` has one.
 *   normalize     fracarea: a row's weights are those of a mean over the covered part of the element, so
 *                 that a constant stays constant; destarea: over the whole element, so that the integral
 *                 is kept. Default: as in the file.
 *   missing       a number or .nan: source elements of this value, or of this value rounded to single
 *                 precision, are left out, and the sum of the row's others is multiplied by (sum of all its
 *                 weights) / (sum of theirs).
 *   fill          a number or .nan: the value of an element that has no weights, or whose source elements
 *                 are all missing. Default: such an element is left unchanged.
 *   conserve      global: the difference between the integrals of both grids is spread evenly over the
 *                 destination; positive: the destination is multiplied by the ratio; balanced and
 *                 balanced_positive: likewise, with the integral over the source multiplied by (area of the
 *                 destination) / (area of the source), so that both have the same mean; none (default). The
 *                 integrals are those over the elements that the file's masks keep; for the
 *                 destination only over those that have weights or, with `fill: 0`, over all, as in
 *                 OASIS. `destination` must have each of these elements on exactly one rank.
 * destination: a layout of the session's ranks, without partial sums (sum=).
 * Collective over the session. TREMULA_MISMATCH: ranks read different files or options, or a shape does not
 * fit the file. TREMULA_INVALID_ARGUMENT: the file or an option cannot be read, or the layout is for
 * a different number of ranks. TREMULA_UNSUPPORTED: weights that need gradients, partial sums. */
TREMULA_API tremula_status tremula_weights_open(tremula_session* session, const char* path,
                                                const char* options,
                                                const tremula_layout* destination,
                                                tremula_weights** weights);
/* Frees the weights, before or after the streams whose fields use them. NULL is allowed. */
TREMULA_API void tremula_weights_free(tremula_weights* weights);
/* Returns the layout of the source elements that this rank asks for: points, ascending. `weights` owns it. */
TREMULA_API const tremula_layout* tremula_weights_source(const tremula_weights* weights);
/* Declares a field of the stream at those points, in double precision. Use it instead of tremula_in_field. */
TREMULA_API tremula_status tremula_weights_field(tremula_weights* weights, tremula_in_stream* in,
                                                 const char* name, int* field);
/* Gets the field and applies the weights. data: this rank's buffer of `destination`, of TREMULA_F64 or
 * TREMULA_F32. TREMULA_MISMATCH: no rank of the producer has a source element that a weight needs;
 * the text names it. Collective over the session with `conserve`. */
TREMULA_API tremula_status tremula_weights_get(tremula_weights* weights, tremula_in_stream* in,
                                               int field, tremula_type type, void* data,
                                               size_t bytes);

/* Lock and unlock NetCDF. The NetCDF library is not thread-safe: this library and libtremula_oasis hold a recursive
 * lock of the process while they call it. An application whose other threads call NetCDF at the same time must hold
 * it as well: tremula_netcdf_lock(); nc_open(...); tremula_netcdf_unlock(). */
TREMULA_API void tremula_netcdf_lock(void);
TREMULA_API void tremula_netcdf_unlock(void);

/* Counts of this rank, which are the same in every run. */
typedef struct tremula_weights_statistics {
  size_t size;
  uint64_t rows;   /* elements of the destination that have weights */
  uint64_t links;  /* weights other than 0 */
  uint64_t points; /* source elements that are asked for */
} tremula_weights_statistics;
static inline tremula_weights_statistics tremula_weights_statistics_init(void) {
  tremula_weights_statistics statistics;
  memset(&statistics, 0, sizeof statistics);
  statistics.size = sizeof statistics;
  return statistics;
}
/* Returns the counts of this rank. Set statistics->size first, as tremula_weights_statistics_init does: at most that
 * many bytes are written. TREMULA_INVALID_ARGUMENT for NULL. */
TREMULA_API tremula_status tremula_weights_count(const tremula_weights* weights,
                                                 tremula_weights_statistics* statistics);

#ifdef __cplusplus
}
#endif
#endif
