/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TREMULA_H
#define TREMULA_H
/*
 * The C interface of Tremula. Handles are opaque. Every function that can fail returns a status,
 * which is negative for an error; tremula_last_error() tells its text. "Collective" means that every
 * rank of the group makes the same calls in the same order; a rank that is in another call than
 * rank 0 gets TREMULA_MISMATCH, rank 0 that or TREMULA_PEER_LOST, with a text that names both calls.
 *
 * A session takes one call at a time, of all its streams together. A second thread that calls while
 * the first is inside gets TREMULA_INVALID_ARGUMENT; what frees or closes a session or frees a
 * stream waits instead. A thread that is to work beside another opens a session of its own.
 * A session belongs to the process that opened it: in a child made by fork every call gets
 * TREMULA_INVALID_ARGUMENT, except those that close a session or free a handle, which do nothing.
 * After MPI_Finalize the calls of a session that was opened with a communicator get
 * TREMULA_INVALID_ARGUMENT, with the same exceptions, which do their work.
 *
 * A struct begins with its size as the application was compiled. Its function tremula_..._init,
 * which is compiled into the application, sets it and all defaults; other languages set `size` to
 * the bytes of their struct and the members as that function does. Later versions add members at
 * the end, and a library reads and writes those alone that both sides know: an application runs with
 * libraries of other versions than that of its headers. An array of structs goes with its stride,
 * the bytes from one element to the next (in C the sizeof of an element).
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
  TREMULA_NOT_READY = 2,     /* a begin_step_within: the time has passed; call it again */
  TREMULA_NONE_MISSING =
      3, /* tremula_in_begin_step_at, _around: no step is needed that was not had */
  TREMULA_EPOCH_CHANGED = 4, /* tremula_in_begin_step: the stream goes on with another producer */
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
  TREMULA_INTERRUPTED = -12, /* tremula_session_ask: the application has ended the wait */
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
  TREMULA_OPAQUE_MOST = 0x1FFFF /* room for more than there are */
} tremula_type;
/* Elements of 1 to 16384 bytes that are moved as they are: structs, for example. */
#define TREMULA_OPAQUE(bytes) ((tremula_type)(TREMULA_OPAQUE_NONE + (int)(bytes)))

#define TREMULA_MAX_DIMENSIONS 8

typedef enum tremula_attribute_type {
  TREMULA_INTEGER = 1, /* int64_t */
  TREMULA_REAL,        /* double */
  TREMULA_TEXT         /* const char*: UTF-8 without control and format characters but \n, \t */
} tremula_attribute_type;

/* What an attribute belongs to, instead of the number of a field. */
enum { TREMULA_OF_STREAM = -1, TREMULA_OF_STEP = -2 };

typedef struct tremula_session tremula_session;
typedef struct tremula_layout tremula_layout;
typedef struct tremula_out_stream tremula_out_stream;
typedef struct tremula_in_stream tremula_in_stream;
typedef struct tremula_description tremula_description;
typedef struct tremula_attributes tremula_attributes;

/* "0.1.0" */
TREMULA_API const char* tremula_version(void);
/* Text of the last error of the calling thread: what was expected, what was found, what to do.
 * Valid until the next call of that thread. */
TREMULA_API const char* tremula_last_error(void);
/* For libraries that stand on this one: returns `status`, and tremula_last_error() tells `text`. */
TREMULA_API tremula_status tremula_fail(tremula_status status, const char* text);

/* ---- session ---- */

/* Joins rank `rank` of `size` of the group `group` to a server. Collective; blocks until the server
 * has answered. rank = size = -1: taken from RANK and WORLD_SIZE, as torchrun sets them. For a
 * group that has an MPI communicator see tremula_mpi.h.
 * options: NULL or a YAML mapping, e.g. "{server: localhost:7423, transport: auto, timeout: 60}";
 * the manual lists the keys. Precedence: options, TREMULA_* environment, YAML file TREMULA_CONFIG,
 * default. */
TREMULA_API tremula_status tremula_session_open(const char* group, int rank, int size,
                                                const char* options, tremula_session** session);
/* Leaves the server and frees the handle. With a stream that is neither closed nor freed it does
 * neither: TREMULA_INVALID_ARGUMENT, and tremula_last_error names the streams. A handle of a stream
 * that was closed may be freed later. NULL is allowed. Collective. */
TREMULA_API tremula_status tremula_session_close(tremula_session* session);
/* From now on a call of the session that has waited for 20 ms calls ask(context) about ten times a
 * second, in its own thread, unless the call has a time limit of its own: another answer than 0 ends
 * it with TREMULA_INTERRUPTED, e.g. after a Ctrl-C. `ask` makes no calls of the session. NULL: nothing
 * is asked any more. A begin_step may be called again; after another call the stream is as after
 * TREMULA_TIMED_OUT. What rank 0 ends in a begin_step that waits for the other side ends on all ranks;
 * otherwise the other ranks of the group go on waiting for this one. What is freed by `ask` is freed
 * when the call has ended. */
typedef int (*tremula_ask)(void* context);
TREMULA_API tremula_status tremula_session_ask(tremula_session* session, tremula_ask ask,
                                               void* context);
/* This rank's number in the group, from 0, and how many ranks the group has; -1 for NULL. */
TREMULA_API int tremula_session_rank(const tremula_session* session);
TREMULA_API int tremula_session_size(const tremula_session* session);
/* Every rank of the group gets the `bytes` bytes of every rank, for what a few numbers decide. Shape of
 * `all`: [size of the group][bytes]. Collective; waits at most the session's timeout. TREMULA_MISMATCH, on
 * all ranks: one passes another number of bytes. */
TREMULA_API tremula_status tremula_session_allgather(tremula_session* session, const void* mine,
                                                     size_t bytes, void* all);

/* ---- memory ---- */

/* Allocates `bytes` of zeroed memory on a page boundary. Peers on the same machine copy straight
 * out of and into such memory: an element is copied once on its way from the array of a producer to
 * that of a consumer if either of the two arrays lies in it. For arrays that are put or got, with
 * one call for each array: every call takes a file descriptor. When a step fails before it was
 * taken, the memory of its arrays is replaced by a copy at the same address, and what other threads
 * write to it at that moment may be lost. Thread-safe. A child made by fork shares the memory with
 * its parent. */
TREMULA_API tremula_status tremula_allocate(size_t bytes, void** memory);
/* NULL is allowed. No stream may use the memory any more: see tremula_out_put_async, queue_depth. */
TREMULA_API tremula_status tremula_deallocate(void* memory);

/* ---- layout ---- */

/* Text form, e.g. "shape=10000x10000 grid=4x4 block=30x50"; the manual explains it. */
TREMULA_API tremula_status tremula_layout_parse(const char* text, tremula_layout** layout);
/* From the descriptor desc[9] of a dense matrix of ScaLAPACK, on a rows x columns BLACS grid in
 * row-major rank order. */
TREMULA_API tremula_status tremula_layout_from_scalapack(const int desc[9], int rows, int columns,
                                                         tremula_layout** layout);
/* Of an array on a mesh of ranks that are numbered last axis fastest, in the words of PyTorch's
 * DTensor. Axes act in their order: axis a either cuts dimension dimension_of[a] of what the axes
 * before have left to a rank (Shard), or makes copies, with dimension_of[a] = -1 (Replicate).
 * split_factor[a] is that of _StridedShard, 1 for Shard; NULL if all are 1: axis a cuts after those axes
 * behind it whose ranks multiply to the factor. Each cut makes chunks of ceil(n / ranks), as torch.chunk.
 * A factor that is not of whole axes is refused, of even extents, too; but a multiple of what those axes
 * make up is taken where the extent divides evenly. */
TREMULA_API tremula_status tremula_layout_on_mesh(int dimensions, const int64_t* shape, int axes,
                                                  const int64_t* mesh, const int* dimension_of,
                                                  const int64_t* split_factor,
                                                  tremula_layout** layout);
/* What a layout whose ranks list what they own may leave open; a sum of them. */
#define TREMULA_PARTIAL 1u /* elements may be on no rank: a consumer's stay as they are */
#define TREMULA_COPIES \
  2u /* elements may be on several ranks: of a consumer's each gets them, of a
                              producer's one sends them */
/* Of an array of which each of `ranks` ranks lists what it owns, this one `count` points: element i of
 * its buffer is number points[i] of the array, counted in row-major order from 0. The list is copied.
 * Every rank passes its own list, and the same for all else; ranks find each other's elements when they
 * are linked. Such an array is no tremula_out_part, and is not relabeled. */
TREMULA_API tremula_status tremula_layout_of_points(int dimensions, const int64_t* shape, int ranks,
                                                    unsigned options, int64_t count,
                                                    const int64_t* points, tremula_layout** layout);
/* The same with segments: lengths[i] elements from number begins[i] on, one after the other in the
 * buffer. */
TREMULA_API tremula_status tremula_layout_of_segments(int dimensions, const int64_t* shape,
                                                      int ranks, unsigned options, int64_t count,
                                                      const int64_t* begins, const int64_t* lengths,
                                                      tremula_layout** layout);
/* The same with boxes, each row-major, one after the other in the buffer. Shape of origins and
 * extents: [count][dimensions]. */
TREMULA_API tremula_status tremula_layout_of_boxes(int dimensions, const int64_t* shape, int ranks,
                                                   unsigned options, int64_t count,
                                                   const int64_t* origins, const int64_t* extents,
                                                   tremula_layout** layout);
TREMULA_API void tremula_layout_free(tremula_layout* layout);
/* Shortest text that parses to the same layout. Valid as long as the layout. "" for NULL. */
TREMULA_API const char* tremula_layout_text(const tremula_layout* layout);
/* 0 for NULL, else 1 to 8. */
TREMULA_API int tremula_layout_dimensions(const tremula_layout* layout);
/* Global extents in elements, 0 for a dimension that changes with the step; shape of `extents`:
 * [dimensions]. */
TREMULA_API tremula_status tremula_layout_shape(const tremula_layout* layout, int64_t* extents);
/* Extents, strides (in elements) and buffer of the part of rank `rank`; each out argument may be
 * NULL. first: offset of the first owned element, in elements; allocated: elements that the buffer
 * must have. Where ranks list what they own: of the rank that has made the layout, whatever `rank`, and
 * its buffer along the last dimension. A rank that owns several blocks of a skewed layout has its buffer
 * along the last dimension, too. */
TREMULA_API tremula_status tremula_layout_local(const tremula_layout* layout, int rank,
                                                int64_t* extents, int64_t* strides, int64_t* first,
                                                int64_t* allocated);
/* Global index, along `dimension`, of the element that `rank` stores at local index `local`.
 * 0-based. */
TREMULA_API tremula_status tremula_layout_global_index(const tremula_layout* layout, int rank,
                                                       int dimension, int64_t local,
                                                       int64_t* global);
/* What `rank` owns, as runs: lengths[i] elements from number numbers[i] of the array on, counted in
 * row-major order from 0, lie one after the other in its local buffer from place places[i] on, in elements.
 * Ascending by their numbers. *count: how many there are; the three arrays have room for *count of them,
 * or all are NULL. Where ranks list what they own: of the rank that has made the layout, whatever `rank`.
 * Costs a pass over the runs, and over the intervals of splits. */
TREMULA_API tremula_status tremula_layout_runs(const tremula_layout* layout, int rank,
                                               int64_t* count, int64_t* numbers, int64_t* places,
                                               int64_t* lengths);
/* Of what `rank` owns of an array, in its local buffer `data` of `bytes` bytes. The sum over all
 * ranks, modulo 2^64, is the same for every layout of the same array (of copies the first counts,
 * the others are 0): a job that holds the array in another distribution can compare. One element of up to
 * 8 bytes that differs always changes it; wider or several ones that differ go unnoticed with a probability
 * of about 2^-64; it is no defence against somebody who chooses the elements. Where ranks list
 * what they own: of the rank that has made the layout, whatever `rank`. TREMULA_UNSUPPORTED of lists with
 * TREMULA_COPIES, and of partial sums. Costs a pass over the elements. */
TREMULA_API tremula_status tremula_layout_hash(const tremula_layout* layout, int rank,
                                               tremula_type type, const void* data, size_t bytes,
                                               uint64_t* hash);

/* ---- updates ---- */

/* How an array is changed on its way:  to = alpha * op(from) + beta * to. */
typedef struct tremula_update {
  size_t size;
  const tremula_layout* from; /* layouts; not kept */
  const tremula_layout* to;
  tremula_type from_type; /* of the elements in memory; any conversion except complex to real */
  tremula_type to_type;   /* a value that does not fit an integer type gives TREMULA_MISMATCH */
  double alpha[2];        /* real and imaginary part; initialised to 1 and 0 */
  double beta[2];         /* initialised to 0: `to` is then not read */
  int conjugate;          /* not 0: takes the complex conjugate of `from` */
  /* Shape of the following: [dimensions]. */
  const int* axes;        /* dimension d of `to` is dimension axes[d] of `from`; {1, 0} transposes a
                             matrix; NULL: the same order */
  const int64_t* extents; /* of the part that is written, in the dimensions of `to`; NULL: all */
  const int64_t* from_origin; /* global index, 0-based, where that part begins in `from`; NULL: 0 */
  const int64_t* to_origin;   /* where it begins in `to`; NULL: 0 */
} tremula_update;

/* A plain copy of elements of one type: change what differs. */
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

/* Calculates which rank should take which part of the arrays `to`, so that the fewest bytes move.
 *   updates        shape [count], `stride` bytes apart
 *   process        result, shape [ranks]: process[label] is the rank that takes the part which `to`
 *                  gives to rank `label`; process[label] == label where nothing is saved
 *   places         NULL or shape [ranks]: ranks with equal numbers, from 0 on, are near each other,
 *                  and bytes between them cost nothing; NULL: every rank has a place of its own
 *   exact          0 for the greedy method, which is quicker for many thousand places and may leave
 *                  more bytes to move
 *   before, after  bytes that leave their place in a redistribution without and with the relabeling; each may
 *                  be NULL. Exact if every rank has a place of its own, or `places` are the machines. Where
 *                  places have several ranks and an array has copies at its source, another labeling may save more
 * Local: needs no other rank, and gives equal results on ranks that pass equal arguments. */
TREMULA_API tremula_status tremula_relabel(const tremula_update* updates, size_t count,
                                           size_t stride, int ranks, const int* places, int exact,
                                           int* process, int64_t* before, int64_t* after);
/* The layout whose labels have been taken by `process`; shape: [ranks]. */
TREMULA_API tremula_status tremula_layout_relabeled(const tremula_layout* layout,
                                                    const int* process, int ranks,
                                                    tremula_layout** relabeled);

/* ---- producing ---- */

/* options: NULL or YAML with the keys
 *   queue_depth         steps that may be under way to a consumer, default 2. Each is kept once more
 *                       in memory beside the array, for every consumer group: with 2 an array of
 *                       3 GiB takes 9 GiB (`tremula plan` and the log at info tell how much).
 *                       0: a step is handed over directly and nothing is staged. tremula_out_put
 *                       then only notes where the data is; the data must not change until
 *                       tremula_out_end_step returns, which it does when every consumer has taken
 *                       the step.
 *   queue_bytes         bytes of all ranks together that may be under way to a consumer: its queue has
 *                       as many steps as fit, at least 1 and at most queue_depth. Fields whose extent
 *                       changes are not counted. Default 0: only queue_depth counts
 *   when_full           what becomes of a step when queue_depth steps are under way to a consumer:
 *                       block (default)  begin_step waits;
 *                       drop_newest      the step is left out for that consumer;
 *                       drop_oldest      the oldest step that no rank of that consumer has asked for
 *                                        yet is withdrawn; if all are asked for, as drop_newest.
 *                                        One of the queue_depth steps is that which the consumer is
 *                                        taking; the others, at least 1, are kept until it begins
 *                                        them (a thread of the session answers it, unless
 *                                        `progress` is calls).
 *                       It is decided when the step begins, by all ranks together, for each consumer:
 *                       all its ranks get the same steps, and see by the numbers which were dropped.
 *                       What is kept at the end is delivered by close.
 *   keep_steps          newest steps that are kept for consumers that come later and ask for them
 *                       (`start` of tremula_in_open), 0 (default) to 1024. Each is a copy of all that
 *                       the rank puts, in memory beside the queue.
 *   kind                steps (default): a time series;
 *                       state: each step is a version of the same thing, as the weights of a model.
 *                       keep_steps is at least 1; every consumer gets the newest complete version
 *                       when it comes, and from then on that which is the newest when it begins one
 *                       (as with `start` and `steps`: latest). The producer waits for none.
 *   first_step          number of the first step, default 0: a simulation that goes on from a checkpoint
 *                       goes on counting
 *   versions            of a state. snapshot (default): put copies a version; lend: it does not.
 *                       Consumers read the arrays themselves, which stay as they were put until the
 *                       next begin_step, or close, has returned or failed; is_taken says so, and wait
 *                       cannot be used. begin_step waits for consumers that are in a step, each as
 *                       long as its lease, and then takes the version back: such a consumer loses the
 *                       stream, with TREMULA_PEER_LOST at its end_step at the latest, and may open it
 *                       again. close waits until all have taken the newest version.
 *   lease               seconds for which a consumer may read a version that is lent, from when a
 *                       first rank of it begins the step, default 10, or none
 *   readers_serve       of a state: readers with the key of this group may serve others (serve, below),
 *                       which then do not read from this group. Default false
 *   wait_for_consumers  consumer groups that the stream needs, default 1. The first step waits for
 *                       them. When one is lost later and fewer remain, begin_step fails once with
 *                       TREMULA_PEER_LOST on every rank, and the stream may go on without it.
 *                       0: the stream needs no consumer; those that are there get the steps.
 *   readable_by         own (default): groups whose server key is that of this one may subscribe;
 *                       all: groups of every key that the server has
 *   progress            auto (default): thread where a wire moves bytes only inside calls (between
 *                       hosts, and over mpi), else calls;
 *                       calls: what is under way moves in the calls of the session that may wait, and in test;
 *                       thread: a thread of the session moves it between the calls, too
 * Collective, as are all calls below unless they say otherwise. */
TREMULA_API tremula_status tremula_out_open(tremula_session* session, const char* stream,
                                            const char* options, tremula_out_stream** out);
/* Declares a field. All fields of all streams of a session are declared before the first begin_step
 * of any of them: from then on the other jobs know of them. `field` is 0, 1, ... */
TREMULA_API tremula_status tremula_out_field(tremula_out_stream* out, const char* name,
                                             tremula_type type, const tremula_layout* layout,
                                             int* field);
/* As tremula_out_field, for groups that produce one array together: each declares a box of it, and
 * all open a stream of the same name. `layout` is that of the box, `origin` the global index, 0-based,
 * where it begins, `shape` the extents of the whole array; shape of both: [dimensions of layout]. All
 * fields of a stream are such parts, or none. A step is complete when every group has put its part:
 * steps with equal numbers belong together, and all groups end the stream after the same one. No
 * consumer is linked before the parts cover the whole array; parts that overlap are refused with
 * TREMULA_MISMATCH, which names the boxes. When a part has ended, no consumer is linked any more,
 * and its group opens a stream of that name again when all parts have ended. Not with when_full other
 * than block, for consumers of the latest step, and with tremula_in_relabel. */
TREMULA_API tremula_status tremula_out_part(tremula_out_stream* out, const char* name,
                                            tremula_type type, const tremula_layout* layout,
                                            const int64_t* origin, const int64_t* shape,
                                            int* field);
/* Starts a step. Blocks while queue_depth steps are under way, and before the first step until
 * wait_for_consumers groups have come. A consumer has come when it calls begin_step of any stream,
 * or puts: jobs that put to each other may both put first. If a consumer with the same key is
 * refused because its fields do not fit, the call fails with the error that the consumer gets. */
TREMULA_API tremula_status tremula_out_begin_step(tremula_out_stream* out);
/* As tremula_out_begin_step, but waits at most `seconds` for consumers: TREMULA_OK, TREMULA_NOT_READY
 * or an error. 0 does not wait. Calls that follow a TREMULA_NOT_READY continue it; when the stream
 * has its consumers, they are no longer collective, and ranks may get different answers. Two sides
 * are linked while both are inside such a call: where both ask in turns, one of them should wait a
 * moment in it, not 0. While a consumer wants other layouts (tremula_in_redeclare) the calls are collective,
 * and once it has taken all earlier steps they wait for it to begin the next one, whatever `seconds` says. */
TREMULA_API tremula_status tremula_out_begin_step_within(tremula_out_stream* out, double seconds);
/* Waits `seconds`, in which consumers that come are linked and get what the stream keeps for them
 * (keep_steps, kind). For a producer that computes long between two steps, as consumers are linked only
 * while it is in a call that can. Between two steps; collective. */
TREMULA_API tremula_status tremula_out_serve(tremula_out_stream* out, double seconds);
/* is_ready: 1 if tremula_out_begin_step would not have to wait for a consumer, else 0; 0 before the
 * stream has its consumers, which a begin_step must bring. Never blocks; not collective. */
TREMULA_API tremula_status tremula_out_is_ready(tremula_out_stream* out, int* is_ready);
/* Sets an attribute: a name, and `count` values of one type. of: a field's number or
 * TREMULA_OF_STREAM, like the fields before the first begin_step of any stream of the session; or
 * TREMULA_OF_STEP, between begin_step and end_step, for that step alone. Every rank sets the same, in
 * any order: where one has set another value, or none, the stream ends on all ranks of both sides with
 * an error that names two ranks (TREMULA_MISMATCH; TREMULA_PEER_LOST on ranks that learn of it from another).
 * It comes with the step on ranks of a consumer that receive from several ranks of the producer. Others
 * may take the step, and get the error in one of their next calls, before the end of the stream at the
 * latest. A name that is set again gets the new values. At most 64 KiB, names included, and 1024
 * attributes of a step, of a stream, of a field; at most 1 MiB of all fields.
 * By convention fields have "units", "long_name", "fill_value" and "coordinates" (names of other
 * fields). "time_unit", one text such as "s" or "day", is the unit of the stream's time: with it
 * every step has a time. Not collective. */
TREMULA_API tremula_status tremula_out_attribute(tremula_out_stream* out, int of, const char* name,
                                                 tremula_attribute_type type, const void* values,
                                                 size_t count);
/* Sets the time of the step, between begin_step and end_step: a count of the stream's "time_unit",
 * above that of the step before, the same on every rank. Not collective. */
TREMULA_API tremula_status tremula_out_time(tremula_out_stream* out, int64_t time);
/* Hands one field of the step over. On return `data` may be changed (with queue_depth 0: when
 * tremula_out_end_step has returned). bytes: size of the local buffer. Of a field whose extent changes
 * it tells how many elements this rank has along that dimension in this step, 0 perhaps. The array of the
 * step has those of the first coordinate of the process grid along it first, then those of the second
 * one, and so on; end_step is then the call in which the ranks of the group tell each other. */
TREMULA_API tremula_status tremula_out_put(tremula_out_stream* out, int field, const void* data,
                                           size_t bytes);
/* As tremula_out_put, but `data` may be changed only when tremula_out_test has given 1 or
 * tremula_out_wait has returned. Data in memory from tremula_allocate is then copied once only, by
 * the consumer on this machine. request: for those two calls; the same for all fields of a step. */
TREMULA_API tremula_status tremula_out_put_async(tremula_out_stream* out, int field,
                                                 const void* data, size_t bytes, uint64_t* request);
/* Makes progress, and never waits; is_taken: 1 when every consumer has taken the step of `request`,
 * else 0. Called after tremula_out_end_step of that step. Not collective. */
TREMULA_API tremula_status tremula_out_test(tremula_out_stream* out, uint64_t request,
                                            int* is_taken);
/* Returns when every consumer has taken the step of `request`. Not collective. */
TREMULA_API tremula_status tremula_out_wait(tremula_out_stream* out, uint64_t request);
/* Sends the step. Every declared field must have been put. What is not on its way when this
 * returns moves on as `progress` says: with `calls`, in the next calls that may wait. */
TREMULA_API tremula_status tremula_out_end_step(tremula_out_stream* out);
/* Gives `count` fields other layouts of the same shapes, from the next step on, e.g. after a mesh was
 * refined or the work balanced anew: layouts[i] is that of fields[i]; the other fields keep theirs. Between
 * two steps, once one has ended. The stream goes on under its name, with its steps' numbers and its
 * consumers, which keep their own layouts and notice nothing but time: the call waits until they have taken
 * all steps and come to the next one, at most step_timeout; one that does not loses the stream. So none may
 * wait before it for what another one makes of the next step, and of two groups that consume from each other
 * only one calls this at a time: TREMULA_DEADLOCK. Consumers
 * that come later find the new layouts; steps that were kept for them (keep_steps) are forgotten. Not for
 * parts (tremula_out_part), of a state, and for consumers that ask for steps by their time. Arguments that
 * are refused leave the stream as it was. Collective: all ranks name the same fields, each with its own lists
 * where ranks list what they own. */
TREMULA_API tremula_status tremula_out_redeclare(tremula_out_stream* out, int count,
                                                 const int* fields,
                                                 const tremula_layout* const* layouts);
/* Tells the consumers that no step follows and waits until they have all steps. */
TREMULA_API tremula_status tremula_out_close(tremula_out_stream* out);
/* Frees the handle. A stream that was not closed is given up, and its consumers get an error. NULL
 * is allowed. */
TREMULA_API void tremula_out_free(tremula_out_stream* out);

/* ---- asking ---- */

/* Asks what the producer of `stream` has declared, e.g. to declare the same fields. Waits at most
 * `seconds` for a producer to offer the stream, as it does in its first step: 0 does not wait, a
 * negative number is the session's timeout. TREMULA_TIMED_OUT: the text names what there is instead.
 * Collective. The description and all that it gives are valid until it is freed. */
TREMULA_API tremula_status tremula_describe(tremula_session* session, const char* stream,
                                            double seconds, tremula_description** description);
/* NULL is allowed. */
TREMULA_API void tremula_description_free(tremula_description* description);
/* The group that produces the stream; "" for NULL. Of several groups (tremula_out_part) all names, with
 * ", " between them; then the ranks are those of all, and layouts tell nothing but the whole shape:
 * tremula_description_part gives the others. */
TREMULA_API const char* tremula_description_producer(const tremula_description* description);
/* Ranks of that group, the queue_depth of the stream, the number of its fields; 0 for NULL. */
TREMULA_API int tremula_description_ranks(const tremula_description* description);
TREMULA_API int tremula_description_queue_depth(const tremula_description* description);
TREMULA_API int tremula_description_fields(const tremula_description* description);
/* Field `field`, from 0 on, as the producer has declared it; each out argument may be NULL. layout:
 * of the producer, without ghost cells and leading dimension; not to be freed. */
TREMULA_API tremula_status tremula_description_field(const tremula_description* description,
                                                     int field, const char** name,
                                                     tremula_type* type,
                                                     const tremula_layout** layout);
/* Groups that produce the stream together, each a box of every array; 0 if one group produces it, and
 * for NULL. */
TREMULA_API int tremula_description_parts(const tremula_description* description);
/* The box of field `field` that group number `part` produces, from 0 on; each out argument may be NULL.
 * layout: of the box, as tremula_description_field. origin: room for one index for each dimension, where
 * the box begins in the whole array. */
TREMULA_API tremula_status tremula_description_part(const tremula_description* description,
                                                    int field, int part, const char** group,
                                                    const tremula_layout** layout, int64_t* origin);
/* Attributes that the producer has set; of: field `of`, or TREMULA_OF_STREAM. To be freed. */
TREMULA_API tremula_status tremula_description_attributes(const tremula_description* description,
                                                          int of, tremula_attributes** attributes);

/* ---- attributes ---- */

/* NULL is allowed. */
TREMULA_API void tremula_attributes_free(tremula_attributes* attributes);
/* How many there are; 0 for NULL. */
TREMULA_API int tremula_attributes_count(const tremula_attributes* attributes);
/* Attribute `number`, from 0 on, in the order in which they were set; each out argument may be
 * NULL. values: `count` of them, int64_t, double or const char*; valid until the attributes are
 * freed. */
TREMULA_API tremula_status tremula_attributes_at(const tremula_attributes* attributes, int number,
                                                 const char** name, tremula_attribute_type* type,
                                                 size_t* count, const void** values);
/* number: of the attribute `name`; -1 if there is none, and for NULL. */
TREMULA_API tremula_status tremula_attributes_find(const tremula_attributes* attributes,
                                                   const char* name, int* number);

/* ---- consuming ---- */

/* options: NULL or YAML with the keys
 *   steps  every (default): all steps, but for those that the producer's when_full drops;
 *          latest: each begin_step gives the newest step that is complete when the first rank of the
 *          group calls it, or the next one. The producer never waits for this consumer: it keeps
 *          the newest step for it, and those, at most two, that its ranks are taking, whatever its
 *          queue_depth is;
 *          share: each step goes to one of the groups that share the steps of the stream, to that
 *          which has the fewest under way. The producer waits when all of them have queue_depth, and
 *          drops none, whatever its when_full says. What is on its way to a group that leaves or
 *          fails is no other's.
 *   start  the first step of a group that comes when the stream is under way: next (default): that
 *          which the producer begins next; latest: the newest that it has kept (keep_steps); oldest:
 *          the oldest that it has kept. next where steps are shared.
 *   restart_timeout
 *          seconds, or none, that begin_step waits for another producer when that of the stream is lost
 *          (killed, not heard of, or freed without close); default 0: the loss is an error. The stream
 *          is then started again under its name by a group with the same server key, perhaps in another
 *          layout, and goes on in a new epoch: begin_step returns TREMULA_EPOCH_CHANGED once, on every
 *          rank, and the next call begins a step of that producer, as `start` says, which numbers its
 *          steps (its first_step). Of a stream of several groups (tremula_out_part) all are started
 *          again. With it tremula_in_end_step is collective, and a step counts when that has returned
 *          TREMULA_OK, on all ranks or on none: what the ranks do together belongs behind it. A step
 *          that the producer's loss has cut short ends with TREMULA_PEER_LOST from tremula_in_get or
 *          tremula_in_end_step; the call after that is begin_step, which then returns no TREMULA_PEER_LOST
 *          unless the link alone was lost and the producer goes on: steps of it are missing.
 *          TREMULA_TIMED_OUT, or what the last attempt has found, such as TREMULA_NO_SERVER: no producer
 *          came in time. Any other error of the stream on one rank is told to the others, which get it
 *          with the number of that rank.
 *          A state whose readers serve may be read from one of them: when that leaves or is lost, the next
 *          begin_step links this group to another one that has it, in the same epoch; no version comes
 *          twice, nor an older one.
 *   serve  of a state whose producer says readers_serve, default false. true: when all ranks have ended
 *          a version of which they have got all fields, other readers may get it from this group, if
 *          they have a restart_timeout. They get no newer one than it has ended. It needs a
 *          restart_timeout of its own, and fields as the producer has put them: of the same type,
 *          without tremula_in_update. tremula_in_get copies what it gets; the group keeps two copies,
 *          and two more for each of its readers, which it links in begin_step and end_step.
 *          tremula_in_begin_step and tremula_in_close are collective, too; after the end of the stream
 *          the latter waits until the readers have taken the newest version. */
TREMULA_API tremula_status tremula_in_open(tremula_session* session, const char* stream,
                                           const char* options, tremula_in_stream** in);
/* Asks for a field in a layout of this group. Declared as fields of tremula_out_field are. A type
 * other than that of the producer converts the elements, as tremula_in_update does. */
TREMULA_API tremula_status tremula_in_field(tremula_in_stream* in, const char* name,
                                            tremula_type type, const tremula_layout* layout,
                                            int* field);
/* Asks for a field that is changed on its way: every tremula_in_get computes, as `update` says,
 *   data = alpha * op(field) + beta * data
 * The members `from` and `from_type` are ignored: the producer has declared them. */
TREMULA_API tremula_status tremula_in_update(tremula_in_stream* in, const char* name,
                                             const tremula_update* update, int* field);
/* Decides which rank of the consumer takes which part, so that over all fields together the fewest
 * bytes come from other hosts, i.e. from ranks whose sessions have another `host`.
 * label: from now on this rank takes, of every field, the part that its layout gives to rank
 * `label` (tremula_layout_local(layout, label, ...)); its own number where nothing is saved. Called
 * once, between the last tremula_in_field and the first begin_step of any stream of the session, and
 * before buffers are allocated.
 * options: NULL or YAML with the key
 *   method  exact (default), or greedy: quicker for many thousand hosts, may move more bytes
 * Collective; waits at most the session's timeout for a producer that offers the stream. */
TREMULA_API tremula_status tremula_in_relabel(tremula_in_stream* in, const char* options,
                                              int* label);
/* Waits for the next step: TREMULA_OK, TREMULA_END_OF_STREAM or an error; with restart_timeout also
 * TREMULA_EPOCH_CHANGED. */
TREMULA_API tremula_status tremula_in_begin_step(tremula_in_stream* in);
/* As tremula_in_begin_step, but waits at most `seconds` for the step, and then returns
 * TREMULA_NOT_READY. 0 does not wait; then a stream is first linked when its producer waits for
 * consumers. Collective until that, and with restart_timeout from the loss of the producer until
 * TREMULA_EPOCH_CHANGED: TREMULA_NOT_READY until all ranks have found the loss, and then until another
 * producer is linked. Else ranks may get different answers. */
TREMULA_API tremula_status tremula_in_begin_step_within(tremula_in_stream* in, double seconds);
/* For a group with time steps of its own: begins the step at or before `time`, the newest one, when its
 * time has come; older ones go by (`passed`). TREMULA_OK, or TREMULA_NONE_MISSING if this group has begun
 * that step already: no step comes twice. TREMULA_END_OF_STREAM: it has, and none follows. Waits until
 * the producer has ended a step at `time` or after it, or the stream. The times of the calls do not
 * fall, and are not before the first step that the group gets: a group that comes late calls
 * tremula_in_begin_step first, which may be mixed with this, and goes on from the time of that step.
 * unit: in which `time` is counted, e.g. "s": TREMULA_MISMATCH if that is not the stream's "time_unit";
 * NULL: not compared. TREMULA_UNSUPPORTED: the steps have no time, or are dropped or shared, or the
 * producer has no queue_depth for two, or this group has a restart_timeout.
 * Collective, always: all ranks ask for the same time and begin the same step; TREMULA_MISMATCH if they
 * ask for different ones. A rank that has lost the stream need not come: TREMULA_PEER_LOST on the others.
 * The other streams of the session go on. */
TREMULA_API tremula_status tremula_in_begin_step_at(tremula_in_stream* in, int64_t time,
                                                    const char* unit);
/* The same for the steps between which `time` lies, for interpolation: that at `time` if there is one,
 * else the newest before it and the first after it. Called until it gives TREMULA_NONE_MISSING, it begins
 * those that the group has not had, in their order. TREMULA_END_OF_STREAM: `time` is after the last step,
 * which was had. To a group whose first step is after `time`, that is the one after it. */
TREMULA_API tremula_status tremula_in_begin_step_around(tremula_in_stream* in, int64_t time,
                                                        const char* unit);
/* is_ready: 1 if tremula_in_begin_step would return at once, else 0; 0 before the stream is linked,
 * which a begin_step must do. Never blocks; not collective. */
TREMULA_API tremula_status tremula_in_is_ready(tremula_in_stream* in, int* is_ready);
/* Number of the step begun last: 0, 1, ... as the producer counts. */
TREMULA_API tremula_status tremula_in_step(const tremula_in_stream* in, uint64_t* step);
/* Time of the step, between begin_step and end_step: a count of the stream's attribute "time_unit".
 * TREMULA_INVALID_ARGUMENT if the stream has none. */
TREMULA_API tremula_status tremula_in_time(const tremula_in_stream* in, int64_t* time);
/* What the producer has set; of: a field that this side has declared or TREMULA_OF_STREAM, after the
 * first begin_step; or TREMULA_OF_STEP, between begin_step and end_step. A copy, to be freed. All ranks
 * get the same, as all ranks of the producer set the same; see tremula_out_attribute where they do not. */
TREMULA_API tremula_status tremula_in_attributes(const tremula_in_stream* in, int of,
                                                 tremula_attributes** attributes);
/* The layout of a field's array: as declared or, where its extent changes with every step (`*` in the
 * shape), that of the step, between begin_step and end_step; tremula_layout_local tells of it the
 * buffer that tremula_in_get fills. Waits for nobody; to be freed. */
TREMULA_API tremula_status tremula_in_layout(const tremula_in_stream* in, int field,
                                             tremula_layout** layout);
/* Gives `count` fields other layouts of the same shapes, e.g. when the work is dealt anew: layouts[i] is
 * that of fields[i]; the other fields keep theirs. Between two steps, once one has ended. The producer
 * takes it up when it begins its next step, and waits then, at most step_timeout, until this group has
 * taken all earlier steps, which come in the layouts that they were put for, and begins that one; its other
 * consumers notice nothing but time. So the producer must come to that step without this group's getting
 * it, as with queue_depth 0: else TREMULA_DEADLOCK. tremula_in_redeclarations tells of each step which
 * layouts it has, tremula_in_layout returns them. The stream goes on, also after the server was started
 * again. Not for a stream of several producer groups, of a state, and for steps that are asked for by their
 * time. Arguments that are refused leave the stream as it was. Waits for the server, and for no producer:
 * of one that has ended the stream, or was lost, the next begin_step tells.
 * Collective: all ranks name the same fields, each with its own lists where ranks list what they own. */
TREMULA_API tremula_status tremula_in_redeclare(tremula_in_stream* in, int count, const int* fields,
                                                const tremula_layout* const* layouts);
/* *count: how many of the calls of tremula_in_redeclare hold for the step begun last. */
TREMULA_API tremula_status tremula_in_redeclarations(const tremula_in_stream* in, uint64_t* count);
/* Fills `data` with this rank's part of the field; blocks until all of it has arrived. Cells that
 * the rank does not own (ghost cells, padding) are left alone, and so are elements that the producer
 * lacks: see tremula_in_fills. After an error the contents are undefined. TREMULA_MISMATCH: a value did
 * not fit the declared type; the stream goes on. */
TREMULA_API tremula_status tremula_in_get(tremula_in_stream* in, int field, void* data,
                                          size_t bytes);
/* *fills: 1 if tremula_in_get of the step begun last sets every element of this rank's part, whatever it
 * held; else 0: an update has a beta other than 0 or writes a box of the part, or no rank of a producer whose
 * ranks list what they own (TREMULA_PARTIAL) has an element of it. Memory never set keeps arbitrary numbers:
 * set it before get. After the first begin_step. Waits for nothing. */
TREMULA_API tremula_status tremula_in_fills(const tremula_in_stream* in, int field, int* fills);
/* Gives the step back to the producer's queue. Collective with restart_timeout. */
TREMULA_API tremula_status tremula_in_end_step(tremula_in_stream* in);
/* Leaves the stream, also before its end. Every rank of the group calls it, at any time. */
TREMULA_API tremula_status tremula_in_close(tremula_in_stream* in);
/* Frees the handle. A stream that a rank frees without closing it is given up for the whole group,
 * and the producer counts that group as lost. NULL is allowed. */
TREMULA_API void tremula_in_free(tremula_in_stream* in);

/* ---- counters ---- */

/* Of this rank since the stream was opened. Exact. */
typedef struct tremula_statistics {
  size_t size;
  uint64_t steps;        /* complete */
  uint64_t packages;     /* sent or received */
  uint64_t bytes;        /* payload sent or received */
  uint64_t copied_bytes; /* from memory to memory by this rank, without what the library of the
                          * transport copies. Summed over all ranks of a side, divided by its bytes
                          * and added up over both sides: how often each byte is copied. */
  double plan_seconds;
  double wait_seconds; /* blocked on the other side */
  double copy_seconds; /* packing, unpacking, copying; parts of a few short runs are not timed */
  double wire_seconds; /* producer: from the end of a step to the last of its messages sent */
  char transport[64];  /* of the link opened last, e.g. "ofi:tcp;ofi_rxm" */
  /* Consumer: of the bytes that were got, those that are as the producer's hashes tell (session key
   * proof); others were converted or scaled. */
  uint64_t proved_bytes;
  /* Steps that did not go over a link, as its when_full says. Producer: summed over its links, known
   * when the next step is begun. Consumer: those before the step begun last, or before the end. */
  uint64_t dropped;
  uint64_t queued_steps; /* producer: the most that were ever under way to one consumer */
  uint64_t queued_bytes; /* producer: the same, of this rank */
  uint64_t passed; /* consumer: steps that went by, as tremula_in_begin_step_at, _around say */
  /* How often memory was made for the elements of fields whose extent changes (`*` in the shape): no
   * longer once a step as large as any has gone by. What does not grow with them is not counted. */
  uint64_t growths;
} tremula_statistics;

static inline tremula_statistics tremula_statistics_init(void) {
  tremula_statistics statistics;
  memset(&statistics, 0, sizeof statistics);
  statistics.size = sizeof statistics;
  return statistics;
}

/* Counters of this rank since the stream was opened. Set statistics->size first, as tremula_statistics_init
 * does: so many bytes are written. TREMULA_INVALID_ARGUMENT for NULL and for a size of 0. */
TREMULA_API tremula_status tremula_out_statistics(const tremula_out_stream* out,
                                                  tremula_statistics* statistics);
TREMULA_API tremula_status tremula_in_statistics(const tremula_in_stream* in,
                                                 tremula_statistics* statistics);
/* The same for the step ended last; wire_seconds: of the messages that were found to be sent since
 * the end of the step before. */
TREMULA_API tremula_status tremula_out_step_statistics(const tremula_out_stream* out,
                                                       tremula_statistics* statistics);
TREMULA_API tremula_status tremula_in_step_statistics(const tremula_in_stream* in,
                                                      tremula_statistics* statistics);

/* Of this rank with one rank of the other side since their link was opened. */
typedef struct tremula_peer_statistics {
  size_t size;
  char group[256];
  int rank;
  uint64_t packages;
  uint64_t bytes;
  uint64_t copied_bytes;
  double copy_seconds;
  double wire_seconds;
  /* In which data came across last: inlined, lent, rma, shared, staged, ring, "on demand". */
  char path[16];
} tremula_peer_statistics;

static inline tremula_peer_statistics tremula_peer_statistics_init(void) {
  tremula_peer_statistics peer;
  memset(&peer, 0, sizeof peer);
  peer.size = sizeof peer;
  return peer;
}

/* Fills the first entries of `peers`, which has `room` of them, `stride` bytes apart, each set by
 * tremula_peer_statistics_init; count: how many there are. Only links that are open. */
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
