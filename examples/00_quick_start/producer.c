// SPDX-License-Identifier: Apache-2.0
// producer.cpp in C.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <tremula/tremula_mpi.h>

// Ends the job with the library's error text if a call has failed.
static void check(tremula_status status) {
  if (status >= 0) return;
  fprintf(stderr, "producer: %s\n", tremula_last_error());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  tremula_session* session;
  check(tremula_session_open_mpi("producer", MPI_COMM_WORLD, NULL, &session));
  const int rank = tremula_session_rank(session);
  char text[64];
  snprintf(text, sizeof text, "shape=1000x800 grid=%dx1", tremula_session_size(session));
  tremula_layout* layout;
  check(tremula_layout_parse(text, &layout));
  tremula_out_stream* out;
  check(tremula_out_open(session, "matrix", NULL, &out));
  int field;
  check(tremula_out_field(out, "value", TREMULA_F64, layout, &field));

  int64_t allocated, first_row;  // my rows, which are consecutive
  check(tremula_layout_local(layout, rank, NULL, NULL, NULL, &allocated));
  check(tremula_layout_global_index(layout, rank, 0, 0, &first_row));
  const size_t bytes = (size_t)allocated * sizeof(double);
  double* data = malloc(bytes);
  for (int step = 0; step < 10; ++step) {
    for (int64_t i = 0; i < allocated; ++i) data[i] = 1e6 * step + (double)(800 * first_row + i);
    check(tremula_out_begin_step(out));
    check(tremula_out_put(out, field, data, bytes));
    check(tremula_out_end_step(out));
  }
  check(tremula_out_close(out));
  tremula_out_free(out);
  tremula_layout_free(layout);
  check(tremula_session_close(session));
  free(data);
  MPI_Finalize();
  return 0;
}
