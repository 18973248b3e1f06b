// SPDX-License-Identifier: Apache-2.0
// Tests consumers that let relabel() permute the labels of their layouts before they allocate. Uses a
// real server; every rank is a thread that names its own host. Compares the number of bytes sent between
// hosts with the minimum over all permutations, computed from the definition.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>

#include "tests/client/redistribution_case.hpp"
#include "tests/client/world.hpp"
#include "tests/rounds.hpp"

namespace tremula::client {
namespace {

using testing::Case, testing::Layout, testing::Random;
using Hosts = std::vector<std::string>;

Hosts random_hosts(Random& random, RankCount ranks, Index hosts) {
  Hosts result;
  for (RankCount r = 0; r < ranks; ++r)
    result.push_back(fmt::format("host {}", random.in(1, hosts)));
  return result;
}

/// Returns how many bytes are sent between hosts if process[label] takes each label.
Index crossing(const std::vector<std::vector<Index>>& volumes, const Hosts& out, const Hosts& in,
               const std::vector<Rank>& process) {
  Index bytes = 0;
  for (std::size_t p = 0; p < out.size(); ++p)
    for (std::size_t label = 0; label < in.size(); ++label)
      if (out[p] != in[at(process[label])]) bytes += volumes[p][label];
  return bytes;
}

std::vector<Rank> unchanged(std::size_t ranks) {
  std::vector<Rank> process(ranks);
  std::iota(process.begin(), process.end(), Rank{0});
  return process;
}

Index least_crossing(const std::vector<std::vector<Index>>& volumes, const Hosts& out,
                     const Hosts& in) {
  std::vector<Rank> process = unchanged(in.size());
  Index least = crossing(volumes, out, in, process);
  while (std::ranges::next_permutation(process).found)
    least = std::min(least, crossing(volumes, out, in, process));
  return least;
}

void declare(InStream& in, const std::string& name, const Update& u) {
  in.declare({.name = name, .type = u.transformation.to, .layout = u.to}, testing::field_update(u));
}

struct Outcome {
  std::vector<Rank> labels;  ///< label of each rank
  Index crossed = 0;         ///< bytes between hosts, in one step
};

/// Runs a stream of two steps and checks every element on all ranks, whichever part each of them takes.
Outcome play(const Case& wanted, const Hosts& out_hosts, const Hosts& in_hosts, bool relabels,
             const RelabelConfig& config = {}) {
  World world;
  Outcome outcome{.labels = std::vector<Rank>(in_hosts.size())};
  std::atomic<Index> crossed = 0;
  for (std::size_t r = 0; r < out_hosts.size(); ++r)
    world.host_of[fmt::format("producer.{}", r)] = out_hosts[r];
  for (std::size_t r = 0; r < in_hosts.size(); ++r)
    world.host_of[fmt::format("consumer.{}", r)] = in_hosts[r];
  const std::size_t fields = wanted.updates.size();
  world.start("producer", static_cast<RankCount>(out_hosts.size()), [&](Session& s) {
    OutStream out(s, "s", {});
    for (std::size_t f = 0; f < fields; ++f)
      out.declare({.name = fmt::format("f{}", f),
                   .type = wanted.updates[f].transformation.from,
                   .layout = wanted.updates[f].from});
    const auto parts = wanted.from(s.rank());
    for (int step = 0; step < 2; ++step) {
      out.begin_step();
      for (std::size_t f = 0; f < fields; ++f) out.put(static_cast<int>(f), parts[f]);
      out.end_step();
    }
    out.close();
  });
  world.start("consumer", static_cast<RankCount>(in_hosts.size()), [&](Session& s) {
    InStream in(s, "s");
    for (std::size_t f = fields; f-- > 0;)  // in another order
      declare(in, fmt::format("f{}", f), wanted.updates[f]);
    const Rank label = relabels ? in.relabel(config) : s.rank();
    outcome.labels[at(s.rank())] = label;
    const auto before = wanted.to_before(label), after = wanted.to_after(label);
    while (in.begin_step()) {
      auto parts = before;
      for (std::size_t f = 0; f < fields; ++f) in.get(static_cast<int>(fields - 1 - f), parts[f]);
      EXPECT_EQ(parts, after) << "rank " << s.rank().value << ", label " << label.value;
      in.end_step();
    }
    for (const auto& peer : in.peer_statistics())
      if (out_hosts[at(peer.rank)] != in_hosts[at(s.rank())])
        crossed += static_cast<Index>(peer.traffic.bytes);
    in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
  outcome.crossed = crossed / 2;
  return outcome;
}

TEST(InRelabeling, MovesTheFewestBytesBetweenHosts) {
  Random random;
  int won = 0;
  for (int c = 0; c < testing_only::rounds(40); ++c) {
    const auto m = static_cast<RankCount>(random.in(1, 5)),
               n = static_cast<RankCount>(random.in(1, 5));
    const Case wanted(random, m, n);
    const auto hosts = random.in(1, 4);
    const Hosts out = random_hosts(random, m, hosts), in = random_hosts(random, n, hosts);
    SCOPED_TRACE(fmt::format("case {}: {} to {}\n{}", c, fmt::join(out, ", "), fmt::join(in, ", "),
                             wanted.text()));
    const auto volumes = wanted.volumes(true);
    const Outcome plain = play(wanted, out, in, false), relabeled = play(wanted, out, in, true);
    ASSERT_EQ(plain.crossed, crossing(volumes, out, in, unchanged(in.size())));
    ASSERT_EQ(relabeled.crossed, least_crossing(volumes, out, in));
    std::vector<Rank> labels = relabeled.labels;
    if (plain.crossed == relabeled.crossed)
      ASSERT_EQ(labels, unchanged(in.size()));
    else
      ++won;
    std::ranges::sort(labels);
    ASSERT_EQ(labels, unchanged(in.size()));
    const Outcome greedy = play(wanted, out, in, true, {index_calc::Method::greedy});
    ASSERT_LE(relabeled.crossed, greedy.crossed);
    ASSERT_LE(greedy.crossed, plain.crossed);
  }
  if (!testing_only::has_few_rounds) {
    EXPECT_GT(won, 0);
  }
}

/// Rows in the order of the ranks for the producer, and in the reverse order for the consumer.
constexpr const char* rows = "shape=8x3 grid=4x1";
constexpr const char* reversed = "shape=8x3 grid=4x1 splits0=0/2/4/6/8 owners0=3/2/1/0";

proto::Field field(const std::string& layout, const std::string& name = "f") {
  return {.name = name, .type = core::ElementType::f64, .layout = Layout::parse(layout)};
}

/// Puts the four ranks of each side on four hosts.
void give_hosts(World& world) {
  for (const char* group : {"producer", "consumer"})
    for (int r = 0; r < 4; ++r)
      world.host_of[fmt::format("{}.{}", group, r)] = fmt::format("h{}", r);
}
void produce(Session& s, int steps = 1, const std::string& layout = rows) {
  OutStream out(s, "s", {});
  out.declare(field(layout));
  const std::vector<double> part(
      static_cast<std::size_t>(local_part(Layout::parse(layout), s.rank()).elements));
  for (int i = 0; i < steps; ++i) {
    out.begin_step();
    out.put(0, std::as_bytes(std::span(part)));
    out.end_step();
  }
  out.close();
}

TEST(InRelabeling, WaitsForTheProducerAndReportsTheMembers) {
  World world;
  give_hosts(world);
  std::atomic<bool> is_asked = false;
  world.start("consumer", 4, [&](Session& s) {
    InStream in(s, "s");
    in.declare(field(reversed));
    is_asked = true;
    EXPECT_EQ(in.relabel().value, 3 - s.rank().value);
    ASSERT_TRUE(in.begin_step());
    if (s.rank() == Rank{0}) {
      wire::ToServer ask;
      ask.mutable_status();
      const auto status = s.control().call(ask, s.deadline()).status();
      EXPECT_EQ(status.streams(0).consumers(0).fields(0).layout(),
                std::string(reversed) + " members=3/2/1/0");
    }
    in.end_step();
    EXPECT_FALSE(in.begin_step());
    in.close();
  });
  while (!is_asked) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  world.start("producer", 4, [](Session& s) { produce(s); });
  EXPECT_EQ(text_of(world.join()), "");
}

std::string error_of(const std::function<void()>& body, Errc code) {
  try {
    body();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.what();
  }
  return "none";
}
void expect_has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(InRelabeling, IsBetweenTheLastFieldAndTheFirstStep) {
  World world;
  give_hosts(world);
  world.start("producer", 4, [](Session& s) { produce(s, 2); });
  world.start("consumer", 4, [](Session& s) {
    InStream in(s, "s");
    const auto relabel = [&] { in.relabel(); };
    expect_has(error_of(relabel, Errc::invalid_argument), "expected at least one field");
    in.declare(field("shape=8x3 grid=1x4"));
    in.relabel();
    expect_has(error_of(relabel, Errc::invalid_argument),
               "stream 's': expected relabel once; found it a second time");
    expect_has(error_of([&] { in.declare(field(rows, "g")); }, Errc::invalid_argument),
               "declared before relabel; found 'g'");
    ASSERT_TRUE(in.begin_step());
    expect_has(error_of(relabel, Errc::invalid_argument),
               "stream 's': expected relabel before the first begin_step of any stream");
    in.end_step();
    const std::pair<int, Layout> again{0, Layout::parse(rows)};
    expect_has(error_of([&] { in.redeclare(std::span(&again, 1)); }, Errc::unsupported),
               "not relabeled and not served to others; found relabel: leave it out");
    ASSERT_TRUE(in.begin_step());
    in.end_step();
    in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(InRelabeling, WaitsNoLongerThanItsTimeout) {
  World world;
  world.start("lonely", 2, [&](Session& s) {
    OutStream other(s, "other", {.queue_depth = 1, .wait_for_consumers = 0});
    other.declare(field("shape=4 grid=2"));
    other.begin_step();
    InStream in(s, "s");
    in.declare(field("shape=4 grid=2"));
    expect_has(error_of([&] { in.relabel(); }, Errc::timed_out),
               "stream 's': expected a producer to offer it within 5 s; found only 'other'; "
               "start the producer, check the name, or wait longer (timeout)");
  });
  world.join();
}

TEST(InRelabeling, NeedsTheWholeProducer) {
  World world;
  const core::Log log("half", core::LogLevel::off);
  wire::Hello hello;
  hello.set_protocol(proto::protocol_version);
  hello.set_group("half");
  hello.set_size(2);
  hello.set_job("j");
  hello.set_host("h");
  hello.set_version("1");
  Control rank_0({world.config(1).server, "test"}, hello, core::Deadline::after(5), log);
  wire::ToServer announce;
  announce.mutable_announce()->set_stream("s");
  announce.mutable_announce()->set_incarnation(1);
  *announce.mutable_announce()->add_fields() = proto::encode(field("shape=4 grid=2"));
  announce.mutable_announce()->add_offers()->set_transport("loopback");
  announce.mutable_announce()->mutable_offers(0)->set_offer("loopback");
  rank_0.call(announce, core::Deadline::after(5));
  world.start("consumer", 2, [](Session& s) {
    InStream in(s, "s");
    in.declare(field("shape=4 grid=2"));
    expect_has(error_of([&] { in.relabel(); }, Errc::timed_out),
               "found group 'half', with only 1 of 2 ranks connected");
  });
  EXPECT_EQ(text_of(world.join()), "");
}

TEST(InRelabeling, FailsOnAllRanksAndKeepsTheLabels) {
  World world;
  give_hosts(world);
  world.start("producer", 4, [](Session& s) { produce(s); });
  world.start("consumer", 4, [](Session& s) {
    InStream unknown(s, "s");
    unknown.declare(field(rows, "g"));
    expect_has(error_of([&] { unknown.relabel(); }, Errc::mismatch),
               "stream 's': consumer 'consumer' wants field 'g', producer 'producer' offers 'f'");
    InStream in(s, "s");  // label 0 would go to rank 2 or 3, which lack room for its rows
    in.declare(field("shape=8x3 grid=4x1 splits0=0/1/2/4/8 owners0=3/2/1/0 store=column leading=" +
                     std::string(s.rank().value < 2 ? "4" : "3")));
    const auto text = error_of([&] { in.relabel(); }, Errc::invalid_argument);
    expect_has(text, "of group 'consumer': stream 's', field 'f'");
    expect_has(text, "leading");
    EXPECT_TRUE(in.begin_step());
    in.end_step();
    in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

}  // namespace
}  // namespace tremula::client
