/* SPDX-License-Identifier: Apache-2.0 */
/* struct_user producer|consumer current|grown: a rank of the producer or the consumer, which have two
 * ranks each. It passes every struct of tremula.h to a library of the given kind. */
#include "tests/client/c_api/struct_user.h"

enum { rows = 8, columns = 6, steps = 2, elements = rows * columns / 2 };
static const char by_rows[] = "shape=8x6 grid=2x1", by_columns[] = "shape=8x6 grid=1x2";

static tremula_layout* layout_of(const char* text) {
  tremula_layout* layout = NULL;
  expect_ok(tremula_layout_parse(text, &layout), "a layout");
  return layout;
}

/* Passes two updates in an array; the second makes rank 1 keep the part that rank 0 would get. */
static void relabel(void) {
  tremula_layout* const from = layout_of("shape=2 grid=2 ranks=row");
  tremula_layout* const to = layout_of("shape=2 grid=2 members=1/0");
  tremula_update updates[2];
  int process[2] = {-1, -1};
  int64_t before = -1, after = -1;
  updates[0] = tremula_update_init(from, from, TREMULA_I32);
  updates[1] = tremula_update_init(from, to, TREMULA_F64);
  expect_ok(tremula_relabel(updates, 2, sizeof updates[0], 2, NULL, 1, process, &before, &after),
            "relabel");
  expect(before == 16 && after == 8 && process[0] == 1 && process[1] == 0,
         "a relabeling that considers both updates of the array");
  tremula_layout_free(from);
  tremula_layout_free(to);
}

static void expect_statistics(tremula_status (*get)(const void*, tremula_statistics*),
                              const void* stream, uint64_t expected_steps) {
  GUARDED(tremula_statistics, held);
  held.value = tremula_statistics_init();
  SET_ADDED(&held.value);
  set_guard(held.guard);
  expect_ok(get(stream, &held.value), "statistics");
  expect(held.value.size == sizeof held.value, "the size that the application has set");
  expect(held.value.steps == expected_steps, "all steps in the statistics");
  expect(held.value.bytes == expected_steps * elements * sizeof(double),
         "all bytes in the statistics");
  expect(strcmp(held.value.transport, "local") == 0, "the last member of the first version");
  EXPECT_ADDED(&held.value);
  expect_guard(held.guard);
}

static void expect_peers(tremula_status (*get)(const void*, tremula_peer_statistics*, size_t,
                                               size_t, size_t*),
                         const void* stream, const char* group, uint64_t expected_steps) {
  typedef tremula_peer_statistics Peers[2];
  GUARDED(Peers, held);
  size_t count = 0;
  for (int i = 0; i < 2; ++i) {
    held.value[i] = tremula_peer_statistics_init();
    SET_ADDED(&held.value[i]);
  }
  set_guard(held.guard);
  expect_ok(get(stream, held.value, 2, sizeof held.value[0], &count), "peers");
  expect(count == 2, "two peers");
  expect(held.value[0].rank + held.value[1].rank == 1, "the ranks 0 and 1 as peers");
  for (int i = 0; i < 2; ++i) {
    const tremula_peer_statistics* const peer = &held.value[i];
    expect(peer->size == sizeof *peer, "the size that the application has set");
    expect(strcmp(peer->group, group) == 0, "peers of the other group");
    expect(peer->bytes == expected_steps * elements / 2 * sizeof(double), "the bytes of a peer");
    expect(peer->path[0] != '\0', "the last member of the first version");
    EXPECT_ADDED(peer);
  }
  expect_guard(held.guard);
}

/* Wraps the functions of either direction in a common signature. */
#define FORWARD(direction)                                                                         \
  static tremula_status direction##_statistics(const void* s, tremula_statistics* to) {            \
    return tremula_##direction##_statistics((const tremula_##direction##_stream*)s, to);           \
  }                                                                                                \
  static tremula_status direction##_step_statistics(const void* s, tremula_statistics* to) {       \
    return tremula_##direction##_step_statistics((const tremula_##direction##_stream*)s, to);      \
  }                                                                                                \
  static tremula_status direction##_peers(const void* s, tremula_peer_statistics* to, size_t room, \
                                          size_t stride, size_t* count) {                          \
    return tremula_##direction##_peers((const tremula_##direction##_stream*)s, to, room, stride,   \
                                       count);                                                     \
  }
FORWARD(out)
FORWARD(in)

static void produce(tremula_session* session) {
  tremula_layout* const layout = layout_of(by_rows);
  const int first = tremula_session_rank(session) * elements;
  tremula_out_stream* out = NULL;
  double data[elements];
  int field = -1;
  for (int k = 0; k < elements; ++k) data[k] = first + k;
  expect_ok(tremula_out_open(session, "numbers", "{queue_depth: 0}", &out), "open");
  expect_ok(tremula_out_field(out, "number", TREMULA_F64, layout, &field), "field");
  for (int step = 0; step < steps; ++step) {
    expect_ok(tremula_out_begin_step(out), "begin_step");
    expect_ok(tremula_out_put(out, field, data, sizeof data), "put");
    expect_ok(tremula_out_end_step(out), "end_step");
  }
  expect_statistics(out_step_statistics, out, 1);
  expect_peers(out_peers, out, "consumer", steps);
  expect_ok(tremula_out_close(out), "close");
  expect_statistics(out_statistics, out, steps);
  tremula_out_free(out);
  tremula_layout_free(layout);
}

static void consume(tremula_session* session) {
  tremula_layout* const layout = layout_of(by_columns);
  const int first = tremula_session_rank(session) * columns / 2;
  tremula_update update = tremula_update_init(NULL, layout, TREMULA_F64);
  tremula_in_stream* in = NULL;
  double data[elements];
  int field = -1;
  update.alpha[0] = 2;
  expect_ok(tremula_in_open(session, "numbers", NULL, &in), "open");
  expect_ok(tremula_in_update(in, "number", &update, &field), "update");
  for (int step = 0; step < steps; ++step) {
    expect_ok(tremula_in_begin_step(in), "begin_step");
    expect_ok(tremula_in_get(in, field, data, sizeof data), "get");
    expect_ok(tremula_in_end_step(in), "end_step");
    for (int k = 0; k < elements; ++k) {
      const int row = k / (columns / 2);
      expect(data[k] == 2 * (row * columns + first + k % (columns / 2)),
             "twice the number of each element");
    }
    expect_statistics(in_step_statistics, in, 1);
    expect_peers(in_peers, in, "producer", (uint64_t)step + 1);
  }
  expect(tremula_in_begin_step(in) == TREMULA_END_OF_STREAM, "the end of the stream");
  expect_statistics(in_statistics, in, steps);
  expect_ok(tremula_in_close(in), "close");
  tremula_in_free(in);
  tremula_layout_free(layout);
}

int main(int argc, char** argv) {
  tremula_session* session = NULL;
  if (argc != 3) return 2;
  library_is_grown = strcmp(argv[2], "grown") == 0;
  relabel();
  expect_ok(tremula_session_open(argv[1], -1, -1, "{transport: local, timeout: 40}", &session),
            "a session");
  if (strcmp(argv[1], "producer") == 0)
    produce(session);
  else
    consume(session);
  expect_ok(tremula_session_close(session), "close the session");
  return 0;
}
