// SPDX-License-Identifier: Apache-2.0
// Tests complete streams in one process: a real server on a free port, ranks that are threads with
// their own sessions, and data over loopback. tests/coupled has the cases that need separate jobs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <numeric>
#include <thread>

#include "client/stream/in_stream.hpp"
#include "client/stream/out_stream.hpp"
#include "tests/client/world.hpp"
#include "tests/core/error_of.hpp"

namespace tremula::client {
namespace {

using core::Rank;
using index_calc::Layout;

constexpr core::Index extent = 24;

proto::Field row_field(RankCount size, const std::string& more = "",
                       core::ElementType type = core::ElementType::i64) {
  return {.name = "f",
          .type = type,
          .layout = Layout::parse(fmt::format("shape={} grid={} {}", extent, size, more))};
}

/// Returns the part of `rank` in `step`: element i of the array is 100 * i + step.
std::vector<std::int64_t> part_of(const Layout& layout, Rank rank, std::uint64_t step) {
  std::vector<std::int64_t> part(static_cast<std::size_t>(local_part(layout, rank).elements));
  for (std::size_t i = 0; i < part.size(); ++i)
    part[i] = 100 * index_calc::to_global(layout.grid()->dims[0], {rank.value},
                                          {static_cast<core::Index>(i)})
                        .value +
              static_cast<std::int64_t>(step);
  return part;
}

void put_steps(Session& session, std::uint64_t first, std::uint64_t count, OutStream& out,
               const Layout& layout) {
  for (std::uint64_t s = first; s < first + count; ++s) {
    const auto data = part_of(layout, session.rank(), s);
    out.begin_step();
    out.put(0, std::as_bytes(std::span(data)));
    out.end_step();
  }
}

/// Takes at most `at_most` steps and checks every element. Returns the number of the first step and
/// the number of steps.
std::pair<std::uint64_t, std::uint64_t> take_steps(Session& session, InStream& in,
                                                   const Layout& layout,
                                                   std::uint64_t at_most = ~0ull) {
  std::uint64_t first = 0, count = 0;
  std::vector<std::int64_t> data(
      static_cast<std::size_t>(local_part(layout, session.rank()).elements));
  while (count < at_most && in.begin_step()) {
    if (count == 0) first = in.step();
    EXPECT_EQ(in.step(), first + count);
    in.get(0, std::as_writable_bytes(std::span(data)));
    EXPECT_EQ(data, part_of(layout, session.rank(), first + count))
        << "rank " << session.rank().value << " step " << first + count;
    in.end_step();
    ++count;
  }
  return {first, count};
}

void produce(Session& session, std::uint64_t steps, const OutConfig& config = {}) {
  OutStream out(session, "s", config);
  const auto field = row_field(session.size(), "block=2");
  out.declare(field);
  put_steps(session, 0, steps, out, field.layout);
  out.close();
  EXPECT_EQ(out.statistics().steps, steps);
}

TEST(Stream, BringsStepsFromAnyGroupSizeToAny) {
  for (const auto& [m, n, progress] : {std::tuple{1, 1, Progress::calls},
                                       {1, 3, Progress::calls},
                                       {3, 1, Progress::thread},
                                       {2, 3, Progress::calls},
                                       {2, 3, Progress::thread},
                                       {4, 4, Progress::thread}}) {
    SCOPED_TRACE(fmt::format("{}x{}", m, n));
    World world(progress == Progress::thread ? 0 : 8192);  // 0: sends complete when received
    world.start("producer", m, [progress = progress](Session& s) {
      OutConfig config;
      config.progress = progress;
      produce(s, 20, config);
    });
    world.start("consumer", n, [](Session& s) {
      InStream in(s, "s");
      const auto field = row_field(s.size(), "block=3");
      in.declare(field);
      EXPECT_EQ(take_steps(s, in, field.layout), std::pair(std::uint64_t{0}, std::uint64_t{20}));
      EXPECT_FALSE(in.begin_step()) << "the end is final";
      in.close();
    });
    EXPECT_EQ(text_of(world.join()), "");
  }
}

TEST(Stream, GivesALateConsumerWholeStepsFromThenOn) {
  World world;
  std::atomic<bool> is_first_done = false, has_late_taken = false;
  world.start("producer", 2, [&](Session& s) {
    OutStream out(s, "s", {.queue_depth = 1, .wait_for_consumers = 1});
    const auto field = row_field(s.size(), "block=2");
    out.declare(field);
    put_steps(s, 0, 10, out, field.layout);
    is_first_done = true;
    // Until the late consumer has taken some steps, or the limit expires; rank 0 decides for all ranks.
    const auto limit = core::Deadline::after(60);
    std::uint64_t step = 10;
    const auto is_enough = [&] {
      const std::byte mine{has_late_taken || limit.expired()};
      return s.group().allgather({mine}, s.deadline())[0][0] == std::byte{1};
    };
    for (; !is_enough(); ++step) put_steps(s, step, 1, out, field.layout);
    put_steps(s, step, 30, out, field.layout);
    out.close();
  });
  for (const bool is_late : {false, true})
    world.start(is_late ? "late" : "early", is_late ? 1 : 3, [&, is_late](Session& s) {
      while (is_late && !is_first_done) std::this_thread::yield();
      InStream in(s, "s");
      const auto field = row_field(s.size());
      in.declare(field);
      const auto [first, count] = take_steps(s, in, field.layout, 5);
      EXPECT_EQ(count, 5u);
      if (is_late) {
        EXPECT_GE(first, 10u);
        has_late_taken = true;
      } else {
        EXPECT_EQ(first, 0u);
      }
      EXPECT_GE(take_steps(s, in, field.layout).second, 30u);
      in.close();
    });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(Stream, ContinuesWhenAConsumerLeavesEarly) {
  World world;
  world.start("producer", 2,
              [](Session& s) { produce(s, 50, {.queue_depth = 1, .wait_for_consumers = 2}); });
  for (const std::string name : {"short", "long"})
    world.start(name, 2, [name](Session& s) {
      InStream in(s, "s");
      const auto field = row_field(s.size());
      in.declare(field);
      const auto [first, count] = take_steps(s, in, field.layout, name == "short" ? 7 : ~0ull);
      EXPECT_EQ(count, name == "short" ? 7u : 50u);
      in.close();
    });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(Stream, GivesASlowRankItsStepsAfterAFastOneLeft) {
  for (const int queue_depth : {1, 2}) {
    World world(0);  // a send completes when it is received: staging is in use until then
    world.start("producer", 2, [=](Session& s) {
      produce(s, 40, {.queue_depth = queue_depth, .wait_for_consumers = 1});
    });
    world.start("consumer", 2, [](Session& s) {
      InStream in(s, "s");
      const auto field = row_field(s.size(), "block=3");
      in.declare(field);
      if (s.rank() == Rank{0}) {
        EXPECT_EQ(take_steps(s, in, field.layout, 5).second, 5u);
      } else {
        for (int i = 0; i < 5; ++i) {
          EXPECT_EQ(take_steps(s, in, field.layout, 1).second, 1u);
          std::this_thread::sleep_for(std::chrono::milliseconds(30));
        }
      }
      in.close();
    });
    EXPECT_EQ(text_of(world.join()), "");
  }
}

TEST(Stream, LosesAGroupIfOneOfItsRanksLeaves) {
  World world;
  world.start("producer", 2, [](Session& s) {
    OutStream out(s, "s", {});
    const auto field = row_field(s.size());
    out.declare(field);
    put_steps(s, 0, 3, out, field.layout);
    if (s.rank() == Rank{1}) throw Error(Errc::internal, "bad luck");
    put_steps(s, 3, 100, out, field.layout);
  });
  world.start("consumer", 2, [](Session& s) {
    InStream in(s, "s");
    const auto field = row_field(s.size());
    in.declare(field);
    take_steps(s, in, field.layout);
  });
  int failed = 0;
  for (const auto& [who, e] : world.join()) {
    if (!who.starts_with("consumer")) continue;
    ++failed;
    EXPECT_EQ(e.code(), Errc::peer_lost) << e.what();
  }
  EXPECT_EQ(failed, 2);
}

TEST(Stream, WithdrawsAStreamWithoutConsumers) {
  World world;
  world.start("producer", 2, [](Session& s) {
    OutStream out(s, "s", {});
    out.declare(row_field(s.size()));
    EXPECT_THROW(out.begin_step(), Error);
    EXPECT_THROW(out.begin_step(), Error) << "begin_step may be tried again";
    out.close();
    produce(s, 1, {.queue_depth = 1, .wait_for_consumers = 0});  // the name is free
  });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(Stream, ReportsAProducerThatGaveUpToConsumers) {
  World world;
  world.start("producer", 2, [](Session& s) {
    OutStream out(s, "s", {});
    const auto field = row_field(s.size());
    out.declare(field);
    put_steps(s, 0, 3, out, field.layout);
    throw Error(Errc::internal, "gives up");  // leaves without close
  });
  world.start("consumer", 2, [](Session& s) {
    InStream in(s, "s");
    const auto field = row_field(s.size());
    in.declare(field);
    take_steps(s, in, field.layout);
  });
  int failed = 0;
  for (const auto& [who, e] : world.join()) {
    if (!who.starts_with("consumer")) continue;
    ++failed;
    EXPECT_EQ(e.code(), Errc::peer_lost) << e.what();
    EXPECT_NE(std::string(e.what()).find("stream 's'"), std::string::npos) << e.what();
  }
  EXPECT_EQ(failed, 2);
}

TEST(Stream, ConvertsAPartAndSurvivesAnOverflow) {
  World world;
  world.start("producer", 2, [](Session& s) {
    OutStream out(s, "s", {.queue_depth = 1, .wait_for_consumers = 1});
    const int field = out.declare(
        {.name = "f", .type = core::ElementType::i64, .layout = Layout::parse("shape=8 grid=2")});
    for (std::int64_t step = 0; step < 3; ++step) {
      std::vector<std::int64_t> data;
      for (std::int64_t i = 0; i < 4; ++i) data.push_back(100 * step + 4 * s.rank().value + i);
      out.begin_step();
      out.put(field, std::as_bytes(std::span(data)));
      out.end_step();
    }
    out.close();
  });
  world.start("consumer", 1, [](Session& s) {
    InStream in(s, "s");
    const int field = in.declare(
        {.name = "f", .type = core::ElementType::i8, .layout = Layout::parse("shape=6 grid=1")},
        {.alpha = -1, .of_data = index_calc::Selection{{1}, {4}}, .from_origin = {2}});
    for (int step = 0; in.begin_step(); ++step) {
      std::vector<std::int8_t> data(6, 9);
      const auto get = [&] { in.get(field, std::as_writable_bytes(std::span(data))); };
      const auto at = [&](int i) { return static_cast<std::int8_t>(-100 * step - i); };
      if (step == 2) {  // -202 does not fit into i8
        try {
          get();
          ADD_FAILURE() << "a value that does not fit was accepted";
        } catch (const Error& e) {
          EXPECT_EQ(e.code(), Errc::mismatch);
          EXPECT_NE(std::string(e.what()).find("stream 's', step 2, field 'f'"), std::string::npos)
              << e.what();
        }
      } else {
        get();
        EXPECT_EQ(data, (std::vector<std::int8_t>{9, at(2), at(3), at(4), at(5), 9}));
      }
      in.end_step();
    }
    in.close();
  });
  for (const auto& [who, e] : world.join()) ADD_FAILURE() << who << ": " << e.what();
}

// The refusal affects neither the step nor the stream: the application copies the array and continues.
TEST(Stream, RefusesAnArrayOfADeviceAndContinues) {
  const auto refused = [](const std::function<void()>& call) {
    try {
      call();
      ADD_FAILURE() << "an array in device memory was accepted";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Errc::unsupported);
      EXPECT_NE(std::string(e.what()).find("device 3"), std::string::npos) << e.what();
    }
  };
  World world;
  world.start("producer", 1, [&](Session& s) {
    OutStream out(s, "s", {.queue_depth = 1, .wait_for_consumers = 1});
    const auto field = row_field(1);
    out.declare(field);
    for (std::uint64_t step = 0; step < 3; ++step) {
      const auto data = part_of(field.layout, Rank{0}, step);
      const auto bytes = std::as_bytes(std::span(data));
      const ConstMemoryView on_device(bytes, MemorySpace::device, 3);
      out.begin_step();
      refused([&] { out.put(0, on_device); });
      refused([&] { out.put_async(0, on_device); });
      out.put(0, bytes);
      out.end_step();
    }
    out.close();
  });
  world.start("consumer", 1, [&](Session& s) {
    InStream in(s, "s");
    const auto field = row_field(1);
    in.declare(field);
    std::vector<std::int64_t> data(static_cast<std::size_t>(extent));
    const auto bytes = std::as_writable_bytes(std::span(data));
    for (std::uint64_t step = 0; step < 3; ++step) {
      ASSERT_TRUE(in.begin_step());
      refused([&] { in.get(0, MemoryView(bytes, MemorySpace::device, 3)); });
      in.get(0, bytes);
      EXPECT_EQ(data, part_of(field.layout, Rank{0}, step));
      in.end_step();
    }
    EXPECT_FALSE(in.begin_step());
    in.close();
  });
  for (const auto& [who, e] : world.join()) ADD_FAILURE() << who << ": " << e.what();
}

TEST(Stream, AddsIncomingElementsToOneLayerOfSums) {
  World world;
  world.start("producer", 2, [](Session& s) {
    OutStream out(s, "s", {.queue_depth = 1, .wait_for_consumers = 1});
    try {
      out.declare({.name = "sums",
                   .type = core::ElementType::f64,
                   .layout = Layout::parse("shape=8 mesh=2 sum=0")});
      ADD_FAILURE() << "partial sums were accepted";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Errc::unsupported);
      EXPECT_NE(std::string(e.what()).find("stream 's', field 'sums': expected a producer whose"),
                std::string::npos)
          << e.what();
    }
    const int field = out.declare(
        {.name = "f", .type = core::ElementType::f64, .layout = Layout::parse("shape=8 grid=2")});
    for (int step = 0; step < 3; ++step) {
      std::vector<double> data;
      for (int i = 0; i < 4; ++i) data.push_back(100 * step + 4 * s.rank().value + i);
      out.begin_step();
      out.put(field, std::as_bytes(std::span(data)));
      out.end_step();
    }
    out.close();
  });
  world.start("consumer", 4, [](Session& s) {
    InStream in(s, "s");
    const int field =
        in.declare({.name = "f",
                    .type = core::ElementType::f64,
                    .layout = Layout::parse("shape=8 mesh=2x2 axes0=0 sum=1 block=1")},
                   {.alpha = 2, .beta = 3});
    for (int step = 0; in.begin_step(); ++step) {
      std::vector<double> data(4, 1), expected;
      in.get(field, std::as_writable_bytes(std::span(data)));
      for (int i = 0; i < 4; ++i)  // ranks 0 and 2 are the first layer
        expected.push_back(
            s.rank().value % 2 == 0 ? 2 * (100 * step + 2 * i + s.rank().value / 2) + 3 : 3);
      EXPECT_EQ(data, expected) << "rank " << s.rank().value << ", step " << step;
      in.end_step();
    }
    in.close();
  });
  for (const auto& [who, e] : world.join()) ADD_FAILURE() << who << ": " << e.what();
}

/// Consumer ranks that join a stream and leave it, possibly by an exception.
struct PassingConsumers {
  std::atomic<bool> may_join = false;
  std::atomic<int> left = 0;
};
struct PassingConsumer {
  explicit PassingConsumer(PassingConsumers& group) : all(group) {
    while (!all.may_join) std::this_thread::yield();
  }
  ~PassingConsumer() { ++all.left; }
  PassingConsumers& all;
};
/// Runs a producer of one rank that puts a step without consumers and stays until `count` consumer
/// ranks have left.
void produce_for(Session& s, PassingConsumers& consumers, int count) {
  OutStream out(s, "s", {.queue_depth = 1, .wait_for_consumers = 0});
  const auto field = row_field(1);
  out.declare(field);
  put_steps(s, 0, 1, out, field.layout);
  consumers.may_join = true;
  const auto limit = core::Deadline::after(60);
  while (consumers.left < count && !limit.expired())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  out.close();
}

TEST(Stream, RefusesFieldsOnWhichTheSidesDisagree) {
  PassingConsumers consumers;  // outlives the world and its threads
  World world;
  world.start("producer", 1, [&](Session& s) { produce_for(s, consumers, 6); });
  const auto mistake = [&](const std::string& group, RankCount size, const auto& declare) {
    world.start(group, size, [&consumers, declare](Session& s) {
      const PassingConsumer consumer(consumers);
      InStream in(s, "s");
      declare(s, in);
      in.begin_step();
    });
  };
  mistake("wrong_part", 2, [](Session& s, InStream& in) {
    in.declare(row_field(s.size()),
               {.of_data = index_calc::Selection{{0}, {20}}, .from_origin = {10}});
  });
  mistake("wrong_shape", 1, [](Session&, InStream& in) {
    in.declare(
        {.name = "f", .type = core::ElementType::i64, .layout = Layout::parse("shape=25 grid=1")});
  });
  mistake("wrong_name", 1, [](Session&, InStream& in) {
    in.declare(
        {.name = "g", .type = core::ElementType::i64, .layout = Layout::parse("shape=24 grid=1")});
  });
  mistake("unlike", 2, [](Session& s, InStream& in) {
    in.declare(row_field(2, s.rank() == Rank{0} ? "block=12" : "block=1"));
  });
  std::map<std::string, std::string> texts;
  for (const auto& [who, e] : world.join()) {
    texts[who] = e.what();
    EXPECT_EQ(e.code(), Errc::mismatch) << who << ": " << e.what();
  }
  EXPECT_EQ(texts.size(), 6u);
  const auto has = [&](const std::string& who, const std::string& part) {
    EXPECT_NE(texts[who].find(part), std::string::npos) << who << ": " << texts[who];
  };
  has("wrong_part.0", "20 at 10");
  has("wrong_part.1", "offers 24");
  has("wrong_shape.0", "25");
  has("wrong_name.0", "'g'");
  has("unlike.1", "rank 1");
}

TEST(Stream, NamesOtherStreamsIfTheWantedOneIsMissing) {
  PassingConsumers consumers;  // outlives the world and its threads
  World world;
  world.start("producer", 1, [&](Session& s) { produce_for(s, consumers, 1); });
  world.start(
      "consumer", 1,
      [&](Session& s) {
        const PassingConsumer consumer(consumers);
        InStream in(s, "t");
        in.declare(row_field(1));
        in.begin_step();
      },
      5);
  const auto errors = world.join();
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].second.code(), Errc::timed_out);
  EXPECT_NE(std::string(errors[0].second.what()).find("only 's'"), std::string::npos)
      << errors[0].second.what();
}

TEST(Stream, RefusesCallsOutOfTurn) {
  World world;
  world.start("producer", 1, [](Session& s) {
    OutStream out(s, "s", {.queue_depth = 1, .wait_for_consumers = 0});
    EXPECT_THROW(out.begin_step(), Error) << "no field";
    const auto field = row_field(1);
    out.declare(field);
    const auto twice = core::error_of([&] { out.declare(field); }, core::Errc::invalid_argument);
    EXPECT_NE(twice.find("is declared twice; declare it once"), twice.npos) << twice;
    EXPECT_THROW(out.declare({.name = "g",
                              .type = core::ElementType::i8,
                              .layout = Layout::parse("shape=4 grid=2")}),
                 Error)
        << "grid of two, group of one";
    const std::vector<std::int64_t> data(extent);
    EXPECT_THROW(out.put(0, std::as_bytes(std::span(data))), Error) << "no step open";
    out.begin_step();
    EXPECT_THROW(out.begin_step(), Error) << "step open";
    EXPECT_THROW(out.end_step(), Error) << "nothing put";
    EXPECT_THROW(out.put(1, std::as_bytes(std::span(data))), Error) << "no such field";
    EXPECT_THROW(out.put(0, std::as_bytes(std::span(data)).first(8)), Error) << "buffer too small";
    out.put(0, std::as_bytes(std::span(data)));
    EXPECT_THROW(out.put(0, std::as_bytes(std::span(data))), Error) << "put twice";
    EXPECT_THROW(out.close(), Error) << "step open";
    out.end_step();
    out.close();
    out.close();
    EXPECT_THROW(out.begin_step(), Error) << "closed";
  });
  EXPECT_EQ(text_of(world.join()), "");
}

}  // namespace
}  // namespace tremula::client
