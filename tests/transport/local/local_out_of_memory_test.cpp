// SPDX-License-Identifier: Apache-2.0
// Memory runs out while operations are given up: the process survives, and the bytes of the
// operations belong to the caller again.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/transport/count_allocations.hpp"
#include "tests/transport/local/local_pair.hpp"

namespace tremula::transport {

TEST(LocalOutOfMemory, GivingUpEndsAtMostTheLink) {
  if (!testing_only::counts_allocations()) GTEST_SKIP() << "a sanitizer allocates here";
  for (long number = 1; number <= 4; ++number) {
    SCOPED_TRACE(number);
    const Pair pair;
    // The ring is full of small messages, so commands that do not fit are kept.
    const Bytes small = filled(4 * kibi, 1), large = filled(mebi, 2);
    std::vector<Request> sends, receives;
    std::vector<Bytes> in(8, filled(mebi, 3));
    for (std::size_t i = 0; i < in.size(); ++i) {
      receives.push_back(pair.consumer->receive(0, 100 + i, in[i]));
      sends.push_back(pair.producer->send(0, 100 + i, large));
    }
    for (int i = 0; i < 4; ++i) pair.producer->progress(), pair.consumer->progress();
    for (int i = 0; i < 300; ++i) sends.push_back(pair.consumer->send(0, 1, small));
    testing_only::fail_allocation(testing_only::allocations() + number);
    for (Request& receive : receives) receive.reset();
    testing_only::fail_allocation(0);
    const std::vector<Bytes> then = in;
    for (int i = 0; i < 200; ++i) pair.producer->progress(), pair.consumer->progress();
    EXPECT_EQ(in, then);
  }
}

}  // namespace tremula::transport
