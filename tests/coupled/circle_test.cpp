// SPDX-License-Identifier: Apache-2.0
// Jobs whose calls wait for each other get an error that names the whole circle, long before any
// deadline. Slow jobs get no such error. `tremula status` and SIGUSR1 show what a rank waits for.
#include <signal.h>

#include "tests/coupled/actors.hpp"

namespace tremula::coupled {

namespace {

class CoupledCircle : public testing::TestWithParam<std::string> {
protected:
  void SetUp() override { stage_.start_server({"--heartbeat", "0.1"}); }
  void TearDown() override {
    if (HasFailure()) ADD_FAILURE() << stage_.report();
  }
  Job& play(const Role& role, const std::string& acts, const std::string& opens = "",
            const std::string& options = "{}", const std::string& in_options = "{}") {
    return stage_.start(
        role, Launcher::plain,
        {PROGRAMS "/coupled_circle", "--group", role.name, "--acts", acts, "--opens", opens,
         "--stream-options", options, "--in-options", in_options, "--session",
         "{transport: " + GetParam() + ", timeout: 600, step_timeout: 600, silence: 60}"});
  }
  /// Checks that all `jobs` end with a deadlock error whose text contains all of `parts`.
  void expect_deadlock(const std::vector<Job*>& jobs, const std::vector<std::string>& parts) {
    for (Job* const job : jobs) {
      EXPECT_EQ(job->wait(Deadline::after(patience_seconds)), 1);
      const std::string text = job->output();
      EXPECT_NE(text.find("status " + std::to_string(TREMULA_DEADLOCK)), text.npos)
          << job->name() << ": " << text;
      for (const std::string& part : parts)
        EXPECT_NE(text.find(part), text.npos) << part << " in " << job->name() << ": " << text;
    }
  }
  static void wait_for(Job& job, const std::string& line) {
    for (const auto deadline = Deadline::after(patience_seconds);
         job.output().find(line) == std::string::npos;) {
      ASSERT_FALSE(deadline.expired()) << job.name() << ": " << job.output();
      usleep(5000);
    }
  }
  /// Runs `tremula status` and returns its exit code.
  int status(const Arguments& options, std::string* said = nullptr) {
    Process status(join({PROGRAMS "/tremula", "status", "--server", stage_.server()}, options), {},
                   stage_.directory() / ("status" + std::to_string(++asked_)));
    const auto code = status.wait(Deadline::after(patience_seconds));
    if (said != nullptr) *said = status.output();
    return code.value_or(-1);
  }
  int stuck(const std::string& seconds, std::string* said = nullptr) {
    return status({"--stuck", seconds}, said);
  }
  Stage stage_;

private:
  int asked_ = 0;
};

TEST_P(CoupledCircle, IsReportedForTwoJobsThatBothGetFirst) {
  Job& a = play({"a", 2}, "get ba put ab", "put ab");
  Job& b = play({"b", 1}, "get ab put ba", "put ba");
  expect_deadlock({&a, &b},
                  {"ranks 0-1 of group 'a' wait in begin_step of stream 'ba', step 0, for rank "
                   "0 of group 'b' to send the next step",
                   "rank 0 of group 'b' waits in begin_step of stream 'ab', step 0, for ranks "
                   "0-1 of group 'a' to send the next step"});
}

TEST_P(CoupledCircle, IsReportedAfterManySteps) {
  std::string forth, back;
  for (int i = 0; i < 50; ++i) forth += "put ab get ba ", back += "get ab put ba ";
  Job& a = play({"a", 1}, forth + "get ba put ab");
  Job& b = play({"b", 2}, back + "get ab put ba");
  expect_deadlock(
      {&a, &b},
      {"rank 0 of group 'a' waits in begin_step of stream 'ba', step 50, for ranks 0-1 of",
       "ranks 0-1 of group 'b' wait in begin_step of stream 'ab', step 50, for rank 0 of"});
}

TEST_P(CoupledCircle, IsReportedForARingOfThree) {
  Job& a = play({"a", 1}, "get ca put ab", "put ab");
  Job& b = play({"b", 2}, "get ab put bc", "put bc");
  Job& c = play({"c", 1}, "get bc put ca", "put ca");
  // Each job waits for a step, or for the next job to reach a call that opens the link.
  expect_deadlock({&a, &b, &c}, {"of group 'a' waits in begin_step of stream 'ca', step 0, for ",
                                 "of group 'b' wait", " in begin_step of stream 'ab', step 0, for ",
                                 "of group 'c' waits in begin_step of stream 'bc', step 0, for "});
}

TEST_P(CoupledCircle, IsReportedForAProducerWithoutRoom) {
  Job& producer = play({"producer", 2}, "put x put x put x put y", "put y");
  Job& consumer = play({"consumer", 2}, "get y get x", "get x");
  std::vector<std::string> parts;
  for (const std::string rank : {"0", "1"}) {  // each rank shares elements with one peer only
    parts.push_back("rank " + rank +
                    " of group 'producer' waits in begin_step of stream 'x', step 2, " +
                    "for rank " + rank + " of group 'consumer' to take an earlier step");
    parts.push_back("rank " + rank +
                    " of group 'consumer' waits in begin_step of stream 'y', step 0, " +
                    "for rank " + rank + " of group 'producer' to send the next step");
  }
  expect_deadlock({&producer, &consumer}, parts);
}

TEST_P(CoupledCircle, IsReportedForALateJob) {
  // Job b waits for the second step of a. Job a waits for the late job, which first opens a stream with b.
  Job& a = play({"a", 1}, "put ab get y put ab");
  Job& b = play({"b", 1}, "get ab get ab get x", "get x");
  wait_for(a, "put ab");
  wait_for(b, "get ab");
  Job& late = play({"late", 2}, "put x put y", "put y");
  expect_deadlock(
      {&a, &b, &late},
      {"of group 'a' waits in begin_step of stream 'y', step 0, for rank",
       "of group 'b' waits in begin_step of stream 'ab', step 1, for rank 0 of group 'a'",
       "of group 'late' wait",
       " in begin_step of stream 'x', step 0, for group 'b' to reach a call that opens links"});
}

TEST_P(CoupledCircle, IsNotReportedForASlowJob) {
  Job& a = play({"a", 2}, "put ab get ba put ab get ba");
  Job& b = play({"b", 1}, "get ab sleep 2 put ba get ab sleep 2 put ba");
  Job& c = play({"c", 1}, "put cd put cd put cd put cd");
  Job& d = play({"d", 1}, "get cd sleep 2 get cd get cd get cd");
  for (Job* const job : {&a, &b, &c, &d})
    EXPECT_EQ(job->wait(Deadline::after(patience_seconds)), 0) << job->output();
}

TEST_P(CoupledCircle, WaitOfARankIsVisible) {
  EXPECT_EQ(stuck("0.3"), 0);
  const std::string go = (stage_.directory() / "go").string();
  Job& a = play({"a", 1}, "put ab await " + go + " put ab");
  Job& b = play({"b", 2}, "get ab get ab");
  wait_for(b, "get ab");
  const std::string wait =
      "in begin_step of stream 'ab', step 1, for rank 0 of group 'a' to send the next";
  std::string said;
  for (const auto deadline = Deadline::after(patience_seconds); said.find(wait) == said.npos;) {
    ASSERT_FALSE(deadline.expired()) << said;
    const int code = stuck("0.3", &said);
    EXPECT_EQ(code, said.empty() ? 0 : 1);
  }
  EXPECT_EQ(stuck("1000"), 0);
  b.process(1).signal(SIGUSR1);
  wait_for(b, "tremula: rank 1 of 2 of group 'b', pid ");
  wait_for(b, ": waits " + wait);
  EXPECT_EQ(b.output().find("tremula: rank 0"), std::string::npos) << "only rank 1 got the signal";
  Job& maker = play({"maker", 1}, "make " + go);
  for (Job* const job : {&a, &b, &maker})
    EXPECT_EQ(job->wait(Deadline::after(patience_seconds)), 0) << job->output();
}

TEST_P(CoupledCircle, WaitForRoomInASharedQueueIsVisible) {
  const std::string go = (stage_.directory() / "go").string();
  Job& a = play({"a", 1}, "put s put s put s", "", "{queue_depth: 1}");
  Job& b = play({"b", 1}, "get s await " + go + " get s get s", "", "{}", "{steps: share}");
  wait_for(a, "put s\nput s\n");
  const std::string wait =
      "in begin_step of stream 's', step 2, for rank 0 of group 'b' to take an earlier step";
  std::string said;
  for (const auto deadline = Deadline::after(patience_seconds); said.find(wait) == said.npos;) {
    ASSERT_FALSE(deadline.expired()) << said;
    stuck("0.3", &said);
  }
  a.process(0).signal(SIGUSR1);
  wait_for(a, "tremula: rank 0 of 1 of group 'a', pid ");
  wait_for(a, ": waits " + wait);
  Job& maker = play({"maker", 1}, "make " + go);
  for (Job* const job : {&a, &b, &maker})
    EXPECT_EQ(job->wait(Deadline::after(patience_seconds)), 0) << job->output();
}

TEST_P(CoupledCircle, SlowestConsumerIsVisible) {
  const std::string go = (stage_.directory() / "go").string();
  Job& a =
      play({"a", 1}, "put s put s put s put s put s await " + go, "", "{wait_for_consumers: 2}");
  Job& quick = play({"quick", 1}, "get s get s get s get s get s await " + go);
  Job& slow = play({"slow", 2}, "get s sleep 1 get s get s get s get s await " + go);
  wait_for(a, "put s\nput s\nput s\nput s\nput s\n");
  std::string said;
  for (const auto deadline = Deadline::after(patience_seconds);
       said.find("slow was at most 2 steps behind; the producer has waited ") == said.npos;) {
    ASSERT_FALSE(deadline.expired()) << said;
    status({}, &said);
  }
  EXPECT_NE(said.find(": the slowest\n"), said.npos) << said;
  Job& maker = play({"maker", 1}, "make " + go);
  for (Job* const job : {&a, &quick, &slow, &maker})
    EXPECT_EQ(job->wait(Deadline::after(patience_seconds)), 0) << job->output();
}

INSTANTIATE_TEST_SUITE_P(Jobs, CoupledCircle, testing::Values("local", "tcp", "ofi"),
                         [](const auto& test) { return test.param; });

}  // namespace

}  // namespace tremula::coupled
