// SPDX-License-Identifier: Apache-2.0
// Memory runs out while operations begin or are given up: the process survives, and the bytes of the
// operations that have failed belong to the caller again.
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
      receives.push_back(pair.consumer->receive(Rank{0}, 100 + i, in[i]));
      sends.push_back(pair.producer->send(Rank{0}, 100 + i, large));
    }
    for (int i = 0; i < 4; ++i) pair.producer->progress(), pair.consumer->progress();
    for (int i = 0; i < 300; ++i) sends.push_back(pair.consumer->send(Rank{0}, 1, small));
    testing_only::fail_allocation(testing_only::allocations() + number);
    for (Request& receive : receives) receive.reset();
    testing_only::fail_allocation(0);
    const std::vector<Bytes> then = in;
    for (int i = 0; i < 200; ++i) pair.producer->progress(), pair.consumer->progress();
    EXPECT_EQ(in, then);
  }
}

TEST(LocalOutOfMemory, ReceivingEndsAtMostTheLink) {
  if (!testing_only::counts_allocations()) GTEST_SKIP() << "a sanitizer allocates here";
  for (long number = 1; number <= 8; ++number) {
    SCOPED_TRACE(number);
    const Pair pair;
    const Bytes small = filled(4 * kibi, 1), large = filled(mebi, 2), untouched = filled(mebi, 3);
    std::vector<Request> sends, receives(2);
    for (Tag tag = 0; tag < receives.size(); ++tag)
      sends.push_back(pair.producer->send(Rank{0}, tag, large));
    pair.consumer->progress();  // the messages are announced
    // The ring is full of small messages, so commands that do not fit are kept.
    for (int i = 0; i < 300; ++i) sends.push_back(pair.consumer->send(Rank{0}, 9, small));
    std::vector<Bytes> in(receives.size(), untouched);
    std::vector<bool> has_failed(receives.size());
    const auto attempt = [&](std::size_t i, const auto& action) {  // allocates nothing
      try {
        return action();
      } catch (const std::exception&) {
        has_failed[i] = true;
        return true;
      }
    };
    testing_only::fail_allocation(testing_only::allocations() + number);
    for (std::size_t i = 0; i < receives.size(); ++i)
      attempt(i, [&] {
        receives[i] = pair.consumer->receive(Rank{0}, i, in[i]);
        return true;
      });
    testing_only::fail_allocation(0);
    pair.drive([&] {
      bool is_over = true;
      for (std::size_t i = 0; i < receives.size(); ++i)
        is_over = attempt(i, [&] { return receives[i].test(); }) && is_over;
      return is_over;
    });
    for (std::size_t i = 0; i < receives.size(); ++i)
      EXPECT_EQ(in[i], has_failed[i] ? untouched : large);
  }
}

}  // namespace tremula::transport
