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

#ifdef __cplusplus
}
#endif
#endif
