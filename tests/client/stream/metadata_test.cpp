// SPDX-License-Identifier: Apache-2.0
// Tests time and attributes, which the ranks of a producer set and every rank of a consumer reads.
#include <atomic>
#include <map>
#include <span>

#include "client/stream/describe.hpp"
#include "tests/client/coupling.hpp"
#include "tests/client/world.hpp"

namespace tremula::client {
namespace {

using Integers = std::vector<std::int64_t>;
using Reals = std::vector<double>;
using Texts = std::vector<std::string>;
using proto::AttributeValues;

std::int64_t time_of(std::uint64_t step) { return 100 * static_cast<std::int64_t>(step) - 7; }

/// Returns the attributes of a step: none, a few, or nearly as many as are allowed.
std::map<std::string, AttributeValues> attributes_of(std::uint64_t step) {
  if (step % 3 == 0) return {};
  std::map<std::string, AttributeValues> out{
      {"number", Integers{static_cast<std::int64_t>(step)}},
      {"limits", Reals{0.5 * static_cast<double>(step), -1e300}},
      {"notes", Texts{"step " + std::to_string(step), "", "\u00e4\n\t\""}}};
  if (step % 3 == 2) out["all"] = Integers(8170, static_cast<std::int64_t>(step));
  return out;
}

std::map<std::string, AttributeValues> as_map(const proto::Attributes& attributes) {
  std::map<std::string, AttributeValues> out;
  for (const proto::Attribute& attribute : attributes.all()) out[attribute.name] = attribute.values;
  return out;
}

/// A rank's part of an array whose blocks are dealt out to the ranks.
class Part {
public:
  Part(const Session& session, core::Index extent, core::Index block)
      : layout_(index_calc::Layout::parse(
            fmt::format("shape={} grid={} block={}", extent, session.size(), block))),
        values_(
            static_cast<std::size_t>(index_calc::local_part(layout_, session.rank()).allocated)) {}
  proto::Field field() const {
    return {.name = "f", .type = core::ElementType::i64, .layout = layout_, .origin = {}};
  }
  std::span<std::byte> bytes() { return std::as_writable_bytes(std::span(values_)); }

private:
  index_calc::Layout layout_;
  std::vector<std::int64_t> values_;
};

class Producer {
public:
  Producer(Session& session, const OutConfig& config, core::Index extent = 60)
      : out(session, "s", config), part_(session, extent, 7) {
    out.declare(part_.field());
    out.set_attribute(of_stream, "time_unit", Texts{"min"});
    out.set_attribute(of_stream, "title", Texts{"all of it"});
    out.set_attribute(0, "units", Texts{"K"});
    out.set_attribute(0, "valid_range", Reals{0, 40});
  }
  void put_to(std::uint64_t end) {
    for (; step_ < end; ++step_) {
      out.begin_step();
      out.set_time(time_of(step_));
      for (const auto& [name, values] : attributes_of(step_))
        out.set_attribute(of_step, name, values);
      out.put(0, part_.bytes());
      out.end_step();
    }
  }
  OutStream out;

private:
  Part part_;
  std::uint64_t step_ = 0;
};

class Consumer {
public:
  Consumer(Session& session, const InConfig& config = {}, core::Index extent = 60)
      : in(session, "s", config), part_(session, extent, 11) {
    in.declare(part_.field());
  }
  bool begin() { return in.begin_step(); }
  void take() {
    EXPECT_EQ(in.time(), time_of(in.step())) << "step " << in.step();
    EXPECT_EQ(as_map(in.attributes(of_step)), attributes_of(in.step())) << "step " << in.step();
    in.get(0, part_.bytes());
    EXPECT_EQ(in.time(), time_of(in.step()));
    steps.push_back(in.step());
    in.end_step();
  }
  void expect_attributes_of_stream_and_field() {
    EXPECT_EQ(as_map(in.attributes(of_stream)),
              (std::map<std::string, AttributeValues>{{"time_unit", Texts{"min"}},
                                                      {"title", Texts{"all of it"}}}));
    EXPECT_EQ(as_map(in.attributes(0)), (std::map<std::string, AttributeValues>{
                                            {"units", Texts{"K"}}, {"valid_range", Reals{0, 40}}}));
  }
  InStream in;
  std::vector<std::uint64_t> steps;

private:
  Part part_;
};

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Errc::invalid_argument) << e.what();
    return e.what();
  }
  return "no error";
}

// Short arrays travel with the message, long ones do not; no send finishes before it is received.
TEST(Metadata, ReachesEveryRankWithItsStep) {
  for (const core::Index extent : {60, 6000})
    for (const int depth : {0, 1, 3}) {
      SCOPED_TRACE(fmt::format("extent {}, queue_depth {}", extent, depth));
      World world(0);
      std::atomic<int> seen = 0;
      world.start("producer", 2, [&](Session& s) {
        Producer p(s, {.queue_depth = depth}, extent);
        p.put_to(7);
        p.out.close();
      });
      world.start("consumer", 5, [&](Session& s) {
        Consumer c(s, {}, extent);
        while (c.begin()) {
          c.expect_attributes_of_stream_and_field();
          c.take();
          ++seen;
        }
        c.expect_attributes_of_stream_and_field();
        c.in.close();
      });
      EXPECT_EQ(text_of(world.join()), "");
      EXPECT_EQ(seen, 35);
    }
}

// A queue that drops steps keeps the time and the attributes with their step.
TEST(Metadata, BelongsToTheStepThatIsTaken) {
  for (const auto policy : {WhenFull::drop_newest, WhenFull::drop_oldest}) {
    World world;
    std::atomic<int> holding = 0, full = 0;
    world.start("producer", 2, [&](Session& s) {
      Producer p(s, {.queue_depth = 3, .when_full = policy, .wait_for_consumers = 2});
      p.put_to(1);
      while (holding < 5) std::this_thread::yield();
      p.put_to(20);
      ++full;
      p.out.close();
    });
    world.start("consumer", 3, [&](Session& s) {
      Consumer c(s);
      while (c.begin()) {
        if (c.in.step() == 0) ++holding;
        while (full < 2) std::this_thread::yield();
        c.take();
      }
      EXPECT_LT(c.steps.size(), 20u);
      c.in.close();
    });
    world.start("viewer", 2, [&](Session& s) {
      Consumer c(s, {.steps = Steps::latest});
      while (c.begin()) {
        if (c.in.step() == 0) ++holding;
        while (full < 2) std::this_thread::yield();
        c.take();
      }
      EXPECT_EQ(c.steps, (std::vector<std::uint64_t>{0, 19}));
      c.in.close();
    });
    EXPECT_EQ(text_of(world.join()), "");
  }
}

TEST(Metadata, IsDescribedBeforeTheFirstStep) {
  World world;
  world.start("producer", 2, [&](Session& s) {
    Producer p(s, {});
    p.put_to(1);
    p.out.close();
  });
  world.start("consumer", 1, [&](Session& s) {
    const Description described = describe(s, "s", s.deadline());
    EXPECT_EQ(as_map(proto::decode_attributes(described.attributes))["title"],
              AttributeValues(Texts{"all of it"}));
    EXPECT_EQ(as_map(proto::decode_attributes(described.fields[0].attributes))["units"],
              AttributeValues(Texts{"K"}));
    Consumer c(s);
    EXPECT_EQ(error_of([&] { c.in.attributes(of_stream); }),
              "stream 's': expected attributes after begin_step, which links the stream to its "
              "producer, and before close; found no link");
    EXPECT_EQ(error_of([&] { c.in.attributes(of_step); }),
              "stream 's': expected begin_step before the attributes of a step");
    EXPECT_EQ(error_of([&] { c.in.time(); }), "stream 's': expected begin_step before time");
    ASSERT_TRUE(c.begin());
    EXPECT_EQ(error_of([&] { c.in.attributes(1); }),
              "stream 's': expected a field from 0 to 0; found 1");
    c.take();
    EXPECT_FALSE(c.begin());
    c.in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

/// Returns the status of the stream that the server reports, as soon as `is_it` is true for it.
wire::StreamStatus status_when(Session& session,
                               const std::function<bool(const wire::StreamStatus&)>& is_it) {
  wire::ToServer question;
  question.mutable_status();
  const auto deadline = core::Deadline::after(30);
  for (;;) {
    const auto status = session.control().call(question, deadline).status();
    if (status.streams_size() > 0 && is_it(status.streams(0))) return status.streams(0);
    if (deadline.expired()) throw Error(Errc::timed_out, "not shown: " + status.DebugString());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

TEST(Metadata, IsShownByTheServer) {
  World world;
  std::atomic<bool> is_seen = false;
  world.start("producer", 2, [&](Session& s) {
    Producer p(s, {.queue_depth = 3});
    p.put_to(3);
    while (!is_seen) std::this_thread::yield();
    p.out.close();
  });
  world.start("consumer", 1, [&](Session& s) {
    Consumer c(s);
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(c.begin());
      c.take();
    }
    ASSERT_TRUE(c.begin());
    const auto is_of_a_step = [](const wire::StepStatus& status) {
      return status.has_time() && status.steps() > 0 &&
             status.time() == time_of(status.steps() - 1);
    };
    wire::StreamStatus shown;
    try {
      shown = status_when(s, [&](const wire::StreamStatus& stream) {
        return is_of_a_step(stream.produced()) && stream.consumers_size() == 1 &&
               is_of_a_step(stream.consumers(0).consumed());
      });
    } catch (...) {
      is_seen = true;
      throw;
    }
    const auto attributes = proto::decode_attributes(proto::bytes_of(shown.attributes()));
    EXPECT_EQ(as_map(attributes)["time_unit"], AttributeValues(Texts{"min"}));
    EXPECT_EQ(as_map(proto::decode_attributes(proto::bytes_of(shown.fields(0).attributes()))),
              as_map(c.in.attributes(0)));
    is_seen = true;
    c.take();
    EXPECT_FALSE(c.begin());
    c.in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(Metadata, IsRefusedWhereItIsSet) {
  World world;
  world.start("producer", 1, [&](Session& s) {
    OutStream out(s, "s", {.wait_for_consumers = 0});
    Part part(s, 10, 1);
    out.declare(part.field());
    const auto set = [&](int of, const std::string& name, AttributeValues values) {
      return error_of([&] { out.set_attribute(of, name, values); });
    };
    EXPECT_EQ(set(1, "units", Texts{"K"}), "stream 's': expected a field from 0 to 0; found 1");
    EXPECT_EQ(set(of_step, "n", Integers{1}),
              "stream 's': expected begin_step before the attributes of a step");
    EXPECT_EQ(set(0, "\n", Integers{}),
              "stream 's', field 'f': name of an attribute: expected 1 to 255 bytes of printable "
              "UTF-8 text, not only blanks; found '?'");
    for (const AttributeValues& wrong :
         {AttributeValues(Integers{3600}), AttributeValues(Texts{"s", "min"}),
          AttributeValues(Texts{""})})
      EXPECT_EQ(set(of_stream, "time_unit", wrong)
                    .find("stream 's': attribute 'time_unit': "
                          "expected one text, such as \"s\""),
                0u);
    out.begin_step();
    EXPECT_EQ(
        error_of([&] { out.set_time(1); }),
        "stream 's': expected the attribute 'time_unit' of the stream, e.g. \"s\", before its "
        "first step; found a time without a unit: set it");
    EXPECT_EQ(set(of_step, "n", Reals(9000))
                  .find("stream 's', step 0: attribute 'n': expected at "
                        "most 65536 bytes"),
              0u);
    EXPECT_EQ(set(0, "units", Texts{"K"})
                  .find("stream 's': expected the attributes of the stream "
                        "and of its fields before the first begin_step"),
              0u);
    out.put(0, part.bytes());
    out.end_step();
    out.close();

    OutStream timed(s, "t", {.wait_for_consumers = 0});
    timed.declare(part.field());
    timed.set_attribute(of_stream, "time_unit", Texts{"s"});
    timed.begin_step();
    timed.put(0, part.bytes());
    EXPECT_EQ(error_of([&] { timed.end_step(); }),
              "stream 't', step 0: expected a time, as the stream has the attribute 'time_unit'; "
              "found none: set it before end_step");
    timed.set_time(20);
    timed.set_time(10);  // the last one counts
    timed.end_step();
    timed.begin_step();
    EXPECT_EQ(error_of([&] { timed.set_time(10); }),
              "stream 't', step 1: expected a time after 10, that of the previous step; found 10");
    timed.set_time(11);
    timed.put(0, part.bytes());
    timed.end_step();
    timed.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(Metadata, HasNoTimeWithoutAUnit) {
  World world;
  world.start("producer", 1, [&](Session& s) {
    OutStream out(s, "s", {});
    Part part(s, 60, 7);
    out.declare(part.field());
    out.begin_step();
    out.put(0, part.bytes());
    out.end_step();
    out.close();
  });
  world.start("consumer", 2, [&](Session& s) {
    Consumer c(s);
    ASSERT_TRUE(c.begin());
    EXPECT_EQ(
        error_of([&] { c.in.time(); }),
        "stream 's': expected steps with a time; found that its producer has set no attribute "
        "'time_unit'");
    EXPECT_TRUE(c.in.attributes(of_step).all().empty());
    EXPECT_TRUE(c.in.attributes(of_stream).all().empty());
    c.in.end_step();
    EXPECT_FALSE(c.begin());
    c.in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(Metadata, MustAgreeForTheStreamOnAllRanks) {
  World world;
  world.start("producer", 2, [&](Session& s) {
    OutStream out(s, "s", {});
    Part part(s, 60, 7);
    out.declare(part.field());
    out.set_attribute(0, "units", Texts{s.rank() == Rank{0} ? "K" : "degC"});
    out.begin_step();
  });
  const auto errors = world.join();
  ASSERT_EQ(errors.size(), 2u);
  for (const auto& [rank, error] : errors) {
    EXPECT_EQ(error.code(), Errc::mismatch);
    EXPECT_NE(std::string(error.what()).find("{\"units\": \"K\"}"), std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("{\"units\": \"degC\"}"), std::string::npos);
  }
}

TEST(Metadata, EndsTheStreamIfTimesDifferBetweenRanks) {
  World world;
  std::atomic<bool> has_failed = false;
  world.start("producer", 2, [&](Session& s) {
    Producer p(s, {});
    p.put_to(1);
    p.out.begin_step();
    p.out.set_time(200 + s.rank().value);
    Part part(s, 60, 7);
    p.out.put(0, part.bytes());
    p.out.end_step();
    while (!has_failed) std::this_thread::yield();
  });
  world.start("consumer", 1, [&](Session& s) {
    Consumer c(s);
    ASSERT_TRUE(c.begin());
    c.take();
    std::string text;
    try {
      c.begin();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Errc::mismatch);
      text = e.what();
    }
    EXPECT_NE(text.find("stream 's': step 1: expected every rank of the producer to set the same "
                        "time; found time 20"),
              std::string::npos)
        << text;
    has_failed = true;
  });
  world.join();
}

/// A difference between the attributes that producer ranks set, and the part of the last rank's error that shows it.
struct Unequal {
  const char* what;
  std::function<void(OutStream& out, Rank rank, RankCount ranks)> set;
  const char* shown;  // the values on rank 0 and on the rank that finds the difference
};
const Unequal unequals[] = {
    {"rank 0 alone",
     [](OutStream& out, Rank rank, RankCount) {
       if (rank == Rank{0}) out.set_attribute(of_step, "dt", Reals{0.5});
     },
     " including 'dt'; found 0.5 on rank 0 and none on rank "},
    {"the last rank alone",
     [](OutStream& out, Rank rank, RankCount ranks) {
       if (rank.value == ranks - 1) out.set_attribute(of_step, "dt", Reals{0.5});
     },
     " including 'dt'; found none on rank 0 and 0.5 on rank "},
    {"other values",
     [](OutStream& out, Rank rank, RankCount ranks) {
       out.set_attribute(of_step, "n", Integers{1});
       out.set_attribute(of_step, "dt", Reals{rank.value == ranks - 1 ? 0.25 : 0.5});
     },
     " including 'dt'; found 0.5 on rank 0 and 0.25 on rank "},
};
constexpr const char* unequal_text = "to set the same attributes of the step";

// With equal blocks, each of two consumer ranks gets elements of one producer rank only.
TEST(Metadata, EndsTheStreamOnBothSidesIfItDiffers) {
  const struct {
    RankCount producers, consumers;
    core::Index block;
  } shapes[] = {{3, 2, 7}, {2, 3, 7}, {2, 2, 30}};
  for (const auto& [producers, consumers, block] : shapes)
    for (const Unequal& unequal : unequals)
      for (const auto way : {World::Way::loopback, World::Way::local}) {
        SCOPED_TRACE(fmt::format("{} to {}, {}, {}", producers, consumers, unequal.what,
                                 way == World::Way::local ? "local" : "loopback"));
        World world(8192, way);
        std::atomic<int> left = 0, taken = 0;
        world.start("producer", producers, [&](Session& s) {
          OutStream out(s, "s", {});
          Part part(s, 60, block);
          out.declare(part.field());
          for (int step = 0; step < 3; ++step) {
            out.begin_step();
            while (step == 1 && taken < consumers) std::this_thread::yield();  // all are linked
            if (step == 1) unequal.set(out, s.rank(), s.size());
            out.put(0, part.bytes());
            out.end_step();
          }
          out.close();
        });
        world.start("consumer", consumers, [&](Session& s) {
          InStream in(s, "s", {});
          Part part(s, 60, block);
          in.declare(part.field());
          while (in.begin_step()) {
            in.get(0, part.bytes());
            in.end_step();
            ++taken;
          }
          ++left;
        });
        const auto errors = world.join();
        EXPECT_EQ(errors.size(), static_cast<std::size_t>(producers + consumers))
            << text_of(errors);
        EXPECT_EQ(left, 0);
        bool is_shown = false;
        for (const auto& [who, error] : errors) {
          const std::string text = error.what();
          EXPECT_NE(text.find("step 1: expected every rank of"), std::string::npos) << who << text;
          EXPECT_NE(text.find(unequal_text), std::string::npos) << who << ": " << text;
          const bool is_last = who == fmt::format("producer.{}", producers - 1);
          if (!is_last) continue;
          EXPECT_EQ(error.code(), Errc::mismatch);
          is_shown = text.find(unequal.shown + std::to_string(producers - 1)) != std::string::npos;
          EXPECT_TRUE(is_shown) << text;
        }
        EXPECT_TRUE(is_shown) << text_of(errors);
      }
}

// No step follows, and each rank of the consumer has only one source, so it cannot compare.
TEST(Metadata, IsComparedForTheLastStepBeforeTheEnd) {
  for (const int depth : {0, 2}) {
    SCOPED_TRACE(depth);
    World world;
    std::atomic<int> ended = 0;
    world.start("producer", 2, [&](Session& s) {
      OutStream out(s, "s", {.queue_depth = depth});
      Part part(s, 60, 30);
      out.declare(part.field());
      out.set_attribute(of_stream, "time_unit", Texts{"s"});
      out.begin_step();
      out.set_time(depth == 0 ? s.rank().value : 7);
      if (depth != 0 && s.rank() == Rank{1}) out.set_attribute(of_step, "last", Integers{1});
      out.put(0, part.bytes());
      out.end_step();
      out.close();
      ++ended;
    });
    world.start("consumer", 2, [&](Session& s) {
      InStream in(s, "s", {});
      Part part(s, 60, 30);
      in.declare(part.field());
      ASSERT_TRUE(in.begin_step());
      in.get(0, part.bytes());
      in.end_step();
      in.begin_step();
      ++ended;
    });
    const auto errors = world.join();
    EXPECT_EQ(ended, 0);
    EXPECT_EQ(errors.size(), 4u) << text_of(errors);
    for (const auto& [who, error] : errors)
      EXPECT_NE(
          std::string(error.what())
              .find(depth == 0
                        ? "stream 's', step 0: expected every rank of group 'producer' to set the "
                          "same time; found time 0 on rank 0 and time 1 on rank 1"
                        : "stream 's', step 0: expected every rank of group 'producer' to set the "
                          "same attributes of the step, including 'last'; found none on rank 0 and "
                          "1 on rank 1: set it on every rank, with the same values, or on none"),
          std::string::npos)
          << who << ": " << error.what();
  }
}

TEST(Metadata, MayBeSetInAnyOrderOnEveryRank) {
  World world;
  std::atomic<int> seen = 0;
  world.start("producer", 3, [&](Session& s) {
    OutStream out(s, "s", {});
    Part part(s, 60, 7);
    out.declare(part.field());
    for (int step = 0; step < 4; ++step) {
      out.begin_step();
      for (int i = 0; step % 2 == 1 && i < 3; ++i) {
        const auto number = (i + s.rank().value) % 3;
        out.set_attribute(of_step, fmt::format("n{}", number), Integers{number + step});
      }
      out.put(0, part.bytes());
      out.end_step();
    }
    out.close();
  });
  world.start("consumer", 2, [&](Session& s) {
    InStream in(s, "s", {});
    Part part(s, 60, 11);
    in.declare(part.field());
    while (in.begin_step()) {
      std::map<std::string, AttributeValues> expected;
      const auto step = static_cast<std::int64_t>(in.step());
      for (std::int64_t i = 0; step % 2 == 1 && i < 3; ++i)
        expected[fmt::format("n{}", i)] = Integers{i + step};
      EXPECT_EQ(as_map(in.attributes(of_step)), expected);
      in.get(0, part.bytes());
      in.end_step();
      ++seen;
    }
    in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
  EXPECT_EQ(seen, 8);
}

/// Returns how many messages two producer and five consumer ranks exchange, by tag.
std::map<transport::Tag, int> messages_of_a_step(const StepMetadata& metadata) {
  Network network;
  Coupling k(network, field("shape=4x4 grid=2x1"), field("shape=4x4 grid=1x5"));
  std::map<transport::Tag, int> sent;
  network.inject_faults([&](const Network::MessageView& m) {
    ++sent[m.tag];
    return Network::Fault{};
  });
  const std::vector<std::int64_t> data(8);
  for (auto& out : k.outs) {
    out->put(0, 0, std::as_bytes(std::span(data)), false);
    out->send(0, metadata);
  }
  for (auto& in : k.ins) {
    soon([&] { return in->poll_finish(); });
    EXPECT_EQ(in->time(), metadata.time);
    EXPECT_EQ(proto::encode(in->attributes()).size(), metadata.attributes.size());
    in->finish_step();
  }
  for (auto& out : k.outs) soon([&] { return out->poll_credit(1); });
  network.inject_faults({});
  return sent;
}

TEST(Metadata, CostsOneMessagePerRankForAttributes) {
  auto plain = messages_of_a_step({});
  EXPECT_EQ(messages_of_a_step({.time = 3}), plain);
  EXPECT_FALSE(plain.contains(tags::attributes));
  proto::Attributes attributes;
  attributes.set("n", Integers{1});
  const core::Bytes bytes = proto::encode(attributes);
  plain[tags::attributes] = 5;
  EXPECT_EQ(messages_of_a_step({.time = 3, .attributes = bytes}), plain);
}

/// Returns the error of a single sink whose sources send these attributes; "" if there is none.
std::string error_of_sources(const std::vector<std::vector<proto::Attribute>>& all) {
  Network network;
  const auto sources = fmt::format("shape=12x4 grid={}x1", all.size());
  Coupling k(network, field(sources), field("shape=12x4 grid=1x1"));
  const std::vector<std::int64_t> data(48 / all.size());
  for (std::size_t r = 0; r < all.size(); ++r) {
    proto::Attributes attributes;
    for (const auto& [name, values] : all[r]) attributes.set(name, values);
    const auto bytes = proto::encode(attributes);
    k.outs[r]->put(0, 0, std::as_bytes(std::span(data)), false);
    k.outs[r]->send(0, {.time = {}, .attributes = bytes});
  }
  try {
    for (int i = 0; i < 100; ++i) k.ins[0]->poll_complete();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Errc::mismatch);
    return e.what();
  }
  EXPECT_TRUE(k.ins[0]->poll_complete());
  return "";
}

TEST(Metadata, IsComparedByRanksWithSeveralSources) {
  const proto::Attribute a{"a", Integers{1}}, b{"b", Texts{"x"}}, c{"b", Texts{"y"}};
  const auto text = [](std::string_view found) {
    return fmt::format(
        "step 0: expected every rank of the producer to set the same attributes of the step; found "
        "{}: set them on every rank, or on none",
        found);
  };
  EXPECT_EQ(error_of_sources({{}, {}, {}}), "");
  EXPECT_EQ(error_of_sources({{a, b}, {b, a}, {a, b}}), "");
  EXPECT_EQ(error_of_sources({{a}, {}, {}}), text("{\"a\": 1} on rank 0 and none on rank 1"));
  EXPECT_EQ(error_of_sources({{a, b}, {a, c}, {a, c}}),
            text("{\"a\": 1, \"b\": \"x\"} on rank 0 and others on rank 1"));
  EXPECT_EQ(error_of_sources({{}, {a}, {a}}), text("none on rank 0 and some on rank 1"));
  EXPECT_EQ(error_of_sources({{a}, {a}, {}}), text("some on rank 1 and none on rank 2"));
  EXPECT_EQ(error_of_sources({{a}, {a}, {b}}), text("some on rank 1 and others on rank 2"));
}

TEST(Metadata, IsRefusedIfMalformed) {
  const auto error_when = [](const core::Bytes& bytes, std::optional<std::size_t> arrives_as) {
    Network network;
    Coupling k(network, field("shape=4x4 grid=1x1"), field("shape=4x4 grid=1x1"));
    network.inject_faults([&](const Network::MessageView& m) {
      return m.tag == tags::attributes ? Network::Fault{.arrives_as = arrives_as}
                                       : Network::Fault{};
    });
    const std::vector<std::int64_t> data(16);
    k.outs[0]->put(0, 0, std::as_bytes(std::span(data)), false);
    k.outs[0]->send(0, {.time = {}, .attributes = bytes});
    try {
      for (int i = 0; i < 100; ++i) k.ins[0]->poll_complete();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Errc::protocol);
      return std::string(e.what());
    }
    return std::string("no error");
  };
  proto::Attributes attributes;
  attributes.set("n", Integers{1});
  const core::Bytes good = proto::encode(attributes);
  EXPECT_EQ(error_when(good, 3), "attributes of step 0: expected 17 bytes, found 3");
  core::Bytes wrong = good;
  wrong[2] = std::byte{9};
  EXPECT_EQ(
      error_when(wrong, {}),
      "attributes: expected a type from 1 to 3, found 9; do both sides run the same Tremula?");
}

}  // namespace
}  // namespace tremula::client
