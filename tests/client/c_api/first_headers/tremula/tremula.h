/* SPDX-License-Identifier: Apache-2.0 */
/* The structs of tremula.h as applications first saw them, and the functions that struct_user.c
 * calls. Never change this file: existing applications were compiled against it. */
#ifndef TREMULA_H
#define TREMULA_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef int tremula_status;
enum { TREMULA_OK = 0, TREMULA_END_OF_STREAM = 1 };
typedef enum tremula_type { TREMULA_I32 = 3, TREMULA_F64 = 10 } tremula_type;

typedef struct tremula_session tremula_session;
typedef struct tremula_layout tremula_layout;
typedef struct tremula_out_stream tremula_out_stream;
typedef struct tremula_in_stream tremula_in_stream;

typedef struct tremula_update {
  size_t size;
  const tremula_layout* from;
  const tremula_layout* to;
  tremula_type from_type;
  tremula_type to_type;
  double alpha[2];
  double beta[2];
  int conjugate;
  const int* axes;
  const int64_t* extents;
  const int64_t* from_origin;
  const int64_t* to_origin;
} tremula_update;

static inline tremula_update tremula_update_init(const tremula_layout* from,
                                                 const tremula_layout* to, tremula_type type) {
  tremula_update update;
  memset(&update, 0, sizeof update);
  update.size = sizeof update;
  update.from = from;
  update.to = to;
  update.from_type = update.to_type = type;
  update.alpha[0] = 1;
  return update;
}

typedef struct tremula_statistics {
  size_t size;
  uint64_t steps;
  uint64_t packages;
  uint64_t bytes;
  uint64_t copied_bytes;
  double plan_seconds;
  double wait_seconds;
  double copy_seconds;
  double wire_seconds;
  char transport[64];
} tremula_statistics;

static inline tremula_statistics tremula_statistics_init(void) {
  tremula_statistics statistics;
  memset(&statistics, 0, sizeof statistics);
  statistics.size = sizeof statistics;
  return statistics;
}

typedef struct tremula_peer_statistics {
  size_t size;
  char group[256];
  int rank;
  uint64_t packages;
  uint64_t bytes;
  uint64_t copied_bytes;
  double copy_seconds;
  double wire_seconds;
  char path[16];
} tremula_peer_statistics;

static inline tremula_peer_statistics tremula_peer_statistics_init(void) {
  tremula_peer_statistics peer;
  memset(&peer, 0, sizeof peer);
  peer.size = sizeof peer;
  return peer;
}

const char* tremula_last_error(void);
tremula_status tremula_session_open(const char* group, int rank, int size, const char* options,
                                    tremula_session** session);
tremula_status tremula_session_close(tremula_session* session);
int tremula_session_rank(const tremula_session* session);
tremula_status tremula_layout_parse(const char* text, tremula_layout** layout);
void tremula_layout_free(tremula_layout* layout);
tremula_status tremula_relabel(const tremula_update* updates, size_t count, size_t stride,
                               int ranks, const int* places, int exact, int* process,
                               int64_t* before, int64_t* after);

tremula_status tremula_out_open(tremula_session* session, const char* stream, const char* options,
                                tremula_out_stream** out);
tremula_status tremula_out_field(tremula_out_stream* out, const char* name, tremula_type type,
                                 const tremula_layout* layout, int* field);
tremula_status tremula_out_begin_step(tremula_out_stream* out);
tremula_status tremula_out_put(tremula_out_stream* out, int field, const void* data, size_t bytes);
tremula_status tremula_out_end_step(tremula_out_stream* out);
tremula_status tremula_out_close(tremula_out_stream* out);
void tremula_out_free(tremula_out_stream* out);
tremula_status tremula_out_statistics(const tremula_out_stream* out,
                                      tremula_statistics* statistics);
tremula_status tremula_out_step_statistics(const tremula_out_stream* out,
                                           tremula_statistics* statistics);
tremula_status tremula_out_peers(const tremula_out_stream* out, tremula_peer_statistics* peers,
                                 size_t room, size_t stride, size_t* count);

tremula_status tremula_in_open(tremula_session* session, const char* stream, const char* options,
                               tremula_in_stream** in);
tremula_status tremula_in_update(tremula_in_stream* in, const char* name,
                                 const tremula_update* update, int* field);
tremula_status tremula_in_begin_step(tremula_in_stream* in);
tremula_status tremula_in_get(tremula_in_stream* in, int field, void* data, size_t bytes);
tremula_status tremula_in_end_step(tremula_in_stream* in);
tremula_status tremula_in_close(tremula_in_stream* in);
void tremula_in_free(tremula_in_stream* in);
tremula_status tremula_in_statistics(const tremula_in_stream* in, tremula_statistics* statistics);
tremula_status tremula_in_step_statistics(const tremula_in_stream* in,
                                          tremula_statistics* statistics);
tremula_status tremula_in_peers(const tremula_in_stream* in, tremula_peer_statistics* peers,
                                size_t room, size_t stride, size_t* count);
#endif
