/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TREMULA_WEIGHTS_H
#define TREMULA_WEIGHTS_H
/*
 * Regridding: a consumer gets a field on its own grid, with sparse weights from a NetCDF file in the
 * format of SCRIP (Jones 1999) or ESMF_RegridWeightGen. Each rank requests only the source elements
 * that its own rows need. The elements of a row are added in double precision, in ascending order
 * of the file's source addresses, so the result is bit for bit the same however the two sides are
 * distributed.
 *
 *     tremula_weights* weights;
 *     tremula_weights_open(session, "ocean_to_atmosphere.nc", NULL, layout, &weights);
 *     tremula_weights_field(weights, in, "sst", &sst);        instead of tremula_in_field
 *     ... tremula_in_begin_step(in) ...
 *     tremula_weights_get(weights, in, sst, TREMULA_F64, data, bytes);   instead of tremula_in_get
 *
 * Use one object for all fields between the same two grids; they then share one plan. Make only one call
 * on it at a time.
 */
#include "tremula/tremula.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tremula_weights tremula_weights;

/* Reads the part of the file `path` that this rank needs: the rows of the elements that `destination` assigns to it.
 * path: a NetCDF file, or FILE/GROUP for a group of it, e.g. "weights.nc/air_to_sea". Every rank reads the file by
 * itself, in pieces of 2^18 elements. The file numbers the elements of a grid from 1, with the first dimension
 * fastest. If the file lacks the sizes of its grids (n_a, n_b, src_grid_dims ...), source_shape and `destination`
 * give them. Links with address 0 and weight 0 are padding and are ignored. Other links with weight 0 need no source
 * element and add nothing, even if the element is NaN.
 * options: NULL or YAML with the keys
 *   order         row (default): the last dimension of the arrays is the first, fastest dimension of the
 *                 file's grids, e.g. shape=90x180 for a grid of 180 longitudes and 90 latitudes. column:
 *                 the first dimension of the arrays is the fastest, as in Fortran, e.g. shape=180x90. An
 *                 array with as many dimensions as the file's grid must have its extents in that order,
 *                 else TREMULA_MISMATCH. Dimensions of extent 1 do not count.
 *   source_shape  extents of the source array, e.g. [90, 180], with as many elements as the file's source
 *                 grid. Default: the extents that the file gives for that grid, in the order that `order`
 *                 specifies; one dimension if `destination` has one dimension.
 *   normalize     fracarea: each row computes a mean over the covered part of the element, so that a
 *                 constant stays constant. destarea: each row computes a mean over the whole element, so
 *                 that the integral is kept. Default: as in the file.
 *   missing       a number or .nan: source elements with this value, or with this value rounded to single
 *                 precision, are left out. The sum of the other elements of a row is multiplied by (sum of
 *                 all weights of the row) / (sum of the weights of these other elements).
 *   fill          a number or .nan: the value of an element that has no weights, or whose source elements
 *                 are all missing. Default: such an element is left unchanged.
 *   conserve      global: the difference between the integrals over the two grids is spread evenly over the
 *                 destination. positive: the destination is multiplied by the ratio of the integrals.
 *                 balanced, balanced_positive: as global and positive respectively, but the integral over
 *                 the source is first multiplied by (area of the destination) / (area of the source), so
 *                 that both grids have the same mean. none: the default. The integrals are over the
 *                 elements that the file's masks keep. On the destination, only those that have weights
 *                 are counted or, with `fill: 0`, all of them, as in OASIS. `destination` must have each of
 *                 the counted elements on exactly one rank.
 * destination: a layout of the session's ranks, without partial sums (sum=).
 * Collective over the session. TREMULA_MISMATCH: ranks read different files or options, or a shape does not
 * fit the file. TREMULA_INVALID_ARGUMENT: the file or an option cannot be read, or the layout is for
 * a different number of ranks. TREMULA_UNSUPPORTED: weights that need gradients, partial sums,
 * a destination that lists an element several times on a rank, `normalize` with a file that does not
 * state its normalization, or more than 2^31 - 1 source elements for one rank. */
TREMULA_API tremula_status tremula_weights_open(tremula_session* session, const char* path,
                                                const char* options,
                                                const tremula_layout* destination,
                                                tremula_weights** weights);
/* Frees the weights, before or after the streams whose fields use them. NULL is allowed. */
TREMULA_API void tremula_weights_free(tremula_weights* weights);
/* Returns the layout of the source elements that this rank requests: points, ascending. `weights` owns the layout. */
TREMULA_API const tremula_layout* tremula_weights_source(const tremula_weights* weights);
/* Declares a field of the stream at those points, in double precision. Use it instead of tremula_in_field. */
TREMULA_API tremula_status tremula_weights_field(tremula_weights* weights, tremula_in_stream* in,
                                                 const char* name, int* field);
/* Gets the field and applies the weights. data: this rank's buffer of `destination`, of TREMULA_F64 or
 * TREMULA_F32. TREMULA_MISMATCH: no rank of the producer has a source element that a weight or an
 * integral needs, and the error text names the element; or the integral over the destination, by
 * which positive and balanced_positive divide, is 0, and that over the source is not. With
 * `conserve`, collective over the session: if the call fails on one rank, the ranks that got the
 * field return TREMULA_PEER_LOST. */
TREMULA_API tremula_status tremula_weights_get(tremula_weights* weights, tremula_in_stream* in,
                                               int field, tremula_type type, void* data,
                                               size_t bytes);

/* Lock and unlock NetCDF. The NetCDF library is not thread-safe, so this library and libtremula_oasis hold a recursive,
 * process-wide lock while they call it. An application whose other threads call NetCDF at the same time must hold the
 * lock as well: tremula_netcdf_lock(); nc_open(...); tremula_netcdf_unlock(). */
TREMULA_API void tremula_netcdf_lock(void);
TREMULA_API void tremula_netcdf_unlock(void);

/* Counts of this rank, which are the same in every run. */
typedef struct tremula_weights_statistics {
  size_t size;
  uint64_t rows;   /* elements of the destination that have weights */
  uint64_t links;  /* weights other than 0 */
  uint64_t points; /* source elements that are requested */
} tremula_weights_statistics;
static inline tremula_weights_statistics tremula_weights_statistics_init(void) {
  tremula_weights_statistics statistics;
  memset(&statistics, 0, sizeof statistics);
  statistics.size = sizeof statistics;
  return statistics;
}
/* Returns the counts of this rank. Set statistics->size first, as tremula_weights_statistics_init does; at most `size`
 * bytes are written. TREMULA_INVALID_ARGUMENT for NULL. */
TREMULA_API tremula_status tremula_weights_count(const tremula_weights* weights,
                                                 tremula_weights_statistics* statistics);

#ifdef __cplusplus
}
#endif
#endif
