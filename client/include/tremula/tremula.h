/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TREMULA_H
#define TREMULA_H
/*
 * The C interface of Tremula. Handles are opaque. Every function that can fail returns a status,
 * which is negative for an error; tremula_last_error() then returns its text. "Collective" means that
 * every rank of the group makes the same calls in the same order. A rank whose call is not that of
 * rank 0 gets TREMULA_MISMATCH, and rank 0 gets TREMULA_MISMATCH or TREMULA_PEER_LOST; the text names
 * both calls.
 *
 * A session runs one call at a time, including the calls of all its streams. A second thread that makes
 * a call while the first is inside one gets TREMULA_INVALID_ARGUMENT; a call that closes a session or
 * frees a stream waits instead. A thread that is to work concurrently opens its own session.
 * A session belongs to the process that opened it: in a child process created by fork, every call
 * returns TREMULA_INVALID_ARGUMENT, except those that close a session or free a handle, which do
 * nothing. After MPI_Finalize, the calls of a session that was opened with a communicator return
 * TREMULA_INVALID_ARGUMENT, except those that close it or free a handle, which still work.
 *
 * A struct begins with the size that it had when the application was compiled. Its function
 * tremula_..._init, which is compiled into the application, sets the size and all defaults; other
 * languages set `size` to the size of their struct in bytes, and the members to the values that this
 * function sets. Later versions add members at the end, and a library reads and writes only the
 * members that both sides know, so the versions of the library and of the headers may differ. An array of
 * structs is passed with its stride, the bytes from one element to the next (in C the sizeof of an element).
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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
  TREMULA_END_OF_STREAM = 1, /* tremula_in_begin_step: the producer has closed the stream */
  TREMULA_NOT_READY = 2,     /* a begin_step_within: the time has passed; call again */
  TREMULA_UP_TO_DATE = 3,    /* tremula_in_begin_step_at, _around: this group has already begun
                                every step that it needs */
  TREMULA_EPOCH_CHANGED = 4, /* tremula_in_begin_step: another producer continues the stream */
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
  TREMULA_DEADLOCK =
      -11, /* jobs wait for each other in a circle; the stream is as after TREMULA_TIMED_OUT */
  TREMULA_INTERRUPTED = -12, /* tremula_session_ask: the application ended the wait */
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
  TREMULA_C64,  /* complex, two f32 */
  TREMULA_C128, /* complex, two f64 */
  TREMULA_F16,  /* IEEE 754 binary16 */
  TREMULA_BF16, /* the upper half of an f32 */
  TREMULA_BOOL, /* a byte that is 0 or 1 */
  TREMULA_OPAQUE_NONE = 0x10000,
  TREMULA_OPAQUE_MOST = 0x1FFFF /* leaves room for larger elements in later versions */
} tremula_type;
/* The type of elements of 1 to 16384 bytes that are moved unchanged, e.g. structs. */
#define TREMULA_OPAQUE(bytes) ((tremula_type)(TREMULA_OPAQUE_NONE + (int)(bytes)))

#define TREMULA_MAX_DIMENSIONS 8

typedef enum tremula_attribute_type {
  TREMULA_INTEGER = 1, /* int64_t */
  TREMULA_REAL,        /* double */
  TREMULA_TEXT /* const char*: UTF-8 without control and format characters except \n and \t */
} tremula_attribute_type;

/* Owners of attributes other than fields; passed in place of a field's number. */
enum { TREMULA_OF_STREAM = -1, TREMULA_OF_STEP = -2 };

typedef struct tremula_session tremula_session;
typedef struct tremula_layout tremula_layout;
typedef struct tremula_out_stream tremula_out_stream;
typedef struct tremula_in_stream tremula_in_stream;
typedef struct tremula_description tremula_description;
typedef struct tremula_attributes tremula_attributes;

/* Returns the version of the library, e.g. "0.2.0". */
TREMULA_API const char* tremula_version(void);
/* Returns the text of the calling thread's last error: what was expected, what was found and what
 * to do. Valid until the next call of that thread. */
TREMULA_API const char* tremula_last_error(void);
/* Sets the text that tremula_last_error() returns and returns `status`. For libraries built on top of
 * this one. NULL: no text. */
TREMULA_API tremula_status tremula_fail(tremula_status status, const char* text);

/* ---- session ---- */

/* Connects rank `rank` of the group `group`, which has `size` ranks, to a server. Collective;
 * blocks until the server has answered. rank = size = -1: both are taken from RANK and WORLD_SIZE
 * in the environment, which torchrun sets.
 * For a group that has an MPI communicator, see tremula_mpi.h.
 * options: NULL or a YAML mapping, e.g. "{server: localhost:7423, transport: auto, timeout: 60}";
 * the manual lists the keys. Precedence: options, TREMULA_* environment, YAML file TREMULA_CONFIG,
 * default. */
TREMULA_API tremula_status tremula_session_open(const char* group, int rank, int size,
                                                const char* options, tremula_session** session);
/* Leaves the server and frees the handle. If a stream of the session is neither closed nor freed, the
 * call does nothing and returns TREMULA_INVALID_ARGUMENT; tremula_last_error names the streams. The
 * handle of a closed stream may be freed later. NULL is allowed. Collective. */
TREMULA_API tremula_status tremula_session_close(tremula_session* session);
/* Sets a function with which the application can end calls that wait, e.g. after Ctrl-C. From now on, a
 * call of the session that has waited for 20 ms calls ask(context) about ten times a second, in the
 * thread of the call, unless the call has its own time limit. If `ask` returns a value other than 0, the
 * call ends with TREMULA_INTERRUPTED. An interrupted begin_step may be called again; after any other call
 * the stream is as after TREMULA_TIMED_OUT. If rank 0 interrupts a begin_step that waits for the other
 * side, the call ends on all ranks; otherwise the other ranks of the group continue to wait for this
 * rank. `ask` must not call the session, but may free handles of its streams: they are released after
 * the call has ended. ask: NULL removes the function. */
typedef int (*tremula_ask)(void* context);
TREMULA_API tremula_status tremula_session_ask(tremula_session* session, tremula_ask ask,
                                               void* context);
/* Returns this rank's number in the group, counted from 0; tremula_session_size returns the number of
 * ranks of the group. Both return -1 for NULL. */
TREMULA_API int tremula_session_rank(const tremula_session* session);
TREMULA_API int tremula_session_size(const tremula_session* session);
/* Gives every rank of the group the `bytes` bytes that each of the ranks passes, for decisions that
 * depend on a few numbers. Shape of `all`: [size of the group][bytes]. Collective; waits at most the
 * session's timeout. Returns TREMULA_MISMATCH on all ranks if they pass different numbers of bytes. */
TREMULA_API tremula_status tremula_session_allgather(tremula_session* session, const void* mine,
                                                     size_t bytes, void* all);

/* ---- memory ---- */

/* Allocates `bytes` of zeroed memory on a page boundary. Peers on the same machine copy directly out
 * of and into such memory: if the array of the producer or that of the consumer is in it, an element
 * is copied only once on its way. Meant for arrays that are put or got, with one call per array,
 * because every call takes a file descriptor. If a step fails before it has been taken, the memory of
 * its arrays is replaced by a copy at the same address, and writes by other threads at that moment
 * may be lost. Thread-safe. A child process created by fork shares the memory with its parent. */
TREMULA_API tremula_status tremula_allocate(size_t bytes, void** memory);
/* Frees memory from tremula_allocate, which no stream may still be using: see tremula_out_put_async and
 * queue_depth. NULL is allowed. */
TREMULA_API tremula_status tremula_deallocate(void* memory);

/* ---- layout ---- */

/* Makes a layout from its text form, e.g. "shape=10000x10000 grid=4x4 block=30x50", which the manual
 * explains. */
TREMULA_API tremula_status tremula_layout_parse(const char* text, tremula_layout** layout);
/* Makes the layout of a dense ScaLAPACK matrix with the descriptor desc[9], on a rows x columns BLACS
 * grid in row-major rank order. */
TREMULA_API tremula_status tremula_layout_from_scalapack(const int desc[9], int rows, int columns,
                                                         tremula_layout** layout);
/* Makes the layout of an array on a mesh of ranks, in the terms of PyTorch's DTensor. The ranks are numbered
 * with the last axis varying fastest. Shape of `shape`: [dimensions]; of mesh (ranks along each axis),
 * dimension_of and split_factor: [axes]. The axes act in order: axis a either cuts dimension dimension_of[a]
 * of the part that the axes before it have left to each rank (Shard) or, with dimension_of[a] = -1, makes
 * copies (Replicate). split_factor[a] is the split factor of _StridedShard, or 1 for Shard; NULL if all are
 * 1. With a larger factor, axis a cuts only after those later axes of the same dimension whose numbers of ranks
 * multiply to the factor. Each cut makes chunks of ceil(n / ranks) elements, as torch.chunk does. A factor that
 * is not the product of whole axes is refused, even if the extent divides evenly. The one exception is a
 * multiple of the product of all those later axes: it is accepted if the extent divides evenly. */
TREMULA_API tremula_status tremula_layout_on_mesh(int dimensions, const int64_t* shape, int axes,
                                                  const int64_t* mesh, const int* dimension_of,
                                                  const int64_t* split_factor,
                                                  tremula_layout** layout);
/* Options of a layout whose ranks list the elements that they own; combined with |. */
#define TREMULA_PARTIAL 1u /* elements may be on no rank: a consumer's array is unchanged there */
#define TREMULA_COPIES \
  2u /* elements may be on several ranks: in a consumer each of them gets the
                              element, in a producer one of them sends it */
/* In a list: a place of the buffer that has no element. */
#define TREMULA_NO_ELEMENT (-1)
/* Makes the layout of an array that is held by `ranks` ranks, each of which lists the elements that it
 * owns as points. This rank lists `count` points: element i of its buffer is element number points[i] of
 * the array, counted in row-major order from 0. The list is copied. Every rank passes its own list and
 * the same values for all other arguments; the ranks find each other's elements when they are linked.
 * A rank that only receives the array may list an element several times, and gets it at each of
 * those places. TREMULA_NO_ELEMENT in the list leaves a place of the buffer without an element;
 * that place is never written. Declaring such a list in a producer, or as the source of a
 * redistribution, returns TREMULA_INVALID_ARGUMENT. Such an array cannot be declared by
 * tremula_out_part and cannot be relabeled. */
TREMULA_API tremula_status tremula_layout_of_points(int dimensions, const int64_t* shape, int ranks,
                                                    unsigned options, int64_t count,
                                                    const int64_t* points, tremula_layout** layout);
/* Makes such a layout from segments: segment i is the lengths[i] elements that begin with number
 * begins[i], or lengths[i] places without an element if begins[i] is TREMULA_NO_ELEMENT. The
 * segments follow each other in the buffer. Shape of begins and lengths: [count]. */
TREMULA_API tremula_status tremula_layout_of_segments(int dimensions, const int64_t* shape,
                                                      int ranks, unsigned options, int64_t count,
                                                      const int64_t* begins, const int64_t* lengths,
                                                      tremula_layout** layout);
/* Makes such a layout from boxes, each stored row-major. The boxes follow each other in the buffer.
 * Boxes of a rank that only receives the array may overlap. Shape of origins and extents:
 * [count][dimensions]. */
TREMULA_API tremula_status tremula_layout_of_boxes(int dimensions, const int64_t* shape, int ranks,
                                                   unsigned options, int64_t count,
                                                   const int64_t* origins, const int64_t* extents,
                                                   tremula_layout** layout);
/* Frees the layout. NULL is allowed. */
TREMULA_API void tremula_layout_free(tremula_layout* layout);
/* Returns the shortest text that parses to the same layout; "" for NULL. Valid until the layout is freed. */
TREMULA_API const char* tremula_layout_text(const tremula_layout* layout);
/* Returns the number of dimensions, 1 to 8; 0 for NULL. */
TREMULA_API int tremula_layout_dimensions(const tremula_layout* layout);
/* Gives the global extents in elements, with 0 for a dimension whose extent changes with every step.
 * Shape of `extents`: [dimensions]. */
TREMULA_API tremula_status tremula_layout_shape(const tremula_layout* layout, int64_t* extents);
/* Gives the extents, the strides (in elements) and the buffer of the part of rank `rank`. Shape of extents
 * and strides: [dimensions]; each out argument may be NULL. first: offset of the first owned element, in
 * elements; allocated: elements that the buffer must have. Where ranks list their elements, the values are
 * those of the rank that made the layout, whatever `rank` is, with its buffer along the last dimension. A
 * rank that owns several blocks of a skewed layout also has its buffer along the last dimension. */
TREMULA_API tremula_status tremula_layout_local(const tremula_layout* layout, int rank,
                                                int64_t* extents, int64_t* strides, int64_t* first,
                                                int64_t* allocated);
/* Gives the global index, along `dimension`, of the element that `rank` stores at local index `local`.
 * Both indices are 0-based. */
TREMULA_API tremula_status tremula_layout_global_index(const tremula_layout* layout, int rank,
                                                       int dimension, int64_t local,
                                                       int64_t* global);
/* Lists the elements that `rank` owns as runs. Run i is the lengths[i] elements of the array that begin
 * with number numbers[i], counted in row-major order from 0. They are stored contiguously in the local
 * buffer of `rank`, from offset places[i], in elements. The runs are in ascending order of their
 * numbers, then of their places; an element at several places of the buffer is in several runs.
 * *count: on return the number of runs. On entry, each of the three arrays has room for *count runs, or all
 * three are NULL. Where ranks list their elements, the runs are those of the rank that made the layout,
 * whatever `rank` is. Costs a pass over the runs and, in a layout with `splits`, over its intervals. */
TREMULA_API tremula_status tremula_layout_runs(const tremula_layout* layout, int rank,
                                               int64_t* count, int64_t* numbers, int64_t* places,
                                               int64_t* lengths);
/* Computes a hash of the elements of an array that `rank` owns, from its local buffer `data` of `bytes`
 * bytes. The sum of the hashes over all ranks, modulo 2^64, is the same for every layout of the same array,
 * so a job that holds the array in another distribution can compare. The rank of a first copy counts; the
 * ranks of further copies get 0. One differing element of up to 8 bytes always changes the sum; wider or
 * several differing elements go unnoticed with a probability of about 2^-64. The hash does not protect
 * against deliberately chosen elements. Where ranks list their elements, the hash is that of the rank
 * that made the layout, whatever `rank` is. Returns TREMULA_UNSUPPORTED for lists with
 * TREMULA_COPIES, for a list with an element at several places, for partial sums and for an extent
 * that changes with every step.
 * Costs a pass over the elements. */
TREMULA_API tremula_status tremula_layout_hash(const tremula_layout* layout, int rank,
                                               tremula_type type, const void* data, size_t bytes,
                                               uint64_t* hash);

/* ---- updates ---- */

/* How an array is changed when it is moved:  to = alpha * op(from) + beta * to. */
typedef struct tremula_update {
  size_t size;
  const tremula_layout* from; /* the two layouts; not kept after the call */
  const tremula_layout* to;
  tremula_type from_type; /* of the elements in memory; any conversion except complex to real */
  tremula_type to_type;   /* a value that does not fit an integer type gives TREMULA_MISMATCH */
  double alpha[2];        /* real and imaginary part; initialised to 1 and 0 */
  double beta[2];         /* initialised to 0: `to` is then not read */
  int conjugate;          /* not 0: takes the complex conjugate of `from` */
  /* Shape of the following arrays: [dimensions]. */
  const int* axes;        /* dimension d of `to` is dimension axes[d] of `from`; {1, 0} transposes a
                             matrix; NULL: the same order */
  const int64_t* extents; /* extents of the part to write, in the dimensions of `to`; NULL: all */
  const int64_t* from_origin; /* global index, 0-based, where that part begins in `from`; NULL: 0 */
  const int64_t* to_origin;   /* global index where it begins in `to`; NULL: 0 */
} tremula_update;

/* Returns the update that copies elements of one type unchanged; the caller may then change members. */
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

/* ---- relabeling inside one job ---- */

/* Computes which rank should take which part of the arrays `to`, so that the fewest bytes move.
 *   updates        shape [count], `stride` bytes apart
 *   process        result, shape [ranks]: process[label] is the rank that takes the part that `to` gives
 *                  to rank `label`; process[label] == label for all labels if relabeling saves nothing
 *   places         NULL or shape [ranks]: ranks with equal numbers, counted from 0, are near each other,
 *                  and bytes between them cost nothing; NULL: every rank has its own place
 *   exact          0 for the greedy method, which is faster for many thousand places but may leave
 *                  more bytes to move
 *   before, after  bytes that leave their place in a redistribution without and with the relabeling; each
 *                  may be NULL. Exact if every rank has its own place, or if `places` are the machines.
 *                  Where several ranks share a place and an array has copies at its source, another
 *                  labeling may save more
 * Local: involves no other rank, and gives equal results on ranks that pass equal arguments. */
TREMULA_API tremula_status tremula_relabel(const tremula_update* updates, size_t count,
                                           size_t stride, int ranks, const int* places, int exact,
                                           int* process, int64_t* before, int64_t* after);
/* Makes the layout in which rank process[label] owns what `layout` gives to rank `label`. Shape of
 * `process`: [ranks]. */
TREMULA_API tremula_status tremula_layout_relabeled(const tremula_layout* layout,
                                                    const int* process, int ranks,
                                                    tremula_layout** relabeled);

/* ---- producing ---- */

/* Opens a stream that this group produces. Collective, as are all calls below unless they say otherwise.
 * options: NULL or YAML with the keys
 *   queue_depth         how many steps may be under way to a consumer, default 2. Each of them takes as
 *                       much memory as the array itself, for every consumer group: with 2, an array of
 *                       3 GiB takes 9 GiB in all (`tremula plan` and the log at level info show how much).
 *                       0: a step is handed over directly and nothing is staged. tremula_out_put
 *                       then only notes where the data is; the data must not change until
 *                       tremula_out_end_step returns, which it does when every consumer has taken
 *                       the step.
 *   queue_bytes         how many bytes of all ranks together may be under way to a consumer: its queue
 *                       holds as many steps as fit, at least 1 and at most queue_depth. Fields whose
 *                       extent changes are not counted. Default 0: only queue_depth counts
 *   when_full           what happens to a step when queue_depth steps are under way to a consumer:
 *                       block (default)  begin_step waits;
 *                       drop_newest      the step is dropped for that consumer;
 *                       drop_oldest      the oldest step that no rank of that consumer has requested
 *                                        yet is withdrawn; if all have been requested, the new step is
 *                                        dropped, as with drop_newest. One of the queue_depth steps is
 *                                        the step that the consumer is taking; the others, at least 1,
 *                                        are kept until it begins them (a thread of the session
 *                                        answers the consumer, unless `progress` is calls).
 *                       When a step begins, all ranks decide together for each consumer, so all ranks of
 *                       a consumer get the same steps; the numbers of the steps show which were dropped.
 *                       Steps that are still kept at the end are delivered by close.
 *   keep_steps          how many of the newest steps are kept for consumers that join later and request
 *                       them (`start` of tremula_in_open), 0 (default) to 1024. Each is a copy of
 *                       everything that the rank puts, in memory in addition to the queue.
 *   kind                steps (default): a time series;
 *                       state: each step is a version of the same object, such as the weights of a
 *                       model. keep_steps is at least 1; every consumer gets the newest complete version
 *                       when it joins, and then, whenever it begins a step, the version that is then the
 *                       newest (as with `start` and `steps`: latest). The producer waits for no consumer.
 *   first_step          number of the first step, default 0, so that a simulation that continues from a
 *                       checkpoint can continue counting
 *   versions            for a state. snapshot (default): put copies a version; lend: it does not.
 *                       Consumers read the arrays themselves, which must stay as they were put until the
 *                       next begin_step, or close, has returned or failed; tremula_out_test reports this,
 *                       and tremula_out_wait cannot be used. begin_step waits for each consumer that is
 *                       in a step, at most until its lease ends, and then takes the version back. A
 *                       consumer that is still in the step loses the stream, with TREMULA_PEER_LOST at
 *                       its end_step at the latest, and may open it again. close waits until all
 *                       consumers have taken the newest version.
 *   lease               how many seconds a consumer may read a lent version, counted from when its
 *                       first rank begins the step: a number, default 10, or none
 *   readers_serve       for a state: readers with the key of this group may serve others (`serve` of
 *                       tremula_in_open), which then do not read from this group. Default false
 *   wait_for_consumers  how many consumer groups the stream needs, default 1. The first step waits for
 *                       them. If one is lost later and fewer remain, begin_step fails once with
 *                       TREMULA_PEER_LOST on every rank, and the stream may continue without it.
 *                       0: the stream needs no consumer; those that are linked get the steps.
 *   readable_by         own (default): groups with the server key of this one may subscribe;
 *                       all: groups with any of the server's keys
 *   progress            auto (default): like thread where a wire moves bytes only inside calls (between
 *                       hosts, and over mpi), else like calls;
 *                       calls: data under way moves in the calls of the session that may wait, and in
 *                       tremula_out_test;
 *                       thread: a thread of the session also moves it between the calls */
TREMULA_API tremula_status tremula_out_open(tremula_session* session, const char* stream,
                                            const char* options, tremula_out_stream** out);
/* Declares a field. All fields of all streams of a session are declared before the first begin_step of
 * any of them, which announces them to the other jobs. field: the number of the field: 0, 1, ... */
TREMULA_API tremula_status tremula_out_field(tremula_out_stream* out, const char* name,
                                             tremula_type type, const tremula_layout* layout,
                                             int* field);
/* Declares a box of a field that several groups produce together: each group declares its own box, and
 * all open a stream of the same name. layout: layout of the box; origin: global index, 0-based, where the
 * box begins; shape: extents of the whole array; shape of both: [dimensions of layout]. Either all fields
 * of a stream are such parts or none is. A step is complete when every group has put its part: steps with
 * equal numbers belong together, and all groups end the stream after the same step. No consumer is linked
 * before the parts cover the whole array; parts that overlap are refused with TREMULA_MISMATCH, which
 * names the boxes. Once a part has ended, no further consumer is linked, and its group can open a stream of
 * that name again when all parts have ended. Cannot be combined with a when_full other than block, with
 * consumers of the latest step, or with tremula_in_relabel. */
TREMULA_API tremula_status tremula_out_part(tremula_out_stream* out, const char* name,
                                            tremula_type type, const tremula_layout* layout,
                                            const int64_t* origin, const int64_t* shape,
                                            int* field);
/* Begins a step. Blocks while queue_depth steps are under way, and before the first step until
 * wait_for_consumers groups have arrived. A consumer arrives when it calls begin_step of any stream
 * or puts a field, so two jobs that put to each other may both put first. If a consumer with the
 * same key is refused because its fields do not match, the call fails with the error that the
 * consumer gets. */
TREMULA_API tremula_status tremula_out_begin_step(tremula_out_stream* out);
/* Begins a step as tremula_out_begin_step does, but waits at most `seconds` for consumers. Returns
 * TREMULA_OK, TREMULA_NOT_READY or an error. With 0 it does not wait. A call after TREMULA_NOT_READY
 * continues the earlier one; once the stream has its consumers, such calls are no longer collective, and
 * ranks may get different results. Two sides are linked while both are inside such a call: if both poll,
 * one of them should wait for a moment in it rather than pass 0. While a request of a consumer for
 * other layouts (tremula_in_redeclare) is pending, the calls are collective. Once that consumer has taken
 * all earlier steps, the calls wait for it to begin the next step, whatever `seconds` is. */
TREMULA_API tremula_status tremula_out_begin_step_within(tremula_out_stream* out, double seconds);
/* Waits for `seconds`; consumers that join meanwhile are linked and get the steps that the stream keeps
 * for them (keep_steps, kind). Meant for a producer that computes for a long time between two steps, because
 * consumers are linked only while it is in a call that can link them. Called between two steps; collective. */
TREMULA_API tremula_status tremula_out_serve(tremula_out_stream* out, double seconds);
/* Checks whether tremula_out_begin_step would return without waiting for a consumer. is_ready: 1 if so, else
 * 0. It is 0 while the stream lacks consumers, which only a begin_step links. Never blocks; not collective. */
TREMULA_API tremula_status tremula_out_is_ready(tremula_out_stream* out, int* is_ready);
/* Sets an attribute: a name, and `count` values of one type. of: a field's number or
 * TREMULA_OF_STREAM, before the first begin_step of any stream of the session; or
 * TREMULA_OF_STEP, between begin_step and end_step, for that step only. Every rank sets the same
 * attributes, in any order. If a rank sets a different value, or none, the stream ends on all ranks of both
 * sides with an error that names two ranks (TREMULA_MISMATCH; TREMULA_PEER_LOST on ranks that learn of it from
 * another rank). Ranks of a consumer that receive from several ranks of the producer get the error with the
 * step. Other ranks may take the step and get the error in one of their next calls, before the end of the
 * stream at the latest. A name that is set again gets the new values. Limits: 64 KiB, names included, and 1024
 * attributes per step, per stream and per field; 1 MiB for all fields together.
 * By convention, fields have "units", "long_name", "fill_value" and "coordinates" (names of other fields).
 * "time_unit", one text such as "s" or "day", is the unit of the stream's time: if it is set, every step has a
 * time. Not collective. */
TREMULA_API tremula_status tremula_out_attribute(tremula_out_stream* out, int of, const char* name,
                                                 tremula_attribute_type type, const void* values,
                                                 size_t count);
/* Sets the time of the step, between begin_step and end_step: a count of the stream's "time_unit",
 * greater than that of the previous step and the same on every rank. Not collective. */
TREMULA_API tremula_status tremula_out_time(tremula_out_stream* out, int64_t time);
/* Hands over this rank's part of one field of the step. `data` may be changed once the call has returned
 * (with queue_depth 0: once tremula_out_end_step has returned). bytes: size of the local buffer. For a
 * field whose extent changes, `bytes` determines how many elements this rank has along that dimension in
 * this step, possibly 0. Along that dimension the array of the step holds first the elements of the first
 * coordinate of the process grid, then those of the second, and so on; the ranks of the group exchange
 * their counts in end_step. */
TREMULA_API tremula_status tremula_out_put(tremula_out_stream* out, int field, const void* data,
                                           size_t bytes);
/* Hands over a field as tremula_out_put does, but `data` may be changed only once tremula_out_test has
 * given 1 or tremula_out_wait has returned. Data in memory from tremula_allocate is then copied only once,
 * by a consumer on this machine. request: identifies the step in those two calls; equal for all fields of
 * a step. */
TREMULA_API tremula_status tremula_out_put_async(tremula_out_stream* out, int field,
                                                 const void* data, size_t bytes, uint64_t* request);
/* Makes progress, without waiting, and checks whether every consumer has taken the step of `request`.
 * is_taken: 1 if so, else 0. Called after tremula_out_end_step of that step. Not collective. */
TREMULA_API tremula_status tremula_out_test(tremula_out_stream* out, uint64_t request,
                                            int* is_taken);
/* Waits until every consumer has taken the step of `request`. Not collective. */
TREMULA_API tremula_status tremula_out_wait(tremula_out_stream* out, uint64_t request);
/* Sends the step. Every declared field must have been put. Data that is not on its way when the call
 * returns is moved later, as `progress` says: with `calls`, in the next calls that may wait. */
TREMULA_API tremula_status tremula_out_end_step(tremula_out_stream* out);
/* Gives `count` fields new layouts of the same shapes, which apply from the next step, e.g. after a mesh has
 * been refined or the work rebalanced. fields[i] gets layouts[i]; the other fields keep their layouts. Called
 * between two steps, after the first of them has ended. The stream continues under its name, with the numbers
 * of its steps and with its consumers, which keep their own layouts and notice only the delay: the call
 * waits, at most step_timeout, until they have taken all steps and begin the next one. A consumer that does
 * not begin it loses the stream. Before a consumer begins the next step, it must not wait for something that
 * another consumer derives from that step. If two groups consume from each other, only one of them may call
 * this function at a time. If either rule is broken, the calls fail with TREMULA_DEADLOCK. Consumers that
 * join later find the new layouts; steps that were kept for them (keep_steps) are dropped. Not available for parts
 * (tremula_out_part), for a state, or with consumers that request steps by time. Refused arguments leave the
 * stream as it was. Collective: all ranks name the same fields, each rank with its own lists where ranks
 * list their elements. */
TREMULA_API tremula_status tremula_out_redeclare(tremula_out_stream* out, int count,
                                                 const int* fields,
                                                 const tremula_layout* const* layouts);
/* Ends the stream: announces to the consumers that no step follows, and waits until they have taken all
 * steps. */
TREMULA_API tremula_status tremula_out_close(tremula_out_stream* out);
/* Frees the handle. A stream that was not closed is abandoned, and its consumers get an error. NULL is
 * allowed. */
TREMULA_API void tremula_out_free(tremula_out_stream* out);

/* ---- asking ---- */

/* Returns the declarations of the producer of `stream`, e.g. for a consumer that declares the same fields.
 * Waits at most `seconds` for a producer to offer the stream, which it does in its first step: 0 does not
 * wait, a negative number means the session's timeout. TREMULA_TIMED_OUT: the text names what was found
 * instead. Collective. The description, and everything obtained from it, is valid until it is freed. */
TREMULA_API tremula_status tremula_describe(tremula_session* session, const char* stream,
                                            double seconds, tremula_description** description);
/* Frees the description. NULL is allowed. */
TREMULA_API void tremula_description_free(tremula_description* description);
/* Returns the name of the group that produces the stream; "" for NULL. If several groups produce it
 * (tremula_out_part), returns all their names, separated by ", "; the number of ranks is then that of all
 * groups, and the layouts of the fields give only the whole shape: tremula_description_part gives the
 * layouts of the boxes. */
TREMULA_API const char* tremula_description_producer(const tremula_description* description);
/* Returns the number of ranks of that group; the next two functions return the queue_depth of the stream
 * and the number of its fields. 0 for NULL. */
TREMULA_API int tremula_description_ranks(const tremula_description* description);
TREMULA_API int tremula_description_queue_depth(const tremula_description* description);
TREMULA_API int tremula_description_fields(const tremula_description* description);
/* Gives field `field`, counted from 0, as the producer has declared it; each out argument may be NULL.
 * layout: the layout of the producer, without ghost cells and leading dimension; must not be freed. */
TREMULA_API tremula_status tremula_description_field(const tremula_description* description,
                                                     int field, const char** name,
                                                     tremula_type* type,
                                                     const tremula_layout** layout);
/* Returns the number of groups that produce the stream together, each of them one box of every array; 0 if
 * one group produces it, and for NULL. */
TREMULA_API int tremula_description_parts(const tremula_description* description);
/* Gives the box of field `field` that group number `part` produces, both counted from 0; each out argument
 * may be NULL. group: the name of the group. layout: the layout of the box, as in tremula_description_field.
 * origin: global index where the box begins in the whole array; shape: [dimensions]. */
TREMULA_API tremula_status tremula_description_part(const tremula_description* description,
                                                    int field, int part, const char** group,
                                                    const tremula_layout** layout, int64_t* origin);
/* Gives the attributes that the producer has set. of: a field's number or TREMULA_OF_STREAM. The caller
 * frees the attributes. */
TREMULA_API tremula_status tremula_description_attributes(const tremula_description* description,
                                                          int of, tremula_attributes** attributes);

/* ---- attributes ---- */

/* Frees the attributes. NULL is allowed. */
TREMULA_API void tremula_attributes_free(tremula_attributes* attributes);
/* Returns the number of attributes; 0 for NULL. */
TREMULA_API int tremula_attributes_count(const tremula_attributes* attributes);
/* Gives attribute `number`, counted from 0 in the order in which the attributes were set; each out
 * argument may be NULL. values: an array of `count` int64_t, double or const char*, as `type` says; valid
 * until the attributes are freed. */
TREMULA_API tremula_status tremula_attributes_at(const tremula_attributes* attributes, int number,
                                                 const char** name, tremula_attribute_type* type,
                                                 size_t* count, const void** values);
/* Finds the number of the attribute `name`. number: -1 if there is no such attribute, and for NULL. */
TREMULA_API tremula_status tremula_attributes_find(const tremula_attributes* attributes,
                                                   const char* name, int* number);

/* ---- consuming ---- */

/* Opens a stream that this group consumes.
 * options: NULL or YAML with the keys
 *   steps  every (default): all steps, except those that the producer's when_full drops;
 *          latest: each begin_step gives the newest step that is complete when the first rank of the
 *          group calls it, or the next step if there is no new one. The producer never waits for this
 *          consumer. Whatever queue_depth is, the producer keeps the newest step for it, and at most
 *          two steps that the consumer's ranks are taking;
 *          share: of the groups that share the steps of the stream, each step goes to the group with
 *          the fewest steps under way. The producer waits when each of them has queue_depth steps
 *          under way, and drops no step, whatever its when_full is. Steps on their way to a group that
 *          leaves or fails are not passed to another group.
 *   start  the first step of a group that joins while the stream is running: next (default): the step
 *          that the producer begins next; latest: the newest that it has kept (keep_steps); oldest:
 *          the oldest that it has kept. Always next if steps are shared.
 *   restart_timeout
 *          how many seconds begin_step waits for another producer when the producer of the stream is lost
 *          (killed, silent, or freed without close); none: without limit; default 0: the loss is an error.
 *          A group with the same server key then starts the stream again under its name, possibly in
 *          another layout, and the stream continues in a new epoch: begin_step returns
 *          TREMULA_EPOCH_CHANGED once, on every rank, and the next call begins a step of the new producer,
 *          as `start` says; the new producer numbers its steps from its first_step. If several groups
 *          produce the stream (tremula_out_part), all of them are started again.
 *          With a restart_timeout, tremula_in_end_step is collective, and a step counts once it has
 *          returned TREMULA_OK, which it does on all ranks or on none. Work on a step that must be done
 *          by all ranks or by none belongs after it. A step that is cut short by the loss of the
 *          producer ends with TREMULA_PEER_LOST from tremula_in_get or tremula_in_end_step; the next call
 *          is then begin_step. It returns TREMULA_PEER_LOST only if the link was lost but the producer
 *          continues, so that steps are missing. It returns TREMULA_TIMED_OUT, or the error of the last
 *          attempt, such as TREMULA_NO_SERVER, if no producer arrived in time. Any other error of the
 *          stream on one rank is reported to the others, which get it with the number of that rank. A
 *          state whose readers serve may be read from one of them: when that reader leaves or is lost, the
 *          next begin_step links this group to another group that has the state, in the same epoch. No
 *          version is delivered twice or after a newer one.
 *   serve  for a state whose producer sets readers_serve, default false. true: when all ranks have got all
 *          fields of a version and ended its step, other readers that have a restart_timeout may get that
 *          version from this group. They get no newer version than this group has ended. This group also needs
 *          a restart_timeout, and must get the fields as the producer has put them: in the same type, without
 *          tremula_in_update. tremula_in_get makes a copy of everything that it gets; the group keeps two
 *          copies, and two more for each of its readers. It links readers in begin_step and end_step.
 *          tremula_in_begin_step and tremula_in_close are then collective as well; after the end of the stream
 *          the latter waits until the readers have taken the newest version. */
TREMULA_API tremula_status tremula_in_open(tremula_session* session, const char* stream,
                                           const char* options, tremula_in_stream** in);
/* Requests a field in a layout of this group. Called before the first begin_step of any stream of the
 * session, as tremula_out_field is. If `type` is not that of the producer, the elements are converted, as
 * by tremula_in_update. */
TREMULA_API tremula_status tremula_in_field(tremula_in_stream* in, const char* name,
                                            tremula_type type, const tremula_layout* layout,
                                            int* field);
/* Requests a field that is changed when it is got: every tremula_in_get computes, as `update` specifies,
 *   data = alpha * op(field) + beta * data
 * The members `from` and `from_type` are ignored: the producer declares them. */
TREMULA_API tremula_status tremula_in_update(tremula_in_stream* in, const char* name,
                                             const tremula_update* update, int* field);
/* Decides which rank of the consumer takes which part, so that, over all fields together, the
 * fewest bytes come from other hosts, i.e. from ranks whose sessions have a different `host`.
 * label: from now on, this rank takes the part of every field that the field's layout gives to rank
 * `label` (tremula_layout_local(layout, label, ...)). It is the rank's own number if relabeling saves
 * nothing. Called once, between the last tremula_in_field and the first begin_step of any stream of the
 * session, and before buffers are allocated.
 * options: NULL or YAML with the key
 *   method  exact (default), or greedy: faster for many thousand hosts, but may move more bytes
 * Collective; waits at most the session's timeout for a producer that offers the stream. */
TREMULA_API tremula_status tremula_in_relabel(tremula_in_stream* in, const char* options,
                                              int* label);
/* Waits for the next step and begins it. Returns TREMULA_OK, TREMULA_END_OF_STREAM or an error;
 * with restart_timeout also TREMULA_EPOCH_CHANGED. */
TREMULA_API tremula_status tremula_in_begin_step(tremula_in_stream* in);
/* Begins a step as tremula_in_begin_step does, but waits at most `seconds` for it, and then returns
 * TREMULA_NOT_READY. With 0 it does not wait; the stream is then linked only when its producer waits for
 * consumers. Collective until the stream is linked and, with restart_timeout, from the loss of the
 * producer until TREMULA_EPOCH_CHANGED. After such a loss it returns TREMULA_NOT_READY until all ranks
 * have found the loss and another producer is linked. At other times ranks may get different results. */
TREMULA_API tremula_status tremula_in_begin_step_within(tremula_in_stream* in, double seconds);
/* Begins the newest step at or before `time`, for a group with its own time steps; older steps are skipped
 * (`passed`). Returns TREMULA_UP_TO_DATE if this group has already begun that step, because no step is
 * delivered twice; TREMULA_END_OF_STREAM if, in addition, no step follows; otherwise TREMULA_OK. Waits until
 * the producer has ended either a step at or after `time` or the stream. From call to call, `time` must not
 * decrease, and it must not be before the first step that the group gets: a group that joins late calls
 * tremula_in_begin_step first and continues from the time of that step. The two functions may be mixed.
 * unit: the unit of `time`, e.g. "s": TREMULA_MISMATCH if it is not the stream's "time_unit"; NULL: not
 * compared. TREMULA_UNSUPPORTED if the steps have no time, are dropped or are shared, if the producer's
 * queue_depth is below 2, or if this group has a restart_timeout.
 * Always collective: all ranks pass the same time and begin the same step; TREMULA_MISMATCH if they pass
 * different times. A rank that has lost the stream need not call: the other ranks get
 * TREMULA_PEER_LOST. The other streams of the session continue. */
TREMULA_API tremula_status tremula_in_begin_step_at(tremula_in_stream* in, int64_t time,
                                                    const char* unit);
/* Begins, as tremula_in_begin_step_at does, the steps around `time`, for interpolation: the step at `time`
 * if there is one, else the newest step before it and the first after it. Called repeatedly until it returns
 * TREMULA_UP_TO_DATE, it begins, in order, the ones that the group has not begun yet. Returns
 * TREMULA_END_OF_STREAM if `time` is after the last step and that step has been begun. For a group whose
 * first step is after `time`, that step is the first after it. */
TREMULA_API tremula_status tremula_in_begin_step_around(tremula_in_stream* in, int64_t time,
                                                        const char* unit);
/* Checks whether tremula_in_begin_step would return immediately. is_ready: 1 if so, else 0. It is 0 before
 * the stream is linked, which only a begin_step does. Never blocks; not collective. */
TREMULA_API tremula_status tremula_in_is_ready(tremula_in_stream* in, int* is_ready);
/* Gives the number of the step begun last: 0, 1, ... as the producer counts. */
TREMULA_API tremula_status tremula_in_step(const tremula_in_stream* in, uint64_t* step);
/* Gives the time of the step, between begin_step and end_step: a count of the stream's attribute
 * "time_unit". TREMULA_INVALID_ARGUMENT if the stream has no such attribute. */
TREMULA_API tremula_status tremula_in_time(const tremula_in_stream* in, int64_t* time);
/* Gives a copy of the attributes that the producer has set, which the caller frees. of: a field that this
 * side has declared or TREMULA_OF_STREAM, after the first begin_step; or TREMULA_OF_STEP, between begin_step
 * and end_step. All ranks get the same attributes, because all ranks of the producer set the same ones; if
 * they do not, see tremula_out_attribute. */
TREMULA_API tremula_status tremula_in_attributes(const tremula_in_stream* in, int of,
                                                 tremula_attributes** attributes);
/* Gives the layout of a field's array, which the caller frees: as declared, relabeled or redeclared or, if its
 * extent changes with every step (`*` in the shape), that of the step, between begin_step and end_step. Its
 * tremula_layout_local describes the buffer that tremula_in_get fills on the rank of that number, also after
 * tremula_in_relabel. Does not wait for other ranks. */
TREMULA_API tremula_status tremula_in_layout(const tremula_in_stream* in, int field,
                                             tremula_layout** layout);
/* Gives `count` fields new layouts of the same shapes, e.g. when the work is redistributed. fields[i] gets
 * layouts[i]; the other fields keep their layouts. Called between two steps, after the first of them has
 * ended. The producer applies the new layouts when it begins its next step. It then waits, at most
 * step_timeout, until this group has taken all earlier steps, which arrive in the layouts for which they were
 * put, and begins that step; its other consumers notice only the delay. So the producer must be able to reach
 * that step before this group has got it, as it must with queue_depth 0; otherwise the calls fail with
 * TREMULA_DEADLOCK. For each step, tremula_in_redeclarations gives the number of calls that apply to it, and
 * tremula_in_layout gives its layouts. The stream continues, even after the server has been restarted. Not
 * available for a stream of several producer groups, for a state, with steps that are requested by time, or
 * after tremula_in_relabel. Refused arguments leave the stream as it was. Waits for the server, but not for the
 * producer: if the producer has ended the stream or is lost, the next begin_step reports it.
 * Collective: all ranks name the same fields, each rank with its own lists where ranks list their elements. */
TREMULA_API tremula_status tremula_in_redeclare(tremula_in_stream* in, int count, const int* fields,
                                                const tremula_layout* const* layouts);
/* Gives the number of calls of tremula_in_redeclare whose layouts apply to the step begun last. */
TREMULA_API tremula_status tremula_in_redeclarations(const tremula_in_stream* in, uint64_t* count);
/* Fills `data`, the local buffer of `bytes` bytes, with this rank's part of the field; blocks until all of
 * it has arrived. Cells that the rank does not own (ghost cells, padding) are left unchanged, and so are
 * elements that the producer lacks: see tremula_in_fills. After an error the contents are undefined.
 * TREMULA_MISMATCH: a value did not fit the declared type; the stream continues. */
TREMULA_API tremula_status tremula_in_get(tremula_in_stream* in, int field, void* data,
                                          size_t bytes);
/* Checks whether tremula_in_get of the step begun last sets every element of this rank's part, whatever the
 * buffer held. *fills: 1 if so, else 0. It is 0 if an update has a beta other than 0 or writes only a box of the
 * part, if an element of the part is on no rank of a producer whose ranks list their elements
 * (TREMULA_PARTIAL), or if this rank's list has a place without an element (TREMULA_NO_ELEMENT).
 * Memory that was never set would keep arbitrary values there: set it before get. Called after the
 * first begin_step. Does not wait. */
TREMULA_API tremula_status tremula_in_fills(const tremula_in_stream* in, int field, int* fills);
/* Ends the step and returns its room in the queue to the producer. Collective with restart_timeout. */
TREMULA_API tremula_status tremula_in_end_step(tremula_in_stream* in);
/* Leaves the stream, even before its end. Every rank of the group calls it, at any time. */
TREMULA_API tremula_status tremula_in_close(tremula_in_stream* in);
/* Frees the handle. If a rank frees a stream without closing it, the stream is abandoned for the whole
 * group, and the producer counts that group as lost. NULL is allowed. */
TREMULA_API void tremula_in_free(tremula_in_stream* in);

/* ---- counters ---- */

/* Counters of one rank, either since the stream was opened or for one step. Exact. */
typedef struct tremula_statistics {
  size_t size;
  uint64_t steps;        /* completed steps */
  uint64_t packages;     /* packages sent or received */
  uint64_t bytes;        /* bytes of payload sent or received */
  uint64_t copied_bytes; /* bytes that this rank copied in memory, without the copies that the
                          * transport's library makes. The sum over all ranks of a side, divided by
                          * its bytes and added up over both sides, is how often a byte is copied. */
  double plan_seconds;   /* time spent making plans */
  double wait_seconds;   /* time blocked on the other side */
  double copy_seconds;   /* packing, unpacking, copying; parts of a few short runs are not timed */
  double wire_seconds;   /* producer: from the end of a step until a message was sent, summed */
  char transport[64];    /* transport of the link opened last, e.g. "ofi:tcp;ofi_rxm" */
  /* Consumer: how many of the received bytes were found to match the producer's hashes (session key
   * proof); the others were converted or scaled. */
  uint64_t proved_bytes;
  /* Steps that were not sent over a link, because of its when_full. Producer: summed over its links, known
   * when the next step begins. Consumer: those before the step begun last, or before the end. */
  uint64_t dropped;
  uint64_t queued_steps; /* producer: the most steps ever under way to one consumer */
  uint64_t queued_bytes; /* producer: the most bytes of this rank ever under way to one consumer */
  uint64_t passed;       /* consumer: steps skipped by tremula_in_begin_step_at and _around */
  /* How often memory was allocated for the elements of fields whose extent changes (`*` in the shape); stays
   * constant after the largest step. Memory that does not grow with the elements is not counted. */
  uint64_t growths;
} tremula_statistics;

static inline tremula_statistics tremula_statistics_init(void) {
  tremula_statistics statistics;
  memset(&statistics, 0, sizeof statistics);
  statistics.size = sizeof statistics;
  return statistics;
}

/* Gives the counters of this rank since the stream was opened. Set statistics->size first, as
 * tremula_statistics_init does: at most that many bytes are written. Returns TREMULA_INVALID_ARGUMENT for NULL
 * and for a size that was not set, i.e. is less than that of the struct's first version or more than 64 KiB. */
TREMULA_API tremula_status tremula_out_statistics(const tremula_out_stream* out,
                                                  tremula_statistics* statistics);
TREMULA_API tremula_status tremula_in_statistics(const tremula_in_stream* in,
                                                 tremula_statistics* statistics);
/* Gives the counters of this rank for the step ended last. wire_seconds: for the messages that were found
 * to have been sent since the end of the previous step. */
TREMULA_API tremula_status tremula_out_step_statistics(const tremula_out_stream* out,
                                                       tremula_statistics* statistics);
TREMULA_API tremula_status tremula_in_step_statistics(const tremula_in_stream* in,
                                                      tremula_statistics* statistics);

/* Counters for the traffic of this rank with one rank on the other side, the peer, since their link
 * was opened. */
typedef struct tremula_peer_statistics {
  size_t size;
  char group[256]; /* group of the peer */
  int rank;        /* number of the peer in its group */
  uint64_t packages;
  uint64_t bytes;
  uint64_t copied_bytes;
  double copy_seconds;
  double wire_seconds;
  /* The path that data took last: inlined, lent, rma, shared, staged, ring or "on demand". */
  char path[16];
} tremula_peer_statistics;

static inline tremula_peer_statistics tremula_peer_statistics_init(void) {
  tremula_peer_statistics peer;
  memset(&peer, 0, sizeof peer);
  peer.size = sizeof peer;
  return peer;
}

/* Gives the counters for each peer over open links. Fills the first entries of `peers`, which has room for
 * `room` entries, `stride` bytes apart, each set by tremula_peer_statistics_init. count: the number of
 * peers, which may exceed `room`. */
TREMULA_API tremula_status tremula_out_peers(const tremula_out_stream* out,
                                             tremula_peer_statistics* peers, size_t room,
                                             size_t stride, size_t* count);
TREMULA_API tremula_status tremula_in_peers(const tremula_in_stream* in,
                                            tremula_peer_statistics* peers, size_t room,
                                            size_t stride, size_t* count);

#ifdef __cplusplus
}
#endif
#endif
