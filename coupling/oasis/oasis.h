/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TREMULA_OASIS_H
#define TREMULA_OASIS_H
/*
 * The functions that the module tremula_oasis calls. Applications should not call them, because
 * they change with the module. A function with the arguments `text` and `room` returns 0 on
 * success. On failure it writes the error text into the `room` characters of `text`, padded with
 * blanks, and returns 1. Communicators are Fortran's integer handles.
 */
#include <stddef.h>

#if defined(_WIN32)
#define TREMULA_OASIS_API
#else
#define TREMULA_OASIS_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* world: NULL for MPI_COMM_WORLD. On failure *coupler is NULL. */
TREMULA_OASIS_API int tremula_oasis_init(const char* component, const int* world, int is_coupled,
                                         void** coupler, int* number, char* text, int room);
TREMULA_OASIS_API int tremula_oasis_local_comm(void* coupler, int* comm, char* text, int room);
TREMULA_OASIS_API int tremula_oasis_set_coupled_comm(void* coupler, int comm, char* text, int room);
TREMULA_OASIS_API int tremula_oasis_create_coupled_comm(void* coupler, int color, int all,
                                                        int* comm, char* text, int room);
/* global_size: -1 if not given; name: "" if not given. */
TREMULA_OASIS_API int tremula_oasis_def_partition(void* coupler, const int* ig_paral, int length,
                                                  int global_size, const char* name, int* partition,
                                                  char* text, int room);
TREMULA_OASIS_API int tremula_oasis_def_var(void* coupler, const char* name, int partition,
                                            int bundle, int in_or_out, int type, int* variable,
                                            char* text, int room);
TREMULA_OASIS_API int tremula_oasis_enddef(void* coupler, char* text, int room);
TREMULA_OASIS_API int tremula_oasis_put(void* coupler, int variable, int date, const double* values,
                                        size_t count, int* info, char* text, int room);
TREMULA_OASIS_API int tremula_oasis_get(void* coupler, int variable, int date, double* values,
                                        size_t count, int* info, char* text, int room);
TREMULA_OASIS_API int tremula_oasis_ask_put(void* coupler, int variable, int date, int* info,
                                            char* text, int room);
/* periods: array of `most` elements; count: set to the number of periods, which may be more. */
TREMULA_OASIS_API int tremula_oasis_periods(void* coupler, int variable, int* periods, int most,
                                            int* count, char* text, int room);
/* Frees the coupler, unless the call fails. */
TREMULA_OASIS_API int tremula_oasis_terminate(void* coupler, char* text, int room);
/* Writes a warning to standard error. If is_on_all_ranks is not 0, only rank 0 of the component
 * writes it. coupler may be NULL. */
TREMULA_OASIS_API void tremula_oasis_warn(void* coupler, int is_on_all_ranks, const char* message);
/* Writes the component, the rank, the call and the message to standard error, and ends the job.
 * coupler may be NULL. */
TREMULA_OASIS_API void tremula_oasis_abort(void* coupler, const char* call, const char* message,
                                           int code);

#ifdef __cplusplus
}
#endif
#endif
