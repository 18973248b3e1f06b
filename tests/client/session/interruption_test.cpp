// SPDX-License-Identifier: Apache-2.0
// Tests waits that an application ends. Uses the public headers only.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include "tests/client/public_jobs.hpp"

namespace {

using namespace tremula;
using tremula::testing::Jobs;

void await(const std::atomic<int>& counter, int value) {
  while (counter < value) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// Returns the text of the error that ends the wait of `call`. The function given to
/// Session::ask is called three times, or fewer if another rank ends the wait.
template <class Call>
std::string interrupted(Session& session, Call&& call) {
  int asked = 0;
  session.ask([&asked] { return ++asked == 3; });
  std::string text;
  try {
    call();
    ADD_FAILURE() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), TREMULA_INTERRUPTED) << error.what();
    text = error.what();
  }
  EXPECT_TRUE(session.size() == 1 ? asked == 3 : asked <= 3) << asked;
  session.ask({});
  return text;
}

// All ranks of a consumer give up waiting for a producer, and then wait again.
TEST(Interruption, EndsAWaitForAProducer) {
  for (const int ranks : {1, 2}) {
    SCOPED_TRACE(ranks);
    Jobs jobs;
    const auto layout = Layout::block({.shape = {6}, .grid = {ranks}});
    std::atomic<int> ended = 0, taken = 0;
    jobs.start("consumer", std::vector<std::string>(std::size_t(ranks), "here"),
               [&](Session& session) {
                 auto in = session.in_stream("late");
                 const auto field = in.field<double>("f", layout);
                 const auto text = interrupted(session, [&] { in.begin_step(); });
                 EXPECT_NE(text.find("the application has ended the wait"), text.npos) << text;
                 ++ended;
                 std::vector<double> part(std::size_t(6 / ranks));
                 ASSERT_EQ(in.begin_step(), StepStatus::ok);
                 in.get(field, part);
                 EXPECT_EQ(part, std::vector<double>(std::size_t(6 / ranks), 7));
                 in.end_step();
                 EXPECT_EQ(in.begin_step(), StepStatus::end_of_stream);
                 in.close();
                 ++taken;
               });
    jobs.start("producer", {"here"}, [&](Session& session) {
      await(ended, ranks);
      auto out = session.out_stream("late");
      const auto field = out.field<double>("f", Layout::block({.shape = {6}, .grid = {1}}));
      out.begin_step();
      out.put(field, std::vector<double>(6, 7));
      out.end_step();
      out.close();
    });
    EXPECT_EQ(jobs.join(), "");
    EXPECT_EQ(taken, ranks);
  }
}

// The stream continues after an interruption, whether its producer waited for room or its consumer
// for a step.
TEST(Interruption, EndsWaitsForRoomAndForAStep) {
  Jobs jobs;
  const auto layout = Layout::block({.shape = {6}, .grid = {1}});
  std::atomic<int> turn = 0;
  jobs.start("producer", {"here"}, [&](Session& session) {
    auto out = session.out_stream("s", {.queue_depth = 1});
    const auto field = out.field<double>("f", layout);
    const auto put = [&](double value) {
      out.put(field, std::vector<double>(6, value));
      out.end_step();
    };
    out.begin_step();
    put(0);
    const auto text = interrupted(session, [&] { out.begin_step(); });
    EXPECT_NE(text.find("stream 's', step 1, begin_step: the application has ended the wait for "
                        "group 'consumer'"),
              text.npos)
        << text;
    turn = 1;
    out.begin_step();
    put(1);
    await(turn, 2);
    out.begin_step();
    put(2);
    out.close();
  });
  jobs.start("consumer", {"here"}, [&](Session& session) {
    auto in = session.in_stream("s");
    const auto field = in.field<double>("f", layout);
    std::vector<double> part(6);
    for (int step = 0; step < 3; ++step) {
      if (step == 2) {
        const auto text = interrupted(session, [&] { in.begin_step(); });
        EXPECT_NE(text.find("the application has ended the wait for group 'producer'"), text.npos)
            << text;
        turn = 2;
      }
      ASSERT_EQ(in.begin_step(), StepStatus::ok);
      if (step == 0) await(turn, 1);
      in.get(field, part);
      EXPECT_EQ(part, std::vector<double>(6, step));
      in.end_step();
    }
    EXPECT_EQ(in.begin_step(), StepStatus::end_of_stream);
    in.close();
  });
  EXPECT_EQ(jobs.join(), "");
}

// A stream that is freed inside the `ask` function is released after the call has ended; a session
// that is closed there stays open.
TEST(Interruption, FreesAStreamFromInside) {
  coupled::Stage stage;
  stage.start_server();
  const std::string options = "{server: \"" + stage.server() + "\", timeout: 20}";
  struct Context {
    tremula_session* session = nullptr;
    tremula_in_stream* in = nullptr;
    int asked = 0;
    tremula_status closed = TREMULA_OK;
  } context;
  ASSERT_EQ(tremula_session_open("consumer", 0, 1, options.c_str(), &context.session), TREMULA_OK);
  ASSERT_EQ(tremula_in_open(context.session, "never", nullptr, &context.in), TREMULA_OK);
  const auto layout = Layout::parse("shape=6 grid=1");
  int field = 0;
  ASSERT_EQ(tremula_in_field(context.in, "f", TREMULA_F64, layout.handle(), &field), TREMULA_OK);
  const auto ends = [](void* given) {
    auto& inside = *static_cast<Context*>(given);
    ++inside.asked;
    tremula_in_free(inside.in);
    inside.closed = tremula_session_close(inside.session);
    return 1;
  };
  ASSERT_EQ(tremula_session_ask(context.session, +ends, &context), TREMULA_OK);
  EXPECT_EQ(tremula_in_begin_step(context.in), TREMULA_INTERRUPTED);
  EXPECT_EQ(context.asked, 1);
  EXPECT_EQ(context.closed, TREMULA_INVALID_ARGUMENT);
  EXPECT_EQ(tremula_session_close(context.session), TREMULA_OK);  // the stream was released
}

// The server has ended before the session subscribes to the stream.
TEST(Interruption, EndsAWaitWithoutAServer) {
  coupled::Stage stage;
  stage.start_server();
  Session session("consumer", 0, 1, {.server = stage.server(), .timeout = 20});
  auto in = session.in_stream("never");
  in.field<double>("f", Layout::parse("shape=6 grid=1"));
  stage.stop_server(SIGTERM);
  interrupted(session, [&] { in.begin_step(); });
}

// The server dies while the session subscribes to the stream.
TEST(Interruption, EndsAWaitWhileTheServerDies) {
  coupled::Stage stage;
  auto& server = stage.start_server();
  Session session("consumer", 0, 1, {.server = stage.server(), .timeout = 20});
  auto in = session.in_stream("never");
  in.field<double>("f", Layout::parse("shape=6 grid=1"));
  server.signal(SIGSTOP);
  std::thread end([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    stage.stop_server(SIGKILL);
  });
  interrupted(session, [&] { in.begin_step(); });
  end.join();
}

// One of two ranks is interrupted, and its call ends. The other rank's call ends at the same time, or
// once the interrupted rank has left.
TEST(Interruption, EndsTheCallOfASingleRank) {
  Jobs jobs;
  jobs.start("consumer", {"here", "here"}, [&](Session& session) {
    auto in = session.in_stream("never");
    in.field<double>("f", Layout::block({.shape = {6}, .grid = {2}}));
    int asked = 0;
    if (session.rank() == 1) session.ask([&asked] { return ++asked == 3; });
    try {
      in.begin_step();
      ADD_FAILURE() << "expected an error";
    } catch (const Error& error) {
      if (session.rank() == 1)
        EXPECT_EQ(error.status(), TREMULA_INTERRUPTED) << error.what();
      else
        EXPECT_TRUE(error.status() == TREMULA_PEER_LOST || error.status() == TREMULA_INTERRUPTED)
            << error.status() << " " << error.what();
    }
  });
  EXPECT_EQ(jobs.join(), "");
}

}  // namespace
