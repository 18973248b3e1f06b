// SPDX-License-Identifier: Apache-2.0
// consumer.cpp in C.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <tremula/tremula_mpi.h>

// Ends the job with the library's error text if a call has failed.
static tremula_status check(tremula_status status) {
  if (status >= 0) return status;
  fprintf(stderr, "consumer: %s\n", tremula_last_error());
  MPI_Abort(MPI_COMM_WORLD, 1);
  return status;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  tremula_session* session;
  check(tremula_session_open_mpi("consumer", MPI_COMM_WORLD, NULL, &session));
  const int rank = tremula_session_rank(session);
  char text[64];
  snprintf(text, sizeof text, "shape=1000x800 grid=1x%d block=1000x16",
           tremula_session_size(session));
  tremula_layout* layout;
  check(tremula_layout_parse(text, &layout));
  tremula_in_stream* in;
  check(tremula_in_open(session, "matrix", NULL, &in));
  int field;
  check(tremula_in_field(in, "value", TREMULA_F64, layout, &field));

  int64_t allocated;
  check(tremula_layout_local(layout, rank, NULL, NULL, NULL, &allocated));
  const size_t bytes = (size_t)allocated * sizeof(double);
  double* data = malloc(bytes);
  while (check(tremula_in_begin_step(in)) == TREMULA_OK) {
    check(tremula_in_get(in, field, data, bytes));
    check(tremula_in_end_step(in));

    uint64_t step;
    check(tremula_in_step(in, &step));
    double sum = 0, total = 0;
    for (int64_t i = 0; i < allocated; ++i) sum += data[i];
    MPI_Reduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("step %d: mean %.1f\n", (int)step, total / 800000);
  }
  check(tremula_in_close(in));
  tremula_in_free(in);
  tremula_layout_free(layout);
  check(tremula_session_close(session));
  free(data);
  MPI_Finalize();
  return 0;
}
