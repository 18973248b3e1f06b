// SPDX-License-Identifier: Apache-2.0
// Tests the questions that a job may ask about a stream: its fields, the steps that a time needs, and
// whether a step, or room for a step, is available. Uses the public headers only.
#include <gtest/gtest.h>

#include <atomic>
#include <complex>
#include <numeric>
#include <vector>

#include "tests/client/public_jobs.hpp"

namespace {

using namespace tremula;
using tremula::testing::Jobs;

const std::vector<std::string> two(2, "here"), three(3, "here");

// A consumer that knows only the name of the stream takes all of its fields.
TEST(Asking, DescribesFieldsThatAreThenDeclared) {
  Jobs jobs;
  const auto rows = Layout::block({.shape = {6, 5}, .grid = {2, 1}});
  const auto line = Layout::parse("shape=7 grid=2 block=2");
  jobs.start("model", two, [&](Session& session) {
    auto out = session.out_stream("sea", {.queue_depth = 3});
    const auto height = out.field<double>("height", rows);
    const auto phase = out.field<std::complex<float>>("phase", line);
    out.attribute("time_unit", "min");
    out.attribute(height, "units", std::string("m"));
    out.attribute(height, "valid_range", std::vector{-1.5f, 9.0f});
    out.attribute(phase, "coordinates", std::vector<std::string>{"height", "x"});
    std::vector<double> heights(static_cast<std::size_t>(rows.local(session.rank()).allocated));
    std::iota(heights.begin(), heights.end(), 15.0 * session.rank());
    const std::vector<std::complex<float>> phases(
        static_cast<std::size_t>(line.local(session.rank()).allocated), {2, 3});
    out.begin_step();
    out.time(-90);
    out.step_attribute("iterations", heights.size());
    out.step_attribute("converged", 1e-9);
    out.put(height, heights);
    out.put(phase, phases);
    out.end_step();
    out.close();
  });
  std::atomic<int> checked = 0;
  jobs.start("viewer", three, [&](Session& session) {
    const Description sea = session.describe("sea");
    ASSERT_EQ(sea.fields.size(), 2u);
    EXPECT_EQ(sea.producer, "model");
    EXPECT_EQ(sea.ranks, 2);
    EXPECT_EQ(sea.queue_depth, 3);
    EXPECT_EQ(sea.fields[0].name, "height");
    EXPECT_EQ(sea.fields[0].type, TREMULA_F64);
    EXPECT_EQ(sea.fields[0].layout.text(), rows.text());
    EXPECT_EQ(sea.fields[1].name, "phase");
    EXPECT_EQ(sea.fields[1].type, TREMULA_C64);
    EXPECT_EQ(sea.fields[1].layout.text(), line.text());

    EXPECT_EQ(sea.attributes.names(), std::vector<std::string>{"time_unit"});
    EXPECT_EQ(sea.fields[1].attributes.values<std::string>("coordinates"),
              (std::vector<std::string>{"height", "x"}));
    EXPECT_EQ(sea.fields[0].attributes.type("valid_range"), TREMULA_REAL);

    const auto mine = Layout::block({.shape = sea.fields[0].layout.shape(), .grid = {1, 3}});
    auto in = session.in_stream("sea");
    const auto height = in.field<double>(sea.fields[0].name, mine);
    std::vector<double> part(static_cast<std::size_t>(mine.local(session.rank()).allocated));
    ASSERT_EQ(in.begin_step(), StepStatus::ok);
    in.get(height, part);
    EXPECT_EQ(in.time(), -90);
    EXPECT_EQ(in.attributes().value<std::string>("time_unit"), "min");
    EXPECT_EQ(in.attributes(height).names(), (std::vector<std::string>{"units", "valid_range"}));
    EXPECT_EQ(in.attributes(height).values<double>("valid_range"), (std::vector<double>{-1.5, 9}));
    const Attributes of_step = in.step_attributes();
    in.end_step();
    EXPECT_EQ(of_step.value<std::int64_t>("iterations"), 15);
    EXPECT_EQ(of_step.value<double>("iterations"), 15.0);
    EXPECT_EQ(of_step.count("converged"), 1u);
    EXPECT_FALSE(of_step.has("units") || Attributes().has("units"));
    EXPECT_THROW(of_step.value<std::string>("iterations"), Error);
    EXPECT_THROW(of_step.value<double>("units"), Error);
    const auto local = mine.local(session.rank());
    for (Index i = 0; i < local.extents[0]; ++i)
      for (Index j = 0; j < local.extents[1]; ++j)
        EXPECT_EQ(part[static_cast<std::size_t>(i * local.strides[0] + j)],
                  static_cast<double>(5 * i + mine.global_index(session.rank(), 1, j)));
    EXPECT_EQ(in.begin_step(), StepStatus::end_of_stream);
    in.close();
    ++checked;
  });
  EXPECT_EQ(jobs.join(), "");
  EXPECT_EQ(checked, 3);
}

TEST(Asking, DescribesTheBoxesOfSeveralGroups) {
  Jobs jobs;
  for (const std::string group : {"west", "east"})
    jobs.start(group, two, [=](Session& session) {
      auto out = session.out_stream("sea");
      const bool is_west = group == "west";
      const auto box = Layout::block({.shape = {6, is_west ? 3 : 5}, .grid = {2, 1}});
      const Part part{.origin = {0, is_west ? 0 : 3}, .shape = {6, 8}};
      const auto depth = out.part<float>(is_west ? "depth" : "height", box, part);
      const auto height = out.part<float>(is_west ? "height" : "depth", box, part);
      const std::vector<float> data(static_cast<std::size_t>(box.local(0).allocated));
      out.begin_step();
      out.put(depth, data);
      out.put(height, data);
      out.end_step();
      out.close();
    });
  jobs.start("viewer", {"here"}, [&](Session& session) {
    const Description sea = session.describe("sea");
    ASSERT_EQ(sea.fields.size(), 2u);
    auto in = session.in_stream("sea");
    for (const auto& field : sea.fields) {
      EXPECT_EQ(field.layout.shape(), (std::vector<Index>{6, 8}));
      ASSERT_EQ(field.boxes.size(), 2u);
      for (const auto& box : field.boxes) {
        const bool is_west = box.group == "west";
        EXPECT_TRUE(is_west || box.group == "east") << box.group;
        EXPECT_EQ(box.origin, (std::vector<Index>{0, is_west ? 0 : 3}));
        EXPECT_EQ(box.layout.shape(), (std::vector<Index>{6, is_west ? 3 : 5}));
      }
      in.field<float>(field.name, field.layout);
    }
    while (in.begin_step() == StepStatus::ok) in.end_step();
    in.close();
  });
  EXPECT_EQ(jobs.join(), "");
}

// A consumer's steps are first shorter and then longer than the producer's, as in the manual.
TEST(Asking, FindsTheStepsAroundATime) {
  Jobs jobs;
  const auto rows = Layout::parse("shape=12 grid=2"),
             cards = Layout::parse("shape=12 grid=3 block=1");
  jobs.start("model", two, [&](Session& session) {
    auto out = session.out_stream("sea");
    out.attribute("time_unit", "s");
    const auto field = out.field<double>("height", rows);
    for (const std::int64_t time : {0, 40, 80, 100, 110, 200}) {
      out.begin_step();
      out.time(time);
      out.put(field, std::vector<double>(6, static_cast<double>(time)));
      out.end_step();
    }
    out.close();
  });
  std::atomic<int> checked = 0;
  jobs.start("viewer", three, [&](Session& session) {
    auto in = session.in_stream("sea");
    const auto field = in.field<double>("height", cards);
    std::vector<double> earlier(4), later(4);
    std::int64_t earlier_time = 0, later_time = -1;
    for (const std::int64_t time : {0, 15, 30, 40, 45, 105, 160, 200}) {
      while (in.begin_step_around(time, "s") == StepStatus::ok) {
        std::swap(earlier, later);
        earlier_time = std::exchange(later_time, in.time());
        in.get(field, later);
        in.end_step();
      }
      const double part =
          static_cast<double>(time - earlier_time) / static_cast<double>(later_time - earlier_time);
      for (std::size_t i = 0; i < later.size(); ++i)
        EXPECT_NEAR((1 - part) * (time == 0 ? 0 : earlier[i]) + part * later[i],
                    static_cast<double>(time), 1e-12);
    }
    EXPECT_EQ(earlier_time, 110);
    EXPECT_EQ(in.begin_step(), StepStatus::end_of_stream);
    in.close();
    ++checked;
  });
  EXPECT_EQ(jobs.join(), "");
  EXPECT_EQ(checked, 3);
}

TEST(Asking, NamesTheStreamThatExists) {
  Jobs jobs;
  std::atomic<bool> is_announced = false, is_asked = false;
  jobs.start("model", {"here"}, [&](Session& session) {
    auto out = session.out_stream("sea", {.wait_for_consumers = 0});
    const auto field = out.field<float>("f", Layout::parse("shape=1 grid=1"));
    out.put(field, std::vector<float>{1});
    is_announced = true;
    while (!is_asked) std::this_thread::yield();
    out.close();
  });
  jobs.start("viewer", two, [&](Session& session) {
    while (!is_announced) std::this_thread::yield();
    try {
      session.describe("see", 0);
      ADD_FAILURE() << "expected an error, because no stream has that name";
    } catch (const Error& e) {
      EXPECT_EQ(e.status(), TREMULA_TIMED_OUT);
      EXPECT_NE(std::string(e.what()).find("found only 'sea'"), std::string::npos) << e.what();
    }
    EXPECT_EQ(session.describe("sea", 0).fields.size(), 1u);
    is_asked = true;
  });
  EXPECT_EQ(jobs.join(), "");
}

const auto one_number = Layout::parse("shape=6 grid=2");
std::vector<std::int64_t> numbers(int rank, std::int64_t step) {
  return {100 * step + 3 * rank, 100 * step + 3 * rank + 1, 100 * step + 3 * rank + 2};
}

/// Repeats a call until it returns something other than not_ready.
template <class Begin>
StepStatus begin(Begin&& begin_step, std::atomic<int>& not_ready) {
  for (;;) {
    const StepStatus status = begin_step();
    if (status != StepStatus::not_ready) return status;
    ++not_ready;
    std::this_thread::yield();
  }
}

TEST(Asking, ConsumerPollsForStepsWithoutWaiting) {
  Jobs jobs;
  std::atomic<bool> may_start = false, may_go_on = false;
  std::atomic<int> not_linked = 0, not_here = 0, taken = 0;
  jobs.start("model", two, [&](Session& session) {
    while (!may_start) std::this_thread::yield();
    auto out = session.out_stream("s");
    const auto field = out.field<std::int64_t>("f", one_number);
    out.put(field, numbers(session.rank(), 0));
    while (!may_go_on) std::this_thread::yield();
    out.put(field, numbers(session.rank(), 1));
    out.close();
  });
  jobs.start("viewer", two, [&](Session& session) {
    auto in = session.in_stream("s");
    const auto field = in.field<std::int64_t>("f", one_number);
    std::vector<std::int64_t> data(3);
    // No producer offers the stream yet, and both ranks learn that.
    EXPECT_FALSE(in.is_ready());
    EXPECT_EQ(in.begin_step(0), StepStatus::not_ready);
    EXPECT_EQ(in.begin_step(0.05), StepStatus::not_ready);
    may_start = true;
    EXPECT_EQ(begin([&] { return in.begin_step(0.01); }, not_linked), StepStatus::ok);
    in.get(field, data);
    EXPECT_EQ(data, numbers(session.rank(), 0));
    in.end_step();
    EXPECT_FALSE(in.is_ready());
    EXPECT_EQ(in.begin_step(0), StepStatus::not_ready);
    if (++taken == 2) may_go_on = true;
    EXPECT_EQ(begin([&] { return in.begin_step(0); }, not_here), StepStatus::ok);
    in.get(field, data);
    EXPECT_EQ(data, numbers(session.rank(), 1));
    in.end_step();
    while (!in.is_ready()) std::this_thread::yield();
    EXPECT_EQ(in.begin_step(0), StepStatus::end_of_stream);
    EXPECT_EQ(in.begin_step(0), StepStatus::end_of_stream);
    in.close();
  });
  EXPECT_EQ(jobs.join(), "");
  EXPECT_EQ(taken, 2);
}

TEST(Asking, ProducerPollsForRoomWithoutWaiting) {
  Jobs jobs;
  std::atomic<bool> may_come = false, may_take = false;
  std::atomic<int> asked = 0, no_consumer = 0, no_room = 0, refused = 0;
  jobs.start("model", two, [&](Session& session) {
    auto out = session.out_stream("s", {.queue_depth = 1});
    const auto field = out.field<std::int64_t>("f", one_number);
    EXPECT_FALSE(out.is_ready());
    EXPECT_EQ(out.begin_step(0), StepStatus::not_ready);
    EXPECT_EQ(out.begin_step(0.05), StepStatus::not_ready);
    may_come = true;
    EXPECT_EQ(begin([&] { return out.begin_step(0.01); }, no_consumer), StepStatus::ok);
    out.put(field, numbers(session.rank(), 0));
    out.end_step();
    EXPECT_FALSE(out.is_ready());
    EXPECT_EQ(out.begin_step(0), StepStatus::not_ready);
    EXPECT_EQ(out.begin_step(0), StepStatus::not_ready);
    refused += 2;
    if (++asked == 2) may_take = true;
    EXPECT_EQ(begin([&] { return out.begin_step(0); }, no_room), StepStatus::ok);
    out.put(field, numbers(session.rank(), 1));
    out.end_step();
    out.close();
  });
  std::atomic<int> taken = 0;
  jobs.start("viewer", two, [&](Session& session) {
    while (!may_come) std::this_thread::yield();
    auto in = session.in_stream("s");
    const auto field = in.field<std::int64_t>("f", one_number);
    std::vector<std::int64_t> data(3);
    for (std::int64_t step = 0; in.begin_step() == StepStatus::ok; ++step, ++taken) {
      while (!may_take) std::this_thread::yield();
      in.get(field, data);
      EXPECT_EQ(data, numbers(session.rank(), step));
      in.end_step();
    }
    in.close();
  });
  EXPECT_EQ(jobs.join(), "");
  EXPECT_EQ(taken, 4);
  EXPECT_EQ(refused, 4);
}

TEST(Asking, ConsumerThatOnlyPollsLearnsOfALoss) {
  Jobs jobs;
  std::atomic<int> lost = 0, not_here = 0;
  jobs.start("model", {"here"}, [&](Session& session) {
    auto out = session.out_stream("s");
    const auto field = out.field<float>("f", Layout::parse("shape=1 grid=1"));
    out.put(field, std::vector<float>{1});
  });  // leaves without closing
  jobs.start("viewer", {"here"}, [&](Session& session) {
    auto in = session.in_stream("s");
    const auto field = in.field<float>("f", Layout::parse("shape=1 grid=1"));
    std::vector<float> data(1);
    try {
      while (begin([&] { return in.begin_step(0); }, not_here) == StepStatus::ok) {
        in.get(field, data);
        in.end_step();
      }
      ADD_FAILURE() << "expected the loss of the producer, found the end of the stream";
    } catch (const Error& e) {
      EXPECT_EQ(e.status(), TREMULA_PEER_LOST) << e.what();
      ++lost;
    }
  });
  EXPECT_EQ(jobs.join(), "");
  EXPECT_EQ(lost, 1);
}

TEST(Asking, RefusesANullDescription) {
  EXPECT_EQ(tremula_description_field(nullptr, 0, nullptr, nullptr, nullptr),
            TREMULA_INVALID_ARGUMENT);
  EXPECT_EQ(tremula_description_fields(nullptr), 0);
  EXPECT_STREQ(tremula_description_producer(nullptr), "");
}

}  // namespace
