// SPDX-License-Identifier: Apache-2.0
#include "server/state/groups.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>

#include "core/error.hpp"

namespace tremula::server {
namespace {

wire::Hello hello(const std::string& group, int rank, int size, const std::string& job = "j",
                  const std::string& host = "node", int pid = 7) {
  wire::Hello out;
  out.set_group(group);
  out.set_rank(rank);
  out.set_size(size);
  out.set_job(job);
  out.set_host(host);
  out.set_pid(pid);
  return out;
}

TEST(Groups, AdmitRanksInAnyOrder) {
  Groups groups;
  groups.join(11, hello("g", 2, 3, "j", "first", 42), 5);
  groups.join(12, hello("g", 0, 3), 6);
  const Seat seat = groups.join(13, hello("g", 1, 3), 7);
  EXPECT_EQ(seat.rank.value, 1);
  EXPECT_EQ(seat.group->name, "g");
  EXPECT_EQ(seat.group->members.size(), 3u);
  EXPECT_EQ(seat.group->host, "first");
  EXPECT_EQ(seat.group->pid, 42);
  EXPECT_EQ(seat.group->since, 5);
  EXPECT_EQ(groups.seat(11).value_or(Seat{nullptr, {-1}}).rank.value, 2);
  EXPECT_FALSE(groups.seat(14));
}

TEST(Groups, RefuseRanksThatDoNotFit) {
  Groups groups;
  groups.join(1, hello("g", 0, 4, "j", "nid1", 42), 10);
  const struct {
    wire::Hello hello;
    const char* text;
  } rows[] = {
      {hello("g", 1, 4, "other"),
       "group 'g': the name is held by another job on host nid1, pid 42, which joined 30 s ago (1 "
       "of 4 "
       "ranks connected); choose "
       "another name or end that job"},
      {hello("g", 1, 5),
       "group 'g', rank 1: expected size 4, as stated by its first rank on host nid1, pid 42; "
       "found 5; start all ranks with the same size, or choose another name if they belong to "
       "two jobs"},
      {hello("g", 0, 4, "j", "nid1", 42),
       "group 'g': rank 0 is held by host nid1, pid 42, which joined 30 s ago; found a second "
       "session "
       "with the same host and pid; close the first one, which may be of an earlier run of the "
       "same code, or choose another name or rank"},
      {hello("g", 0, 4, "j", "nid2", 43),
       "group 'g': rank 0 is held by host nid1, pid 42, which joined 30 s ago; found a second one "
       "on host "
       "nid2, pid 43; end the first one if it is left over, or choose another name for another "
       "job; give every process of a job its own rank, and each job that uses this group "
       "name its own TREMULA_JOB"},
  };
  for (const auto& row : rows) {
    try {
      groups.join(2, row.hello, 40);
      ADD_FAILURE() << "expected: " << row.text;
    } catch (const core::Error& error) {
      EXPECT_EQ(error.code(), core::Errc::refused);
      EXPECT_STREQ(error.what(), row.text);
    }
    EXPECT_FALSE(groups.seat(2));
    EXPECT_EQ(groups.find("g")->members.size(), 1u);
  }
}

TEST(Groups, EndWithTheLastGoodbye) {
  Groups groups;
  for (int rank = 0; rank < 3; ++rank)
    groups.join(1 + static_cast<ConnectionId>(rank), hello("g", rank, 3), 0);
  EXPECT_FALSE(groups.is_leaving(hello("g", 0, 3)));
  EXPECT_FALSE(groups.leave(2));
  EXPECT_TRUE(groups.is_leaving(hello("g", 0, 3)));
  EXPECT_FALSE(groups.seat(2));
  EXPECT_FALSE(groups.leave(1));
  EXPECT_TRUE(groups.leave(3));
  groups.remove("g");
  EXPECT_EQ(groups.find("g"), nullptr);
  EXPECT_FALSE(groups.is_leaving(hello("g", 0, 3)));
}

TEST(Groups, ForgetAllConnectionsOfARemovedGroup) {
  Groups groups;
  groups.join(1, hello("g", 0, 2), 0);
  groups.join(2, hello("g", 1, 2), 0);
  groups.join(3, hello("h", 0, 1), 0);
  groups.remove("g");
  groups.remove("no such group");
  EXPECT_FALSE(groups.seat(1));
  EXPECT_FALSE(groups.seat(2));
  EXPECT_TRUE(groups.seat(3));
}

TEST(Groups, NameOneSilentRankOfEachGroup) {
  Groups groups;
  for (int rank = 0; rank < 3; ++rank) {
    groups.join(10 + static_cast<ConnectionId>(rank), hello("g", rank, 3), 1);
    groups.join(20 + static_cast<ConnectionId>(rank), hello("h", rank, 3), 1);
  }
  EXPECT_TRUE(groups.find_silent(5, 4).empty());
  groups.record_heard(10, 5);
  groups.record_heard(20, 5);
  groups.record_heard(21, 5);
  groups.record_heard(22, 5);
  groups.record_heard(99, 5);
  const auto silent = groups.find_silent(8, 4);
  ASSERT_EQ(silent.size(), 1u);
  EXPECT_EQ(silent[0].group->name, "g");
  EXPECT_EQ(silent[0].rank.value, 1);
}

TEST(Groups, LetARankBeSilentAsLongAsItAnnounced) {
  Groups groups;
  const double none = std::numeric_limits<double>::infinity();
  for (const auto& [rank, seconds] : {std::pair{0, 10.0}, {1, 0.0}, {2, none}}) {
    wire::Hello message = hello("g" + std::to_string(rank), 0, 1);
    message.set_silence_seconds(seconds);
    groups.join(10 + static_cast<ConnectionId>(rank), message, 0);
  }
  const auto lost = [&](double now) {
    std::string names;
    for (const Seat& seat : groups.find_silent(now, 4)) names += seat.group->name;
    return names;
  };
  EXPECT_EQ(lost(4), "");
  EXPECT_EQ(lost(9), "g1");
  EXPECT_EQ(lost(1e9), "g0g1");
}

}  // namespace
}  // namespace tremula::server
