// SPDX-License-Identifier: Apache-2.0
// What is kept with contexts neither grows nor outlives them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "tests/scalapack/matrices.hpp"

namespace {
/// Duplicated and not yet freed, by BLACS and by Tremula: for each context one by each.
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
constexpr std::size_t allowed_growth = std::size_t{1} << 30;  // what is freed is kept for a while
#else
constexpr std::size_t allowed_growth = std::size_t{1} << 20;
#endif

using Gemr2d = void(int, int, const double*, int, int, const int*, double*, int, int, const int*,
                    int);
using Tran = void(int, int, double, const double*, int, int, const int*, double, double*, int, int,
                  const int*);

/// One call of each function, with matrices that are now square and now not.
void call_both(Random& random, const Context& context, int n) {
  static const auto gemr2d = Library::tested().function<Gemr2d>("tremula_pdgemr2d");
  static const auto tran = Library::tested().function<Tran>("tremula_pdtran");
  const Shape from(random, n, n + 1, context.rows, context.columns),
      to(random, n, n + 1, context.rows, context.columns),
      transposed(random, n + 1, n, context.rows, context.columns);
  Part<double> a(context, from), b(context, to), c(context, transposed);
  gemr2d(n, n + 1, a.cells.data(), a.row, a.column, a.descriptor.data(), b.cells.data(), b.row,
         b.column, b.descriptor.data(), context.number);
  tran(n + 1, n, 2, a.cells.data(), a.row, a.column, a.descriptor.data(), 0, c.cells.data(), c.row,
       c.column, c.descriptor.data());
}

std::vector<int> all_ranks() {
  std::vector<int> all(static_cast<std::size_t>(world_size()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

TEST(Growth, TenThousandCallsTakeNoMemory) {
  Random random = shared_random();
  const Context context(2, world_size() / 2, all_ranks());
  std::size_t before = 0;
  for (int k = 0; k < 5000; ++k) {
    call_both(random, context, pick(random, 1, 9));
    if (k == 1000) before = resident_bytes();
  }
  EXPECT_LT(resident_bytes(), before + allowed_growth);
  EXPECT_EQ(duplicates.size(), 2u) << "for one context";
}

TEST(Growth, TwoThousandContextsLeaveNothing) {
  Random random = shared_random();
  std::size_t before = 0;
  for (int k = 0; k < 2000; ++k) {
    {
      const Context context(world_size() / 2, 2, all_ranks());
      call_both(random, context, 3);
      EXPECT_EQ(duplicates.size(), 2u);
    }
    EXPECT_EQ(duplicates.size(), 0u) << "after blacs_gridexit";
    if (k == 500) before = resident_bytes();
  }
  EXPECT_LT(resident_bytes(), before + allowed_growth);
}

}  // namespace
}  // namespace tremula::scalapack_tests
