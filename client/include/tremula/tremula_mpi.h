/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TREMULA_MPI_H
#define TREMULA_MPI_H
#include <mpi.h>

#include "tremula/tremula.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As tremula_session_open, for a group whose ranks are those of `comm`. Collective over comm, which
 * is duplicated. MPI must be initialised; the transport `mpi` needs MPI_THREAD_MULTIPLE, the others
 * work with any level. */
TREMULA_API tremula_status tremula_session_open_mpi(const char* group, MPI_Comm comm,
                                                    const char* options, tremula_session** session);

/* The same for an integer handle of Fortran. */
TREMULA_API tremula_status tremula_session_open_mpi_f(const char* group, MPI_Fint comm,
                                                      const char* options,
                                                      tremula_session** session);

/* ---- redistribution inside one job: no server, no stream ---- */

typedef struct tremula_redistribution tremula_redistribution;

/* Makes the plan of a redistribution, to be run again and again: `count` arrays in one round, with
 * one message between two ranks for all of them (a long message goes in chunks; between machines a
 * header of 24 bytes precedes it). The updates lie `stride` bytes apart. Collective over comm; all ranks pass the same updates. The first
 * call over comm sets up what stays with comm until it is freed. Waits for the other ranks at most
 * twice the TREMULA_TIMEOUT; after TREMULA_TIMED_OUT no collective call over comm is correct any
 * more. One call at a time for all redistributions over one communicator: a second one at the same
 * moment gets TREMULA_INVALID_ARGUMENT, and so do calls in a child made by fork and calls after
 * MPI_Finalize. */
TREMULA_API tremula_status tremula_redistribution_make(MPI_Comm comm, const tremula_update* updates,
                                                       size_t count, size_t stride,
                                                       tremula_redistribution** redistribution);
/* Moves the elements. from[i], to[i]: buffers of this rank's parts of array i, as its layouts say;
 * they may not overlap. from_bytes, to_bytes: their sizes. Cells of `to` that hold no element are
 * left alone. Returns when `from` may be changed and `to` is complete. Collective. Waits at most
 * TREMULA_STEP_TIMEOUT and half a second.
 * TREMULA_TRANSPORT: another rank makes another call, or a rank of this machine has failed.
 * TREMULA_MISMATCH: a value does not fit its new type, or a rank that sends to this one has refused
 * its own buffers, with TREMULA_INVALID_ARGUMENT there; the next call may go on.
 * After an error `to` is undefined, unless it was TREMULA_INVALID_ARGUMENT; and unless it was that
 * or TREMULA_MISMATCH, `from` and `to` must stay allocated until MPI_Finalize. */
TREMULA_API tremula_status tremula_redistribution_run(tremula_redistribution* redistribution,
                                                      const void* const* from,
                                                      const size_t* from_bytes, void* const* to,
                                                      const size_t* to_bytes);
/* NULL is allowed. */
TREMULA_API void tremula_redistribution_free(tremula_redistribution* redistribution);

/* Of this rank since the redistribution was made. Exact. */
typedef struct tremula_redistribution_statistics {
  size_t size;
  uint64_t runs;
  uint64_t messages_sent; /* every chunk of a long message counts, headers do not */
  uint64_t bytes_sent;
  uint64_t bytes_received;
  uint64_t bytes_kept;   /* from this rank to itself */
  uint64_t copied_bytes; /* from memory to memory by this rank, without what MPI copies */
  double plan_seconds;
} tremula_redistribution_statistics;

static inline tremula_redistribution_statistics tremula_redistribution_statistics_init(void) {
  tremula_redistribution_statistics statistics;
  memset(&statistics, 0, sizeof statistics);
  statistics.size = sizeof statistics;
  return statistics;
}

TREMULA_API tremula_status tremula_redistribution_get_statistics(
    const tremula_redistribution* redistribution, tremula_redistribution_statistics* statistics);

/* As make, run and free of one array. The last plans stay with comm, so that a call with an update
 * that was used before makes no plan. An update that cannot be read, e.g. of another length, is
 * TREMULA_INVALID_ARGUMENT on its rank alone: the others wait TREMULA_STEP_TIMEOUT for it. */
TREMULA_API tremula_status tremula_redistribute(MPI_Comm comm, const tremula_update* update,
                                                const void* from, size_t from_bytes, void* to,
                                                size_t to_bytes);

/* The same for an integer handle of Fortran. */
TREMULA_API tremula_status tremula_redistribute_f(MPI_Fint comm, const tremula_update* update,
                                                  const void* from, size_t from_bytes, void* to,
                                                  size_t to_bytes);

#ifdef __cplusplus
}
#endif
#endif
