// SPDX-License-Identifier: Apache-2.0
#include "server/state/status_turns.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace tremula::server {
namespace {

void add(StatusTurns& turns, Owner owner, ConnectionId from) { turns.add(owner, from, {}); }
std::optional<ConnectionId> next_of(StatusTurns& turns, double now) {
  const auto request = turns.next(now);
  return request ? std::optional(request->from) : std::nullopt;
}

/// Serves the waiting requests, each as early as allowed and for one second, until no request is left.
/// Returns their order.
std::vector<ConnectionId> served(StatusTurns& turns) {
  std::vector<ConnectionId> order;
  for (double now = turns.due(); const auto next = next_of(turns, now); now = turns.due()) {
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
  add(turns, 0, 1);
  EXPECT_FALSE(turns.is_free(9));  // another request is already waiting
  EXPECT_FALSE(next_of(turns, 7.9));
  EXPECT_EQ(next_of(turns, 8), 1u);
  EXPECT_TRUE(turns.is_empty());
  EXPECT_FALSE(next_of(turns, 8));

  // The share stays a quarter however many clients ask, even if each asks again immediately.
  double busy = 0;
  for (ConnectionId id = 1; id <= 1000; ++id) add(turns, 0, id);
  for (double now = 8; now < 1000; now += 0.25)
    if (const auto next = next_of(turns, now)) {
      turns.record(now, now + 0.5);
      busy += 0.5;
      add(turns, 0, *next);
    }
  EXPECT_EQ(busy, 992. / 4);
}

TEST(StatusTurns, GoToOwnersInTurnAndToConnectionsInOrder) {
  StatusTurns turns(3);
  for (const ConnectionId id : {5u, 3u, 4u, 1u}) add(turns, 7, id);
  add(turns, 0, 20);
  for (const ConnectionId id : {31u, 30u}) add(turns, 9, id);
  EXPECT_EQ(served(turns), (std::vector<ConnectionId>{20, 5, 31, 3, 30, 4, 1}));
}

TEST(StatusTurns, EndWithTheirConnections) {
  StatusTurns turns(3);
  add(turns, 7, 1), add(turns, 7, 2), add(turns, 8, 3);
  turns.remove(1), turns.remove(3), turns.remove(4);
  EXPECT_EQ(served(turns), (std::vector<ConnectionId>{2}));
  EXPECT_TRUE(turns.is_empty());
}

// Unknown fields may come from a later version, or from no version at all.
TEST(StatusTurns, DropUnknownFieldsOfARequest) {
  StatusTurns turns(3);
  wire::ToServer message;
  message.set_request(7);
  wire::StatusRequest& request = *message.mutable_status();
  request.mutable_from()->set_name("ocean");
  for (google::protobuf::Message* const part : std::initializer_list<google::protobuf::Message*>{
           &message, &request, request.mutable_from()})
    for (int i = 0; i < 10'000; ++i)
      part->GetReflection()->MutableUnknownFields(part)->AddVarint(1000, 1);
  EXPECT_GT(message.SpaceUsedLong(), 100'000u);
  turns.add(0, 1, message);
  EXPECT_TRUE(turns.has(1));
  EXPECT_FALSE(turns.has(2));
  const auto kept = turns.next(0);
  ASSERT_TRUE(kept);
  EXPECT_FALSE(turns.has(1));
  EXPECT_EQ(kept->message.ShortDebugString(), "request: 7 status { from { name: \"ocean\" } }");
  EXPECT_LT(kept->message.SpaceUsedLong(), 2'000u);
}

}  // namespace
}  // namespace tremula::server
