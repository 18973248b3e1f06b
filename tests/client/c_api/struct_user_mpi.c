/* SPDX-License-Identifier: Apache-2.0 */
/* struct_user_mpi current|grown: one of two ranks of an MPI job. It passes every struct of
 * tremula_mpi.h to a library of the given kind, and calls that library from a child process. */
#include <mpi.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/client/c_api/struct_user.h"
#include "tremula/tremula_mpi.h"

enum { elements = 24 };

int main(int argc, char** argv) {
  tremula_layout *by_rows = NULL, *by_columns = NULL;
  tremula_redistribution* redistribution = NULL;
  tremula_update updates[2];
  double numbers[elements], result[elements], once[elements];
  int32_t counts[elements], counted[elements];
  const void* const from[] = {numbers, counts};
  void* const to[] = {result, counted};
  const size_t bytes[] = {sizeof numbers, sizeof counts};
  GUARDED(tremula_redistribution_statistics, held);
  int rank = -1;
  if (argc != 2) return 2;
  library_is_grown = strcmp(argv[1], "grown") == 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  expect_ok(tremula_layout_parse("shape=8x6 grid=2x1", &by_rows), "a layout");
  expect_ok(tremula_layout_parse("shape=8x6 grid=1x2", &by_columns), "a layout");
  for (int k = 0; k < elements; ++k) numbers[k] = counts[k] = rank * elements + k;

  updates[0] = tremula_update_init(by_rows, by_columns, TREMULA_F64);
  updates[1] = tremula_update_init(by_rows, by_columns, TREMULA_I32);
  updates[1].alpha[0] = 3;
  expect_ok(
      tremula_redistribution_make(MPI_COMM_WORLD, updates, 2, sizeof updates[0], &redistribution),
      "make");
  expect_ok(tremula_redistribution_run(redistribution, from, bytes, to, bytes), "run");
  expect_ok(
      tremula_redistribute(MPI_COMM_WORLD, &updates[0], numbers, sizeof numbers, once, sizeof once),
      "redistribute");
  for (int k = 0; k < elements; ++k) {
    const int number = k / 3 * 6 + rank * 3 + k % 3;
    expect(result[k] == number && once[k] == number, "the number of each element");
    expect(counted[k] == 3 * number, "three times the number of each element");
  }

  held.value = tremula_redistribution_statistics_init();
  SET_ADDED(&held.value);
  set_guard(held.guard);
  expect_ok(tremula_redistribution_get_statistics(redistribution, &held.value), "statistics");
  expect(held.value.size == sizeof held.value, "the size that the application has set");
  expect(held.value.runs == 1 && held.value.bytes_sent == elements / 2 * (8 + 4),
         "one run and its bytes in the statistics");
  expect(held.value.plan_seconds > 0, "the last member of the first version");
  EXPECT_ADDED(&held.value);
  expect_guard(held.guard);

  const pid_t child = fork();
  if (child == 0)
    _exit(tremula_redistribution_get_statistics(redistribution, &held.value) < 0 ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a refusal in a child process");

  tremula_redistribution_free(redistribution);
  tremula_layout_free(by_rows);
  tremula_layout_free(by_columns);
  MPI_Finalize();
  return 0;
}
