// SPDX-License-Identifier: Apache-2.0
// A session refuses calls from a child of the process that opened it, and concurrent calls from two
// threads. Uses the public headers, a real server and a real fork.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <tremula/tremula.hpp>
#include <vector>

#include "tests/coupled/jobs.hpp"

namespace {

using namespace tremula;

constexpr int steps = 6;

class Misuse : public testing::Test {
protected:
  Misuse() { stage_.start_server(); }
  std::string server() const { return stage_.server(); }
  Session open(const std::string& group, double timeout = 30) {
    return Session(group, 0, 1,
                   {.server = stage_.server(), .transport = "local", .timeout = timeout});
  }

private:
  coupled::Stage stage_;
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(Misuse,
       UnknownVariableIsReportedOnce) {  // must be the first test: later sessions do not warn
  setenv("TREMULA_TIMOUT", "3", 1);
  testing::internal::CaptureStderr();
  open("first"), open("second");
  const std::string text = testing::internal::GetCapturedStderr();
  unsetenv("TREMULA_TIMOUT");
  const auto line =
      text.find("found TREMULA_TIMOUT, which is ignored: did you mean TREMULA_TIMEOUT?");
  ASSERT_NE(line, std::string::npos) << text;
  EXPECT_EQ(text.find("TREMULA_TIMOUT", line + 20), std::string::npos) << text;
}

/// Continues with the parent's stream in a child process.  @return number of the failed check; 0 if none
int go_on_in_child(tremula_session* session, tremula_out_stream* out, pid_t parent) {
  alarm(25);  // if a call waits, the signal kills the child and the test fails
  std::vector<double> wrong(10, -1);
  const auto refused = [&](tremula_status status) {
    const std::string text = tremula_last_error();
    return status == TREMULA_INVALID_ARGUMENT && has(text, "process " + std::to_string(parent)) &&
           has(text, "process " + std::to_string(getpid())) && has(text, "fork");
  };
  if (!refused(tremula_out_begin_step(out))) return 1;
  if (!refused(tremula_out_put(out, 0, wrong.data(), 80))) return 2;
  if (!refused(tremula_out_end_step(out))) return 3;
  if (!refused(tremula_out_close(out))) return 4;
  tremula_out_stream* another = nullptr;
  if (!refused(tremula_out_open(session, "another", nullptr, &another))) return 5;
  tremula_out_free(out);
  return tremula_session_close(session) == TREMULA_OK ? 0 : 6;
}

TEST_F(Misuse, CallInAForkedChildIsRefusedAtOnce) {
  std::thread consumer([this] {
    Session session = open("consumer");
    InStream in = session.in_stream("s");
    const auto field = in.field<double>("f", Layout::parse("shape=10 grid=1"));
    std::vector<double> data(10);
    int step = 0;
    for (; in.begin_step() == StepStatus::ok; ++step) {
      in.get(field, data);
      EXPECT_EQ(data, std::vector<double>(10, step));
      in.end_step();
    }
    EXPECT_EQ(step, steps);
    in.close();
  });
  tremula_session* session = nullptr;
  const std::string options = "{transport: local, timeout: 30, server: \"" + server() + "\"}";
  ASSERT_EQ(tremula_session_open("producer", 0, 1, options.c_str(), &session), TREMULA_OK)
      << tremula_last_error();
  tremula_layout* layout = nullptr;
  ASSERT_EQ(tremula_layout_parse("shape=10 grid=1", &layout), TREMULA_OK);
  tremula_out_stream* out = nullptr;
  int field = -1;
  ASSERT_EQ(tremula_out_open(session, "s", nullptr, &out), TREMULA_OK);
  ASSERT_EQ(tremula_out_field(out, "f", TREMULA_F64, layout, &field), TREMULA_OK);
  for (int step = 0; step < steps; ++step) {
    const std::vector<double> data(10, step);
    EXPECT_EQ(tremula_out_begin_step(out), TREMULA_OK) << tremula_last_error();
    if (step == 2) {
      const pid_t parent = getpid(), child = fork();
      if (child == 0) _exit(go_on_in_child(session, out, parent));
      int status = -1;
      waitpid(child, &status, 0);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
    }
    EXPECT_EQ(tremula_out_put(out, field, data.data(), 80), TREMULA_OK) << tremula_last_error();
    EXPECT_EQ(tremula_out_end_step(out), TREMULA_OK) << tremula_last_error();
  }
  EXPECT_EQ(tremula_out_close(out), TREMULA_OK) << tremula_last_error();
  tremula_out_free(out);
  EXPECT_EQ(tremula_session_close(session), TREMULA_OK);
  tremula_layout_free(layout);
  consumer.join();
}

TEST_F(Misuse, CallFromASecondThreadIsRefused) {
  Session session = open("group", 3);
  InStream waits = session.in_stream("never offered");
  waits.field<double>("f", Layout::parse("shape=10 grid=1"));
  InStream other = session.in_stream("other");
  EXPECT_NO_THROW(other.statistics());
  const std::string refusal = "session of group 'group': expected one call at a time";
  std::atomic<bool> has_ended = false;
  std::thread thread([&] {
    std::string why = refusal;  // the call of this thread may be the refused one instead
    while (has(why, refusal)) try {
        waits.begin_step();
        why = "";
      } catch (const Error& error) {
        why = error.what();
      }
    EXPECT_TRUE(has(why, "never offered")) << why;
    has_ended = true;
  });
  std::string text;
  while (text.empty() && !has_ended) try {
      other.statistics();
      waits.statistics();
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), TREMULA_INVALID_ARGUMENT);
      text = error.what();
    }
  thread.join();
  EXPECT_TRUE(has(text, refusal)) << text;
  EXPECT_NO_THROW(other.statistics()) << "a call was refused although the other thread was done";
}

}  // namespace
