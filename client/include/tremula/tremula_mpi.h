/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TREMULA_MPI_H
#define TREMULA_MPI_H
#include <mpi.h>

#include "tremula/tremula.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As tremula_session_open, for a group whose ranks are those of `comm`. Collective over comm, which
 * is duplicated. MPI must be initialised; the `mpi` transport needs MPI_THREAD_MULTIPLE, the others
 * work with any level. */
TREMULA_API tremula_status tremula_session_open_mpi(const char* group, MPI_Comm comm,
                                                    const char* options, tremula_session** session);

/* ---- redistribution inside one job: no server, no stream ---- */

typedef struct tremula_redistribution tremula_redistribution;

/* The plan of a redistribution, to be run again and again: `count` arrays in one round, with one
 * message between two ranks for all of them (a long one goes in segments; between machines a head
 * of 24 bytes goes before). Collective over comm, and all ranks pass the same updates. What a first
 * call sets up stays with comm until it is freed. It waits for the other ranks at most twice the
 * TREMULA_TIMEOUT; after TREMULA_TIMED_OUT no collective call over comm is right any more. One
 * thread at a time for all redistributions over one communicator.
 */
TREMULA_API tremula_status tremula_redistribution_make(MPI_Comm comm, const tremula_update* updates,
                                                       size_t count,
                                                       tremula_redistribution** redistribution);
/* Moves the elements. from[i], to[i]: buffers of the rank's parts of array i, as its layouts say;
 * they may not overlap; bytes: their sizes. Cells of `to` that no element belongs to are left
 * alone. Returns when `from` may be changed and `to` is there. Collective. Waits at most the
 * TREMULA_STEP_TIMEOUT and half a second. TREMULA_TRANSPORT if another rank makes another call, or
 * a rank of this machine that is waited for has failed. After any error but
 * TREMULA_INVALID_ARGUMENT `to` is undefined, after one that is not TREMULA_MISMATCH either both
 * must stay until MPI_Finalize. */
TREMULA_API tremula_status tremula_redistribution_run(tremula_redistribution* redistribution,
                                                      const void* const* from,
                                                      const size_t* from_bytes, void* const* to,
                                                      const size_t* to_bytes);
/* NULL is allowed. */
TREMULA_API void tremula_redistribution_free(tremula_redistribution* redistribution);

/* Of this rank since the redistribution was made. Exact. */
typedef struct tremula_redistribution_statistics {
  uint64_t runs;
  uint64_t messages_sent; /* segments of a long message count one by one, heads do not */
  uint64_t bytes_sent;
  uint64_t bytes_received;
  uint64_t bytes_kept;   /* that stayed on this rank */
  uint64_t copied_bytes; /* from memory to memory by this rank; what MPI copies is not in it */
  double plan_seconds;
} tremula_redistribution_statistics;
TREMULA_API tremula_status tremula_redistribution_get_statistics(
    const tremula_redistribution* redistribution, tremula_redistribution_statistics* statistics);

/* As make, run and free of one array. The last plans stay with comm, so that a call with an update
 * that came before computes nothing again. */
TREMULA_API tremula_status tremula_redistribute(MPI_Comm comm, const tremula_update* update,
                                                const void* from, size_t from_bytes, void* to,
                                                size_t to_bytes);

#ifdef __cplusplus
}
#endif
#endif
