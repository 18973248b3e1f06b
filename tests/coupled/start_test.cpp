// SPDX-License-Identifier: Apache-2.0
// The server and the jobs start in every order, and the server dies and is restarted.
#include <signal.h>

#include <algorithm>
#include <array>
#include <functional>

#include "tests/coupled/actors.hpp"

namespace tremula::coupled {

namespace {

class CoupledStart : public CoupledActors, public testing::WithParamInterface<std::string> {
protected:
  Actors act(const Role& role, const std::string& side, const Arguments& more = {},
             Launcher launcher = Launcher::mpirun) {
    const std::string layout = "shape=1000x10 grid=1x" + std::to_string(role.ranks);
    return play(
        role, launcher,
        join({"--side", side, "--layout", layout, "--session",
              "{transport: " + GetParam() + ", timeout: none, step_timeout: none, log: info}"},
             more),
        {{"TREMULA_SERVER", "file:" + port_file()}});
  }
  std::string port_file() const { return (stage.directory() / "server.port").string(); }
  /// Waits until `is_so` returns true; `what` is the text of the failure.
  static void until(const std::function<bool()>& is_so, const std::string& what) {
    const auto deadline = Deadline::after(patience_seconds);
    while (!is_so() && !deadline.expired()) usleep(5000);
    ASSERT_TRUE(is_so()) << what;
  }
  void expect_order(const Actors& actors) {
    expect_end(actors);
    for (int r = 0; r < actors.role.ranks; ++r)
      EXPECT_EQ(actors.error_of(r).status, 0)
          << actors.role.name << " " << testing::PrintToString(actors.error_of(r));
  }
};

TEST_P(CoupledStart, ServerAndJobsMayStartInAnyOrder) {
  std::string order = "cps";
  int turn = 0;
  do {
    SCOPED_TRACE(order);
    std::filesystem::remove(port_file());
    bool is_served = false;
    std::vector<Actors> jobs;
    for (const char next : order) {
      if (next == 's') {
        stage.start_server();
        is_served = true;
        continue;
      }
      // Names differ per turn, so that no job waits for a job of an earlier turn to leave.
      const std::string suffix = std::to_string(turn);
      const Actors job = next == 'p' ? act({"producer" + suffix, 2}, "out", {"--steps", "4"})
                                     : act({"consumer" + suffix, 2}, "in");
      jobs.push_back(job);
      until(
          [&] {
            return is_served ? job.have_all("joined")
                             : job.job->output().find("waits_for_server") != std::string::npos;
          },
          job.role.name + " neither joined nor reported that it waits");
    }
    for (const Actors& job : jobs) expect_order(job);
    for (const Actors& job : jobs) {
      if (job.role.name.starts_with("consumer")) {
        EXPECT_EQ(job.event_of(1, "end_of_stream").step, 3);
      }
    }
    stage.stop_server(SIGTERM);
    ++turn;
  } while (std::ranges::next_permutation(order).found && !HasFatalFailure());
  EXPECT_EQ(turn, 6);
}

TEST_P(CoupledStart, StalePortFileIsNamedAndReplaced) {
  stage.start_server();
  stage.stop_server(SIGKILL);
  const Actors out = act({"producer", 1}, "out", {"--steps", "4"});
  until(
      [&] {
        const std::string said = out.job->output();
        return said.find("'" + port_file() + "' is stale") != std::string::npos;
      },
      "the producer did not say that the port file is stale");
  stage.start_server();
  const Actors in = act({"consumer", 1}, "in");
  expect_order(out);
  expect_order(in);
  // 1000 x 10 numbers of 8 bytes, copied for each of two queued steps.
  EXPECT_NE(out.job->output().find("queue_depth=2 memory_bytes=160000"), std::string::npos);
}

TEST_P(CoupledStart, RestartedServerLearnsOfTheJobs) {
  const auto begun = (stage.directory() / "begun").string(),
             come = (stage.directory() / "come").string();
  stage.start_server();
  const Actors out =
      act({"producer", 2}, "out",
          {"--steps", "400", "--pause", "0.1", "--pause-until", come + ".0", "--step-file", begun});
  const Actors steady = act({"steady", 2}, "in");
  until([&] { return std::filesystem::exists(begun); }, "no step came");
  stage.stop_server(SIGKILL);
  // This job waits for the server, and then until the server learns of the stream.
  const Actors late = act({"late", 2}, "in", {"--first-file", come});
  Process& server = stage.start_server();
  const auto says = [&](const std::string& text) {
    return server.output().find(text) != std::string::npos;
  };
  until([&] { return says("group_back group=producer streams=1 links=1"); },
        "no producer came back");
  until([&] { return says("group_back group=steady streams=0 links=1"); }, "no consumer came back");
  for (const Actors& actors : {late, steady, out}) expect_order(actors);
  for (int r = 0; r < 2; ++r) {
    EXPECT_GT(late.event_of(r, "first_step").step, 0);
    EXPECT_EQ(late.event_of(r, "end_of_stream").step, 399);
    EXPECT_EQ(steady.event_of(r, "end_of_stream").step, 399);
  }
  EXPECT_TRUE(says("stream_closed stream=s producer=producer"))
      << "the server must learn of the end as well";
}

TEST_P(CoupledStart, RankStoppedForSixSecondsIsNotLost) {
  stage.start_server();
  const Actors out = act({"producer", 1}, "out",
                         {"--steps", "4", "--die-rank", "0", "--die-step", "2", "--die-signal",
                          std::to_string(SIGSTOP)},
                         Launcher::plain);
  const Actors in = act({"consumer", 1}, "in", {}, Launcher::plain);
  ASSERT_TRUE(out.have_all("die"));
  sleep(6);
  out.job->process(0).signal(SIGCONT);
  expect_order(out);
  expect_order(in);
  EXPECT_EQ(in.event_of(0, "end_of_stream").step, 3);
}

INSTANTIATE_TEST_SUITE_P(Jobs, CoupledStart, testing::Values("local", "ofi"),
                         [](const auto& test) { return test.param; });

}  // namespace

}  // namespace tremula::coupled
