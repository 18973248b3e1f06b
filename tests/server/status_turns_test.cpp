// SPDX-License-Identifier: Apache-2.0
#include "server/state/status_turns.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tremula::server {
namespace {

/// Takes turns that cost a second each, at the earliest, until none waits.
std::vector<ConnectionId> served(StatusTurns& turns) {
  std::vector<ConnectionId> order;
  for (double now = turns.due(); const auto next = turns.next(now); now = turns.due()) {
    order.push_back(*next);
    turns.record(now, now + 1);
  }
  return order;
}

TEST(StatusTurns, TakeAQuarterOfTheTime) {
  StatusTurns turns(3);
  EXPECT_TRUE(turns.is_free(0));
  turns.record(0, 2);
  EXPECT_EQ(turns.due(), 8);
  EXPECT_FALSE(turns.is_free(7.9));
  EXPECT_TRUE(turns.is_free(8));
  turns.add(0, 1);
  EXPECT_FALSE(turns.is_free(9));  // another one is before it
  EXPECT_FALSE(turns.next(7.9));
  EXPECT_EQ(turns.next(8), 1u);
  EXPECT_TRUE(turns.is_empty());
  EXPECT_FALSE(turns.next(8));

  // Whoever asks again at once, and however many do.
  double busy = 0;
  for (ConnectionId id = 1; id <= 1000; ++id) turns.add(0, id);
  for (double now = 8; now < 1000; now += 0.25)
    if (const auto next = turns.next(now)) {
      turns.record(now, now + 0.5);
      busy += 0.5;
      turns.add(0, *next);
    }
  EXPECT_EQ(busy, 992. / 4);
}

TEST(StatusTurns, AreOfOwnersInTurnAndOfConnectionsInTheirOrder) {
  StatusTurns turns(3);
  for (const ConnectionId id : {5u, 3u, 4u, 1u}) turns.add(7, id);
  turns.add(0, 20);
  for (const ConnectionId id : {31u, 30u}) turns.add(9, id);
  EXPECT_EQ(served(turns), (std::vector<ConnectionId>{20, 5, 31, 3, 30, 4, 1}));
}

TEST(StatusTurns, OfConnectionsThatAreGoneAreNobodys) {
  StatusTurns turns(3);
  turns.add(7, 1), turns.add(7, 2), turns.add(8, 3);
  turns.remove(1), turns.remove(3), turns.remove(4);
  EXPECT_EQ(served(turns), (std::vector<ConnectionId>{2}));
  EXPECT_TRUE(turns.is_empty());
}

}  // namespace
}  // namespace tremula::server
