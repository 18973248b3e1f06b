// SPDX-License-Identifier: Apache-2.0
// State that is kept with contexts neither grows without bound nor outlives them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "tests/scalapack/matrices.hpp"

namespace {
/// Communicators that were duplicated and not yet freed: one by BLACS and one by Tremula for every
/// context.
std::set<MPI_Comm> duplicates;
}  // namespace

extern "C" int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* copy) {
  const int code = PMPI_Comm_dup(comm, copy);
  duplicates.insert(*copy);
  return code;
}
extern "C" int MPI_Comm_free(MPI_Comm* comm) {
  duplicates.erase(*comm);
  return PMPI_Comm_free(comm);
}

namespace tremula::scalapack_tests {
namespace {

std::size_t resident_bytes() {
  std::size_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t allowed_growth = std::size_t{1} << 30;  // freed memory is kept for a while,
constexpr int calls_in_all = 1500, contexts_in_all = 600;     // so other builds check growth
#else
constexpr std::size_t allowed_growth = std::size_t{1} << 20;
constexpr int calls_in_all = 5000, contexts_in_all = 2000;
#endif

using Gemr2d = void(int, int, const double*, int, int, const int*, double*, int, int, const int*,
                    int);
using Tran = void(int, int, double, const double*, int, int, const int*, double, double*, int, int,
                  const int*);

/// Matrices for one call of each function.
class Calls {
public:
  Calls(Random& random, const Context& context, int n)
      : n_(n),
        a_(context, Shape(random, n, n + 1, context.rows, context.columns)),
        b_(context, Shape(random, n, n + 1, context.rows, context.columns)),
        c_(context, Shape(random, n + 1, n, context.rows, context.columns)) {}

  void run() {
    static const auto gemr2d = Library::tested().function<Gemr2d>("tremula_pdgemr2d");
    static const auto tran = Library::tested().function<Tran>("tremula_pdtran");
    gemr2d(n_, n_ + 1, a_.cells.data(), a_.row, a_.column, a_.descriptor.data(), b_.cells.data(),
           b_.row, b_.column, b_.descriptor.data(), b_.context().number);
    tran(n_ + 1, n_, 2, a_.cells.data(), a_.row, a_.column, a_.descriptor.data(), 0,
         c_.cells.data(), c_.row, c_.column, c_.descriptor.data());
  }

private:
  int n_;
  Part<double> a_, b_, c_;
};

std::vector<int> all_ranks() {
  std::vector<int> all(static_cast<std::size_t>(world_size()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

TEST(Growth, ThousandsOfCallsTakeNoMemory) {
  Random random = shared_random();
  const Context context(2, world_size() / 2, all_ranks());
  std::vector<Calls> calls;  // more calls than the number of plans that are kept
  for (int n = 1; n <= 20; ++n) calls.emplace_back(random, context, n);
  std::size_t before = 0;
  for (int k = 0; k < calls_in_all; ++k) {
    calls[static_cast<std::size_t>(random.in(0, 19))].run();
    if (k == 1000) before = resident_bytes();
  }
  EXPECT_LT(resident_bytes(), before + allowed_growth);
  EXPECT_EQ(duplicates.size(), 2u) << "for one context";
}

TEST(Growth, ManyContextsLeaveNothing) {
  Random random = shared_random();
  std::size_t before = 0;
  for (int k = 0; k < contexts_in_all; ++k) {
    {
      const Context context(world_size() / 2, 2, all_ranks());
      Calls(random, context, 3).run();
      EXPECT_EQ(duplicates.size(), 2u);
    }
    EXPECT_EQ(duplicates.size(), 0u) << "after blacs_gridexit";
    if (k == 500) before = resident_bytes();
  }
  EXPECT_LT(resident_bytes(), before + allowed_growth);
}

}  // namespace
}  // namespace tremula::scalapack_tests
