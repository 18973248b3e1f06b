// SPDX-License-Identifier: Apache-2.0
// The cost of a relabeling does not depend on the processor: relabel.cpp is built here with the
// options that index_calc sets for it, for a processor that could fuse products and sums.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "index_calc/relabel/relabel.hpp"

namespace tremula::index_calc {
namespace {

/// Returns the cost of bytes that producers at place 0 send to one consumer at place 1.
double cost(const std::string& shape, const std::string& grid, double latency, double per_byte) {
  const Layout from = Layout::parse(shape + grid), to = Layout::parse(shape + " grid=1");
  const CostTable table{
      .at = {.producers = std::vector<RankCount>(static_cast<std::size_t>(rank_count(from)), 0),
             .consumers = {1}},
      .places = 2,
      .latency = {0, latency, 0, 0},
      .per_byte = {0, per_byte, 0, 0}};
  const Transfer transfer{.from = from, .to = to, .element_bytes = 1};
  return relabel({&transfer, 1}, table).before;
}

// Each case rounds one of the two products, because compilers differ in which one they fuse with the
// sum: 3 * (1 + 2^-52) becomes 3 + 2^-50, and (2^30 + 1) * (1 + 2^-30) becomes 2^30 + 2.
TEST(RoundedCosts, AreTheSameWithFusedInstructions) {
  if (!__builtin_cpu_supports("fma") || !__builtin_cpu_supports("avx2"))
    GTEST_SKIP() << "this processor has no FMA";
  EXPECT_EQ(cost("shape=8", " grid=3 block=3", 1 + 0x1p-52, -(3 + 0x1p-50) / 8), 0.0);
  EXPECT_EQ(cost("shape=1073741825", " grid=1", -(0x1p30 + 2), 1 + 0x1p-30), 0.0);
}

}  // namespace
}  // namespace tremula::index_calc
