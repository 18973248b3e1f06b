// SPDX-License-Identifier: Apache-2.0
#include "server/state/quotas.hpp"

#include <gtest/gtest.h>

#include <string>

#include "core/error.hpp"

namespace tremula::server {
namespace {

std::string refusal(const Quotas& quotas, ConnectionId id) {
  try {
    quotas.check_may_join(id);
    return "";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::Errc::refused);
    return error.what();
  }
}

TEST(Quotas, OldestStrangerOfTheFullestHostMakesRoom) {
  Quotas quotas({.connections = 8});
  quotas.add(1, "one", 0);
  quotas.add(2, "many", 1);
  quotas.add(3, "many", 2);
  quotas.add(4, "many", 3);
  quotas.add(5, "sessions", 0);
  quotas.add(6, "sessions", 0);
  quotas.add(7, "sessions", 0);
  for (const ConnectionId id : {5u, 6u, 7u}) quotas.join(id);
  quotas.record_spoken(2, 9);
  quotas.add(8, "two", 9);
  EXPECT_FALSE(quotas.find_surplus());
  quotas.add(9, "two", 10);
  EXPECT_EQ(quotas.find_surplus(), 3u);  // 2 has sent a message since
  quotas.remove(3);
  EXPECT_FALSE(quotas.find_surplus());
  EXPECT_EQ(quotas.sessions(), 3u);
  EXPECT_EQ(quotas.connections(), 8u);
}

TEST(Quotas, AddressesDoNotDecideWhoMakesRoom) {
  Quotas quotas({.connections = 3});
  quotas.add(1, "127.0.0.3", 0);
  quotas.add(2, "127.0.0.2", 1);
  quotas.add(3, "127.0.0.4", 2);
  quotas.add(4, "127.0.0.1", 3);
  EXPECT_EQ(quotas.find_surplus(), 1u);
}

TEST(Quotas, SessionsLeaveRoomForOthers) {
  Quotas quotas({.connections = 8, .connections_per_host = 100});
  for (ConnectionId id = 1; id <= 6; ++id) {
    quotas.add(id, "h", 0);
    if (id == 6) break;
    EXPECT_EQ(refusal(quotas, id), "");
    quotas.join(id);
  }
  EXPECT_EQ(refusal(quotas, 6),
            "the server has 5 sessions, as many as it can hold with room for 8 connections; raise "
            "its limit on open files ('ulimit -n') and restart it");
  quotas.remove(1);
  EXPECT_EQ(refusal(quotas, 6), "");
}

TEST(Quotas, HostHasALimitedNumberOfSessions) {
  Quotas quotas({.connections = 100, .connections_per_host = 2});
  for (ConnectionId id = 1; id <= 3; ++id) quotas.add(id, "h", 0);
  quotas.add(4, "other", 0);
  quotas.join(1);
  quotas.join(2);
  quotas.join(2);
  EXPECT_EQ(refusal(quotas, 3),
            "host h has 2 sessions at the server, expected at most 2; give 'tremula serve' a "
            "larger --connections-per-host, or end some of these sessions");
  EXPECT_EQ(refusal(quotas, 4), "");
}

TEST(Quotas, HeaviestConnectionIsFoundAtTheLimit) {
  Quotas quotas({.connections = 8, .buffered_bytes = 100});
  for (ConnectionId id = 1; id <= 3; ++id) quotas.add(id, "h", 0);
  quotas.buffer(1, 30);
  quotas.buffer(2, 60);
  quotas.buffer(3, 10);
  EXPECT_FALSE(quotas.find_heaviest());
  quotas.buffer(3, 1);
  EXPECT_EQ(quotas.find_heaviest(), 2u);
  quotas.buffer(2, -60);
  EXPECT_FALSE(quotas.find_heaviest());
  EXPECT_EQ(quotas.buffered_bytes(), 41u);
  quotas.remove(1);
  EXPECT_EQ(quotas.buffered_bytes(), 11u);
}

TEST(Quotas, HeavyStrangersMakeRoomBeforeSessions) {
  Quotas quotas({.connections = 16, .buffered_bytes = 100});
  for (ConnectionId id = 1; id <= 4; ++id) quotas.add(id, "h", 0);
  quotas.join(1);
  quotas.buffer(1, 45);
  for (const ConnectionId id : {ConnectionId{3}, ConnectionId{2}, ConnectionId{4}})
    quotas.buffer(id, 20);
  EXPECT_EQ(quotas.find_heaviest(), 2u);  // the oldest of the three with 20 bytes each
  quotas.buffer(1, 20);
  EXPECT_EQ(quotas.find_heaviest(), 1u);
  quotas.remove(1);
  EXPECT_FALSE(quotas.find_heaviest());
}

TEST(Quotas, HostHasALimitedNumberOfLogLines) {
  Quotas quotas({.connections = 8});
  quotas.add(1, "loud", 0);
  quotas.add(2, "quiet", 0);
  int lines = 0;
  for (int i = 0; i < 10'000; ++i) lines += quotas.may_log(1, 1) ? 1 : 0;
  EXPECT_EQ(lines, static_cast<int>(Quotas::log_burst));
  EXPECT_EQ(quotas.lines_left_out(), 10'000u - static_cast<unsigned>(lines));
  EXPECT_TRUE(quotas.may_log(2, 1));
  quotas.remove(1);  // its host connects again
  quotas.add(3, "loud", 1);
  EXPECT_FALSE(quotas.may_log(3, 1));
  EXPECT_TRUE(quotas.may_log(3, 2));
}

}  // namespace
}  // namespace tremula::server
