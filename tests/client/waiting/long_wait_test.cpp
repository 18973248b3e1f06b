// SPDX-License-Identifier: Apache-2.0
#include "client/waiting/long_wait.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace tremula::client {
namespace {

/// Returns the error of a wait that, according to the server, is in the circle of waits `circle`.
std::string error_of(const std::string& circle, bool is_of_one_group = false) {
  Waits waits;
  waits.count_by([](wire::Wait&) {});
  const auto describe = [] { return wire::Wait(); };
  LongWait wait(waits, describe);
  wait.look();
  wire::Deadlock deadlock;
  deadlock.set_wait(1);
  deadlock.set_text(circle);
  deadlock.set_is_of_one_group(is_of_one_group);
  waits.take(deadlock);
  try {
    wait.look();
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), is_of_one_group ? core::Errc::mismatch : core::Errc::deadlock);
    return error.what();
  }
  return "no error";
}

TEST(LongWait, AdvisesJobsInACircleToReorderCalls) {
  const auto text = error_of("rank 0 of group 'a' waits in begin_step");
  EXPECT_NE(text.find("; change the order of their calls"), std::string::npos) << text;
}

TEST(LongWait, AdvisesRanksToMakeTheSameCalls) {
  for (const auto* const circle : {"rank 1 of group 'a' waits in an agreement of its group",
                                   "ranks 1-2 of group 'a' wait in an agreement of its group"}) {
    const auto text = error_of(circle);
    EXPECT_NE(text.find("; let all ranks of a group make the same calls in the same order; if "
                        "they do, change"),
              std::string::npos)
        << text;
  }
}

TEST(LongWait, ReportsACircleInOneGroupAsAMismatch) {
  const auto text = error_of("rank 1 of group 'a' waits", true);
  EXPECT_NE(text.find("expected all ranks of a group to make the same calls in the same order; "
                      "found that rank 1 of group 'a' waits"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace tremula::client
