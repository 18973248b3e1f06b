/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TREMULA_MPI_H
#define TREMULA_MPI_H
#include <mpi.h>

#include "tremula/tremula.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Joins a group whose ranks are those of `comm` to a server, as tremula_session_open does. Collective
 * over comm, which is duplicated. MPI must be initialised; the transport `mpi` needs
 * MPI_THREAD_MULTIPLE, and the other transports work with any thread level. */
TREMULA_API tremula_status tremula_session_open_mpi(const char* group, MPI_Comm comm,
                                                    const char* options, tremula_session** session);

/* Does what tremula_session_open_mpi does, for a communicator given as a Fortran integer handle. */
TREMULA_API tremula_status tremula_session_open_mpi_f(const char* group, MPI_Fint comm,
                                                      const char* options,
                                                      tremula_session** session);

/* ---- redistribution inside one job: no server, no stream ---- */

typedef struct tremula_redistribution tremula_redistribution;

/* Makes the plan of a redistribution, which can be run any number of times. Each run moves `count`
 * arrays in one round, with one message per sender and receiver for all arrays (a long message is sent
 * in chunks; between machines, a header of 24 bytes precedes it). Shape of `updates`: [count], `stride`
 * bytes apart. Collective over comm; all ranks pass the same updates. The first call over comm sets up
 * state that is kept with comm until comm is freed. Waits at most twice TREMULA_TIMEOUT for the other
 * ranks; after TREMULA_TIMED_OUT no further collective call over comm is correct. All redistributions
 * over one communicator together run one call at a time: a second concurrent call returns
 * TREMULA_INVALID_ARGUMENT, and so do calls in a child process created by fork and calls after
 * MPI_Finalize. */
TREMULA_API tremula_status tremula_redistribution_make(MPI_Comm comm, const tremula_update* updates,
                                                       size_t count, size_t stride,
                                                       tremula_redistribution** redistribution);
/* Moves the elements. from[i], to[i]: buffers of this rank's parts of array i in its two layouts;
 * they must not overlap. from_bytes, to_bytes: their sizes. Cells of `to` that hold no element are
 * left unchanged. Returns when `from` may be changed and `to` is complete. Collective. Waits at most
 * TREMULA_STEP_TIMEOUT plus half a second.
 * TREMULA_TRANSPORT: another rank makes a different call, or a rank on this machine has failed.
 * TREMULA_MISMATCH: a value does not fit its new type, or a rank that sends to this one has refused
 * its own buffers, with TREMULA_INVALID_ARGUMENT there; the redistribution may be run again.
 * After an error `to` is undefined, unless the error was TREMULA_INVALID_ARGUMENT. Unless it was that
 * or TREMULA_MISMATCH, `from` and `to` must stay allocated until MPI_Finalize. */
TREMULA_API tremula_status tremula_redistribution_run(tremula_redistribution* redistribution,
                                                      const void* const* from,
                                                      const size_t* from_bytes, void* const* to,
                                                      const size_t* to_bytes);
/* Frees the redistribution. NULL is allowed. */
TREMULA_API void tremula_redistribution_free(tremula_redistribution* redistribution);

/* Counters of this rank since the redistribution was made. Exact. */
typedef struct tremula_redistribution_statistics {
  size_t size;
  uint64_t runs;
  uint64_t messages_sent; /* every chunk of a long message counts, headers do not */
  uint64_t bytes_sent;
  uint64_t bytes_received;
  uint64_t bytes_kept;   /* bytes moved from this rank to itself */
  uint64_t copied_bytes; /* bytes that this rank copied in memory, without MPI's copies */
  double plan_seconds;   /* time spent making the plan */
} tremula_redistribution_statistics;

static inline tremula_redistribution_statistics tremula_redistribution_statistics_init(void) {
  tremula_redistribution_statistics statistics;
  memset(&statistics, 0, sizeof statistics);
  statistics.size = sizeof statistics;
  return statistics;
}

/* Gives the counters. Set statistics->size first, as tremula_redistribution_statistics_init does. */
TREMULA_API tremula_status tremula_redistribution_get_statistics(
    const tremula_redistribution* redistribution, tremula_redistribution_statistics* statistics);

/* Moves one array once. Buffers, waits and errors are those of tremula_redistribution_make and
 * tremula_redistribution_run. The plans of the last calls are kept with comm, so a call with an update
 * that was used before makes no plan, unless ranks list their elements. An update that cannot be read,
 * e.g. because its size is not set, gives TREMULA_INVALID_ARGUMENT on its rank only: the other ranks
 * wait TREMULA_STEP_TIMEOUT for that rank. */
TREMULA_API tremula_status tremula_redistribute(MPI_Comm comm, const tremula_update* update,
                                                const void* from, size_t from_bytes, void* to,
                                                size_t to_bytes);

/* Does what tremula_redistribute does, for a communicator given as a Fortran integer handle. */
TREMULA_API tremula_status tremula_redistribute_f(MPI_Fint comm, const tremula_update* update,
                                                  const void* from, size_t from_bytes, void* to,
                                                  size_t to_bytes);

#ifdef __cplusplus
}
#endif
#endif
