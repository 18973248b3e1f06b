// SPDX-License-Identifier: Apache-2.0
#include "server/state/ledger.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tremula::server {
namespace {

wire::Counters report(std::uint64_t steps, std::uint64_t packages, std::uint64_t bytes,
                      double wait = 0, double plan = 0, const std::string& waits_for = "") {
  wire::Counters out;
  out.set_steps(steps);
  out.set_packages(packages);
  out.set_bytes(bytes);
  out.set_wait_seconds(wait);
  out.set_plan_seconds(plan);
  out.set_waits_for(waits_for);
  return out;
}

std::vector<std::string> waits(const Account& account) {
  const wire::StepStatus total = account.total();
  return {total.waits_for().begin(), total.waits_for().end()};
}

TEST(Account, IsEmptyUntilEveryRankHasReported) {
  Account account(3);
  EXPECT_EQ(account.total().steps(), 0u);
  account.record({0}, report(5, 10, 100));
  account.record({2}, report(7, 20, 1000));
  EXPECT_EQ(account.total().steps(), 0u);
  EXPECT_EQ(account.total().packages(), 30u);
  EXPECT_EQ(account.total().bytes(), 1100u);
  account.record({1}, report(6, 0, 1));
  EXPECT_EQ(account.total().steps(), 5u);
}

TEST(Account, CountsAStepWhenTheLastRankHasIt) {
  Account account(2);
  account.record({0}, report(1, 1, 1));
  account.record({1}, report(3, 1, 1));
  EXPECT_EQ(account.total().steps(), 1u);
  account.record({0}, report(4, 1, 1));
  EXPECT_EQ(account.total().steps(), 3u);
}

TEST(Account, HasTheLeastTimeOnceAllRanksHaveOne) {
  Account account(2);
  wire::Counters counters = report(1, 1, 1);
  account.record({1}, counters);
  counters.set_time(-40);
  account.record({0}, counters);
  EXPECT_FALSE(account.total().has_time());
  counters.set_time(-60);
  account.record({1}, counters);
  EXPECT_EQ(account.total().time(), -60);
  counters.set_time(0);
  account.record({1}, counters);
  EXPECT_EQ(account.total().time(), -40);
  EXPECT_FALSE(Account(1).total().has_time());
}

TEST(Account, SumsCopiesAndTakesTheLongestTimes) {
  Account account(2);
  for (const int rank : {0, 1}) {
    wire::Counters counters = report(1, 1, 1);
    counters.set_copied_bytes(100 + static_cast<std::uint64_t>(rank));
    counters.set_copy_seconds(0.5 + rank);
    counters.set_wire_seconds(2.5 - rank);
    account.record({rank}, counters);
  }
  EXPECT_EQ(account.total().copied_bytes(), 201u);
  EXPECT_EQ(account.total().copy_seconds(), 1.5);
  EXPECT_EQ(account.total().wire_seconds(), 2.5);
}

TEST(Account, ReplacesTheLastReportOfARank) {
  Account account(2);
  account.record({1}, report(1, 2, 3, 4, 5, "x"));
  account.record({0}, report(10, 20, 30, 0.5, 0.25));
  account.record({1}, report(20, 40, 60, 1.5, 0.125));
  const wire::StepStatus total = account.total();
  EXPECT_EQ(total.steps(), 10u);
  EXPECT_EQ(total.packages(), 60u);
  EXPECT_EQ(total.bytes(), 90u);
  EXPECT_EQ(total.wait_seconds(), 1.5);
  EXPECT_EQ(total.plan_seconds(), 0.25);
  EXPECT_TRUE(waits(account).empty());
}

TEST(Account, HasTheMeanTimeOfItsReports) {
  Account account(2, 10);
  EXPECT_EQ(account.total().reported_seconds(), 10);
  account.record({0}, report(1, 1, 100), 11);
  account.record({1}, report(1, 1, 200), 12);
  EXPECT_EQ(account.total().reported_seconds(), 11.5);
}

TEST(Account, CountsBeyond32Bits) {
  Account account(2);
  account.record({0}, report(1, 1, std::uint64_t{1} << 40));
  account.record({1}, report(1, 1, std::uint64_t{1} << 40));
  EXPECT_EQ(account.total().bytes(), std::uint64_t{1} << 41);
}

TEST(Account, ListsWaitsWithTheMostRanksFirst) {
  Account account(4);
  EXPECT_TRUE(waits(account).empty());
  account.record({0}, report(0, 0, 0, 0, 0, "ocean"));
  EXPECT_EQ(waits(account), std::vector<std::string>{"1 of 4 ranks wait for ocean"});
  account.record({1}, report(0, 0, 0, 0, 0, "ice"));
  account.record({2}, report(0, 0, 0, 0, 0, "ocean"));
  EXPECT_EQ(waits(account),
            (std::vector<std::string>{"2 of 4 ranks wait for ocean", "1 of 4 ranks wait for ice"}));
  account.record({0}, report(1, 0, 0));
  account.record({2}, report(1, 0, 0));
  account.record({1}, report(1, 0, 0));
  EXPECT_TRUE(waits(account).empty());
  Account single(1);
  single.record({0}, report(0, 0, 0, 0, 0, "ocean"));
  EXPECT_EQ(waits(single), std::vector<std::string>{"1 of 1 rank waits for ocean"});
}

TEST(Account, ListsReportedRanksWhileThereIsRoom) {
  Account account(4);
  account.record({2}, report(6, 10, 100));
  account.record({1}, report(5, 10, 100, 0.5, 0.25, "viewer"));
  account.record({0}, report(0, 0, 0));
  wire::StepStatus all, some;
  std::size_t room = 1000;
  account.list(all, room);
  ASSERT_EQ(all.ranks_size(), 3);  // rank 3 has reported nothing
  EXPECT_EQ(all.ranks_left_out(), 0);
  EXPECT_EQ(all.ranks(0).ShortDebugString(), "");
  EXPECT_EQ(all.ranks(1).ShortDebugString(),
            "rank: 1 steps: 5 packages: 10 bytes: 100 wait_seconds: 0.5 plan_seconds: 0.25 "
            "waits_for: \"viewer\"");
  EXPECT_EQ(all.ranks(2).ShortDebugString(), "rank: 2 steps: 6 packages: 10 bytes: 100");
  EXPECT_LE(all.ByteSizeLong(), 1000 - room);

  account.list(some, room = all.ranks(0).ByteSizeLong() + all.ranks(1).ByteSizeLong() + 16);
  EXPECT_EQ(some.ranks_size(), 2);
  EXPECT_EQ(some.ranks_left_out(), 1);
  EXPECT_EQ(room, 0u);
}

TEST(Account, IgnoresARankThatTheGroupDoesNotHave) {
  Account account(2);
  account.record({2}, report(1, 1, 1));
  account.record({-1}, report(1, 1, 1));
  EXPECT_EQ(account.total().bytes(), 0u);
}

TEST(Credit, IsConsumedStepsAndTheQueue) {
  wire::StepStatus consumed;
  EXPECT_EQ(credit(consumed, 2), 2u);
  consumed.set_steps(40);
  EXPECT_EQ(credit(consumed, 1), 41u);
}

}  // namespace
}  // namespace tremula::server
