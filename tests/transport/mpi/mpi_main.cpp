// SPDX-License-Identifier: Apache-2.0
// A GoogleTest program that mpirun starts on every rank. All ranks run the same tests in the same
// order.
#include <gtest/gtest.h>
#include <mpi.h>
#include <sys/prctl.h>

#include <cstdlib>
#include <string>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const char* wanted = std::getenv("TREMULA_TEST_THREAD_LEVEL");
  int level = 0;
  MPI_Init_thread(&argc, &argv, wanted == nullptr ? MPI_THREAD_MULTIPLE : std::atoi(wanted),
                  &level);
  // Acts as if every rank were on a separate machine: no peer can map its memory.
  if (std::getenv("TREMULA_TEST_ALONE") != nullptr) prctl(PR_SET_DUMPABLE, 0);
  const int status = RUN_ALL_TESTS();
  MPI_Finalize();
  return status;
}
