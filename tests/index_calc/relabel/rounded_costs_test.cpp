// SPDX-License-Identifier: Apache-2.0
// The cost of a relabeling does not depend on the processor: relabel.cpp is built here with the
// options that index_calc sets for it, for a processor that could fuse products and sums.
#include <gtest/gtest.h>

#include "index_calc/relabel/relabel.hpp"

namespace tremula::index_calc {
namespace {

// Relies on (2^30 + 1) * (1 + 2^-30) = 2^30 + 2 + 2^-30, which a double rounds to 2^30 + 2.
TEST(RoundedCosts, AreTheSameWithFusedInstructions) {
  if (!__builtin_cpu_supports("fma") || !__builtin_cpu_supports("avx2"))
    GTEST_SKIP() << "this processor has no FMA";
  const Layout whole = Layout::parse("shape=1073741825 grid=1");
  const CostTable table{.at = {.producers = {0}, .consumers = {1}},
                        .places = 2,
                        .latency = {0, -(0x1p30 + 2), 0, 0},
                        .per_byte = {0, 1 + 0x1p-30, 0, 0}};
  const Transfer transfer{.from = whole, .to = whole, .element_bytes = 1};
  EXPECT_EQ(relabel({&transfer, 1}, table).before, 0.0);
}

}  // namespace
}  // namespace tremula::index_calc
