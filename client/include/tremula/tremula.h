/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TREMULA_H
#define TREMULA_H
/*
 * Tremula's C interface. Opaque handles; every function that can fail returns a status, negative
 * for an error whose text tremula_last_error() tells. Handles are not thread-safe: one thread at a
 * time. "Collective" = every rank of the group makes the same calls in the same order.
 */
#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define TREMULA_API
#else
#define TREMULA_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tremula_status {
  TREMULA_OK = 0,
  TREMULA_END_OF_STREAM =
      1, /* tremula_in_begin_step: the producer closed the stream after its last step */
  TREMULA_INVALID_ARGUMENT = -1,
  TREMULA_TIMED_OUT = -2,
  TREMULA_TRANSPORT = -3,
  TREMULA_PROTOCOL = -4,
  TREMULA_PEER_LOST = -5,
  TREMULA_NO_SERVER = -6,
  TREMULA_REFUSED = -7,
  TREMULA_MISMATCH = -8,
  TREMULA_UNSUPPORTED = -9,
  TREMULA_CANCELLED = -10,
  TREMULA_INTERNAL = -99
} tremula_status;

typedef enum tremula_type {
  TREMULA_I8 = 1,
  TREMULA_I16,
  TREMULA_I32,
  TREMULA_I64,
  TREMULA_U8,
  TREMULA_U16,
  TREMULA_U32,
  TREMULA_U64,
  TREMULA_F32,
  TREMULA_F64,
  TREMULA_C64, /* complex, two f32 */
  TREMULA_C128 /* complex, two f64 */
} tremula_type;

#define TREMULA_MAX_DIMENSIONS 8

typedef struct tremula_session tremula_session;
typedef struct tremula_layout tremula_layout;
typedef struct tremula_out_stream tremula_out_stream;
typedef struct tremula_in_stream tremula_in_stream;

/* "0.1.0" */
TREMULA_API const char* tremula_version(void);
/* Text of the last error of the calling thread: expected, found, what to do. Valid until the
 * thread's next call. */
TREMULA_API const char* tremula_last_error(void);

/* ---- session ---- */

/* Joins rank `rank` of `size` of the group `group` to a server. Collective; blocks until the server
 * has answered. rank = size = -1: taken from RANK and WORLD_SIZE, as torchrun sets them. For a
 * group that has an MPI communicator see tremula_mpi.h. options: NULL or a YAML mapping, e.g.
 * "{server: localhost:7423, transport: auto, timeout: 60}"; the manual's table of configuration
 * keys lists them. Precedence: options, TREMULA_* environment, YAML file TREMULA_CONFIG, default.
 */
TREMULA_API tremula_status tremula_session_open(const char* group, int rank, int size,
                                                const char* options, tremula_session** session);
/* Leaves the server. Streams must have been closed or freed before. NULL is allowed. Collective. */
TREMULA_API tremula_status tremula_session_close(tremula_session* session);
/* -1 for NULL. */
TREMULA_API int tremula_session_rank(const tremula_session* session);
TREMULA_API int tremula_session_size(const tremula_session* session);

/* ---- memory ---- */

/* `bytes` of zeroed memory on a page boundary. What lies in it, peers on the same machine copy
 * straight out of or into: one copy from a producer's array to its place in a consumer's, if either
 * of them lies in such memory. For arrays that are put or got, one call for each: it takes a file
 * descriptor; and when a step fails that had not been taken, its arrays' memory is replaced by a
 * copy at the same address: what other threads write to it at that moment may be lost. Thread-safe.
 * A child made by fork shares the memory with its parent. */
TREMULA_API tremula_status tremula_allocate(size_t bytes, void** memory);
/* NULL is allowed. Streams must not hold it any more: see tremula_out_put_async and queue_depth 0.
 */
TREMULA_API tremula_status tremula_deallocate(void* memory);

/* ---- layout ---- */

/* Text form, e.g. "shape=10000x10000 grid=4x4 block=30x50"; the README explains it. */
TREMULA_API tremula_status tremula_layout_parse(const char* text, tremula_layout** layout);
/* Dense matrix descriptor of ScaLAPACK, desc[9], on a rows x columns BLACS grid in row-major rank
 * order. */
TREMULA_API tremula_status tremula_layout_from_scalapack(const int desc[9], int rows, int columns,
                                                         tremula_layout** layout);
TREMULA_API void tremula_layout_free(tremula_layout* layout);
/* Shortest text that parses to the same layout. Valid as long as the layout. "" for NULL. */
TREMULA_API const char* tremula_layout_text(const tremula_layout* layout);
TREMULA_API int tremula_layout_dimensions(const tremula_layout* layout);
/* Global extents; shape of `extents`: [dimensions]. */
TREMULA_API tremula_status tremula_layout_shape(const tremula_layout* layout, int64_t* extents);
/* Extents, strides (elements) and buffer of the part of group rank `rank`; each out argument may be
 * NULL. first: element offset of the first owned element; allocated: elements the buffer must have.
 */
TREMULA_API tremula_status tremula_layout_local(const tremula_layout* layout, int rank,
                                                int64_t* extents, int64_t* strides, int64_t* first,
                                                int64_t* allocated);
/* Global index, along `dimension`, of the element that `rank` stores at local index `local`.
 * 0-based. */
TREMULA_API tremula_status tremula_layout_global_index(const tremula_layout* layout, int rank,
                                                       int dimension, int64_t local,
                                                       int64_t* global);

/* ---- updates ---- */

/* What becomes of an array on its way:  to = alpha * op(from) + beta * to.  tremula_update_init
 * sets everything for a plain copy; then change what is other. */
typedef struct tremula_update {
  size_t size;                /* of this struct, as the application was compiled */
  const tremula_layout* from; /* layouts; not kept */
  const tremula_layout* to;
  tremula_type from_type; /* of the elements in memory; any conversion but complex to real. */
  tremula_type to_type;   /* What does not fit an integer type is TREMULA_MISMATCH. */
  double alpha[2];        /* real and imaginary part; 1 and 0 as initialised */
  double beta[2];         /* 0 as initialised: what `to` held does not matter then */
  int conjugate;          /* not 0: the complex conjugate of `from` */
  const int* axes;        /* dimension d of `to` is dimension axes[d] of `from`; {1, 0} transposes a
                             matrix; NULL: the same order. Shape of all: [dimensions] */
  const int64_t* extents; /* of the part that is written, in the dimensions of `to`; NULL: all */
  const int64_t* from_origin; /* global index, 0-based, where that part begins in `from` */
  const int64_t* to_origin;   /* and in `to`; NULL: at 0 */
} tremula_update;

TREMULA_API void tremula_update_init(tremula_update* update, const tremula_layout* from,
                                     const tremula_layout* to, tremula_type type);

/* ---- relabeling inside one job ---- */

/* Which rank should take which part of the arrays `to`, so that the least has to move:
 * process[label] is the rank that takes what `to` says rank `label` holds; shape of places and
 * process: [ranks]. places: ranks with equal numbers, from 0 on, are near each other, and what goes
 * between them costs nothing; NULL: every rank by itself. exact: 0 for the greedy method, which is
 * quicker where there are many thousand places, and may leave more to move. before, after: bytes
 * that leave their place, with the labels as they are and relabeled; each may be NULL. Where
 * nothing is won process[label] is label. A calculation: the same on all ranks that pass the same,
 * and nobody else is asked. */
TREMULA_API tremula_status tremula_relabel(const tremula_update* updates, size_t count, int ranks,
                                           const int* places, int exact, int* process,
                                           int64_t* before, int64_t* after);
/* The layout whose labels have been taken by `process`; shape: [ranks]. */
TREMULA_API tremula_status tremula_layout_relabeled(const tremula_layout* layout,
                                                    const int* process, int ranks,
                                                    tremula_layout** relabeled);

/* ---- producing ---- */

/* options: NULL or YAML with the keys
 *   queue_depth         steps that may be under way to a consumer, default 2. 0: a step is handed
 *                       over directly, nothing is staged: tremula_out_put only notes where the data
 *                       is, which must stay as it is until tremula_out_end_step returns, and that
 *                       is when every consumer has taken the step.
 *   wait_for_consumers  consumer groups that the stream needs, default 1: the first step waits for
 *                       them; when one is lost later and fewer remain, begin_step fails once with
 *                       TREMULA_PEER_LOST on every rank, and the stream may go on without it.
 *                       0: whoever listens gets the steps, nobody need.
 *   progress            auto (default): thread where a wire moves bytes only inside calls (between
 *                       hosts, and over mpi), else calls;
 *                       calls: what is under way moves inside the calls of the session, any of them;
 *                       thread: a thread of the session moves it between the calls, too
 * Collective, as all calls below. */
TREMULA_API tremula_status tremula_out_open(tremula_session* session, const char* stream,
                                            const char* options, tremula_out_stream** out);
/* Declares a field. All fields are declared before the first step; `field` is 0, 1, ... */
TREMULA_API tremula_status tremula_out_field(tremula_out_stream* out, const char* name,
                                             tremula_type type, const tremula_layout* layout,
                                             int* field);
/* Starts a step. Blocks while queue_depth steps are under way, and at the first step until
 * consumers have come. */
TREMULA_API tremula_status tremula_out_begin_step(tremula_out_stream* out);
/* Hands one field of the step over; on return `data` may be changed (queue_depth 0: when
 * tremula_out_end_step has returned). bytes: size of the local buffer. */
TREMULA_API tremula_status tremula_out_put(tremula_out_stream* out, int field, const void* data,
                                           size_t bytes);
/* As tremula_out_put, but `data` may be changed only when tremula_out_test says so or
 * tremula_out_wait has returned: what lies in memory from tremula_allocate is then not copied
 * before a consumer on this machine copies it. request: for those two; the same for all fields of a
 * step. */
TREMULA_API tremula_status tremula_out_put_async(tremula_out_stream* out, int field,
                                                 const void* data, size_t bytes, uint64_t* request);
/* is_taken: 1 when every consumer has taken the step that `request` was put into, else 0. After
 * tremula_out_end_step of that step. Not collective; makes progress. */
TREMULA_API tremula_status tremula_out_test(tremula_out_stream* out, uint64_t request,
                                            int* is_taken);
/* Returns when that is so. Not collective. */
TREMULA_API tremula_status tremula_out_wait(tremula_out_stream* out, uint64_t request);
/* Sends the step. Every declared field must have been put. What is not on its way when this
 * returns moves on as `progress` says: with `calls`, in the next calls of the session. */
TREMULA_API tremula_status tremula_out_end_step(tremula_out_stream* out);
/* Tells the consumers that no step follows and waits until they have everything. */
TREMULA_API tremula_status tremula_out_close(tremula_out_stream* out);
/* Frees the handle; a stream that was not closed is given up: its consumers get an error. NULL is
 * allowed. */
TREMULA_API void tremula_out_free(tremula_out_stream* out);

/* ---- consuming ---- */

TREMULA_API tremula_status tremula_in_open(tremula_session* session, const char* stream,
                                           const char* options, tremula_in_stream** in);
/* Asks for a field in a layout of one's own. All fields are declared before the first step. */
TREMULA_API tremula_status tremula_in_field(tremula_in_stream* in, const char* name,
                                            tremula_type type, const tremula_layout* layout,
                                            int* field);
/* Asks for a field that is changed on its way: every tremula_in_get makes data = alpha * op(field)
 * + beta * data of its buffer, as `update` says. `from` and `from_type` are the producer's: they
 * are not looked at. tremula_in_field with a type that is not the producer's converts as well. */
TREMULA_API tremula_status tremula_in_update(tremula_in_stream* in, const char* name,
                                             const tremula_update* update, int* field);
/* Lets the ranks of the consumer choose among themselves who takes which part, so that the fewest
 * bytes come from other hosts, all fields together. `label`: from now on this rank takes, of every
 * field, what its layout says rank `label` holds (tremula_layout_local(layout, label, ...)); its
 * own number where nothing is won. Between the last tremula_in_field and the first step, once;
 * buffers are allocated after it. options: NULL or YAML with the keys cost    hosts (default):
 * bytes between ranks whose sessions have different `host` method  exact (default), or greedy:
 * quicker where there are many thousand hosts, and may leave more to bring Collective; waits for a
 * producer that offers the stream, at most the session's timeout. */
TREMULA_API tremula_status tremula_in_relabel(tremula_in_stream* in, const char* options,
                                              int* label);
/* Waits for the next step: TREMULA_OK, TREMULA_END_OF_STREAM or an error. */
TREMULA_API tremula_status tremula_in_begin_step(tremula_in_stream* in);
/* Number of the step opened last: 0, 1, ... counted by the producer. */
TREMULA_API tremula_status tremula_in_step(const tremula_in_stream* in, uint64_t* step);
/* Fills `data` with this rank's part of the field; blocks until all of it has arrived. Cells that
 * the rank does not own (ghost, padding) are left alone. After an error the contents are undefined.
 * TREMULA_MISMATCH: a value did not fit the type that was asked for; the stream goes on. */
TREMULA_API tremula_status tremula_in_get(tremula_in_stream* in, int field, void* data,
                                          size_t bytes);
/* Gives the step back to the producer's queue. */
TREMULA_API tremula_status tremula_in_end_step(tremula_in_stream* in);
/* Leaves the stream, also before its end. Every rank of the group calls it, each when it likes. */
TREMULA_API tremula_status tremula_in_close(tremula_in_stream* in);
/* Frees the handle. A stream that one rank has not closed is given up for its whole group, and the
 * producer counts that group as lost. NULL is allowed. */
TREMULA_API void tremula_in_free(tremula_in_stream* in);

/* ---- counters ---- */

/* Of this rank since the stream was opened. Exact. */
typedef struct tremula_statistics {
  uint64_t steps;        /* complete */
  uint64_t packages;     /* sent or received */
  uint64_t bytes;        /* payload sent or received */
  uint64_t copied_bytes; /* by this rank's processor, from memory to memory: divided by the bytes of
                          * all ranks of one side, and added up over both sides, the copies that are
                          * made of each byte. What the transport's library copies is not in it. */
  double plan_seconds;
  double wait_seconds; /* blocked on the other side */
  double copy_seconds; /* packing, unpacking, copying */
  double wire_seconds; /* producer: from the end of a step to the last of its messages sent */
  char transport[64];  /* "ofi:tcp;ofi_rxm"; of the link opened last */
} tremula_statistics;
TREMULA_API tremula_status tremula_out_statistics(const tremula_out_stream* out,
                                                  tremula_statistics* statistics);
TREMULA_API tremula_status tremula_in_statistics(const tremula_in_stream* in,
                                                 tremula_statistics* statistics);
/* The same of the step ended last alone; wire_seconds: of the messages known to be sent since the
 * end of the step before. */
TREMULA_API tremula_status tremula_out_step_statistics(const tremula_out_stream* out,
                                                       tremula_statistics* statistics);
TREMULA_API tremula_status tremula_in_step_statistics(const tremula_in_stream* in,
                                                      tremula_statistics* statistics);

/* Of this rank with one rank of the other side, since their link was opened. */
typedef struct tremula_peer_statistics {
  char group[256];
  int rank;
  uint64_t packages;
  uint64_t bytes;
  uint64_t copied_bytes;
  double copy_seconds;
  double wire_seconds;
} tremula_peer_statistics;
/* Fills the first `room` entries of `peers`; count: how many there are. Only links that are open.
 */
TREMULA_API tremula_status tremula_out_peers(const tremula_out_stream* out, size_t room,
                                             tremula_peer_statistics* peers, size_t* count);
TREMULA_API tremula_status tremula_in_peers(const tremula_in_stream* in, size_t room,
                                            tremula_peer_statistics* peers, size_t* count);

#ifdef __cplusplus
}
#endif
#endif
