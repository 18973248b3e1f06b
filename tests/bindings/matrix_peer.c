/* SPDX-License-Identifier: Apache-2.0
 * matrix_peer produce|consume LAYOUT STEPS: the job of tests/python/matrix_peer.cpp in C. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tremula/tremula.h>

static void check(tremula_status status) {
  if (status >= 0) return;
  fprintf(stderr, "matrix_peer: %s\n", tremula_last_error());
  exit(1);
}

static void expect(int is_so, const char* what, int64_t at) {
  if (is_so) return;
  fprintf(stderr, "matrix_peer: wrong %s: %lld\n", what, (long long)at);
  exit(1);
}

struct Part {
  const tremula_layout* layout;
  int rank;
  int64_t shape[2], extents[2], strides[2], first, allocated;
};

/* Sets the elements that the rank owns, or compares them. */
static void each(const struct Part* p, double* data, int step, int is_set) {
  for (int64_t i = 0; i < p->extents[0]; ++i)
    for (int64_t j = 0; j < p->extents[1]; ++j) {
      int64_t row, column;
      check(tremula_layout_global_index(p->layout, p->rank, 0, i, &row));
      check(tremula_layout_global_index(p->layout, p->rank, 1, j, &column));
      const int64_t number = row * p->shape[1] + column;
      double* element = data + p->first + i * p->strides[0] + j * p->strides[1];
      if (is_set)
        *element = 1e6 * step + (double)number;
      else
        expect(*element == 1e6 * step + (double)number, "element", number);
    }
}

static void produce(tremula_session* session, const struct Part* p, int steps) {
  tremula_out_stream* out;
  int field;
  double* data = calloc((size_t)p->allocated, sizeof *data);
  const size_t bytes = (size_t)p->allocated * sizeof *data;
  const char *unit = "s", *kelvin = "K";
  check(tremula_out_open(session, "matrix", NULL, &out));
  check(tremula_out_field(out, "value", TREMULA_F64, p->layout, &field));
  check(tremula_out_attribute(out, TREMULA_OF_STREAM, "time_unit", TREMULA_TEXT, &unit, 1));
  check(tremula_out_attribute(out, field, "units", TREMULA_TEXT, &kelvin, 1));
  for (int step = 0; step < steps; ++step) {
    const int64_t iterations[2] = {step, 2};
    each(p, data, step, 1);
    check(tremula_out_begin_step(out));
    check(tremula_out_time(out, 3600 * step));
    check(
        tremula_out_attribute(out, TREMULA_OF_STEP, "iterations", TREMULA_INTEGER, iterations, 2));
    check(tremula_out_put(out, field, data, bytes));
    check(tremula_out_end_step(out));
  }
  check(tremula_out_close(out));
  tremula_out_free(out);
  free(data);
}

static void consume(tremula_session* session, const struct Part* p, int steps) {
  tremula_in_stream* in;
  int field, step = 0;
  double* data = calloc((size_t)p->allocated, sizeof *data);
  tremula_status status;
  check(tremula_in_open(session, "matrix", NULL, &in));
  check(tremula_in_field(in, "value", TREMULA_F64, p->layout, &field));
  for (; (status = tremula_in_begin_step(in)) == TREMULA_OK; ++step) {
    int64_t time;
    tremula_attributes* attributes;
    int number;
    const char* name;
    tremula_attribute_type type;
    size_t count;
    const void* values;
    check(tremula_in_time(in, &time));
    expect(time == 3600 * step, "time of the step", time);
    check(tremula_in_attributes(in, TREMULA_OF_STEP, &attributes));
    check(tremula_attributes_find(attributes, "iterations", &number));
    check(tremula_attributes_at(attributes, number, &name, &type, &count, &values));
    expect(type == TREMULA_INTEGER && count == 2 && ((const int64_t*)values)[0] == step,
           "attribute iterations", step);
    tremula_attributes_free(attributes);
    check(tremula_in_attributes(in, field, &attributes));
    check(tremula_attributes_find(attributes, "units", &number));
    check(tremula_attributes_at(attributes, number, &name, &type, &count, &values));
    expect(type == TREMULA_TEXT && strcmp(((const char* const*)values)[0], "K") == 0, "units",
           step);
    tremula_attributes_free(attributes);
    check(tremula_in_get(in, field, data, (size_t)p->allocated * sizeof *data));
    check(tremula_in_end_step(in));
    each(p, data, step, 0);
  }
  check(status);
  expect(step == steps, "number of steps", step);
  check(tremula_in_close(in));
  tremula_in_free(in);
  free(data);
}

int main(int argc, char** argv) {
  tremula_session* session;
  tremula_layout* layout;
  struct Part p;
  if (argc != 4) {
    fprintf(stderr, "matrix_peer: expected produce or consume, a layout and a number of steps\n");
    return 1;
  }
  check(tremula_session_open(argv[1], -1, -1, NULL, &session));
  check(tremula_layout_parse(argv[2], &layout));
  p.layout = layout;
  p.rank = tremula_session_rank(session);
  check(tremula_layout_shape(layout, p.shape));
  check(tremula_layout_local(layout, p.rank, p.extents, p.strides, &p.first, &p.allocated));
  (strcmp(argv[1], "produce") == 0 ? produce : consume)(session, &p, atoi(argv[3]));
  tremula_layout_free(layout);
  check(tremula_session_close(session));
  return 0;
}
