/* SPDX-License-Identifier: Apache-2.0 */
/* The struct of tremula_mpi.h as applications first saw it, and the functions that
 * struct_user_mpi.c calls. Never change this file. */
#ifndef TREMULA_MPI_H
#define TREMULA_MPI_H
#include <mpi.h>

#include "tremula/tremula.h"

typedef struct tremula_redistribution tremula_redistribution;

typedef struct tremula_redistribution_statistics {
  size_t size;
  uint64_t runs;
  uint64_t messages_sent;
  uint64_t bytes_sent;
  uint64_t bytes_received;
  uint64_t bytes_kept;
  uint64_t copied_bytes;
  double plan_seconds;
} tremula_redistribution_statistics;

static inline tremula_redistribution_statistics tremula_redistribution_statistics_init(void) {
  tremula_redistribution_statistics statistics;
  memset(&statistics, 0, sizeof statistics);
  statistics.size = sizeof statistics;
  return statistics;
}

tremula_status tremula_redistribution_make(MPI_Comm comm, const tremula_update* updates,
                                           size_t count, size_t stride,
                                           tremula_redistribution** redistribution);
tremula_status tremula_redistribution_run(tremula_redistribution* redistribution,
                                          const void* const* from, const size_t* from_bytes,
                                          void* const* to, const size_t* to_bytes);
void tremula_redistribution_free(tremula_redistribution* redistribution);
tremula_status tremula_redistribution_get_statistics(const tremula_redistribution* redistribution,
                                                     tremula_redistribution_statistics* statistics);
tremula_status tremula_redistribute(MPI_Comm comm, const tremula_update* update, const void* from,
                                    size_t from_bytes, void* to, size_t to_bytes);
#endif
