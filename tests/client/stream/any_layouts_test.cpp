// SPDX-License-Identifier: Apache-2.0
// Tests 2,000 random pairs of layouts of all kinds, with 1 to 5 dimensions: half of them in streams
// between two groups, half in redistributions inside one group. Every element carries its number; its
// place follows from the definition.
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "client/redistribute/job_mover.hpp"
#include "tests/client/redistribute/redistribution_job.hpp"
#include "tests/client/world.hpp"
#include "tests/index_calc/lists/random_lists.hpp"
#include "tests/index_calc/skew/skewed_oracle.hpp"
#include "tests/rounds.hpp"

namespace tremula::client {
namespace {

using index_calc::Index, index_calc::Layout;
using index_calc::testing::Random, index_calc::testing::Side;

const int pairs = testing_only::rounds(1000);  // between two groups, and the same number inside one

/// Number of times that each kind was drawn; none may be missing.
using Kinds = std::map<std::string, int>;

/// Returns a layout given by a formula, on some of `ranks` ranks.
/// @param is_dense  whether it has no ghost cells or gaps; if so, it may be skewed
Layout computed_layout(Random& random, const std::vector<Index>& shape, RankCount ranks,
                       bool is_dense) {
  for (;;) {
    Layout layout = is_dense && random.one_in(2)
                        ? index_calc::testing::random_skewed(random, shape, ranks)
                        : random.layout(shape, 3, true);
    if (is_dense) layout = layout.dense();
    const RankCount cells = rank_count(layout);
    if (cells > ranks) continue;
    index_calc::Ranks some{.order = layout.ranks().order};
    if (cells < ranks)
      some.members = {{Rank{static_cast<std::int32_t>(random.in(0, ranks - cells))}, cells}};
    return layout.with(some);
  }
}

Side any_side(Random& random, const std::vector<Index>& shape, RankCount ranks, bool is_dense,
              Kinds& kinds) {
  switch (random.in(0, 5)) {
    case 0:
      ++kinds["points"];
      return index_calc::testing::random_points(random, shape, ranks);
    case 1:
      ++kinds["segments"];
      return index_calc::testing::random_segments(random, shape, ranks);
    case 2:
      ++kinds["boxes"];
      return index_calc::testing::random_boxes(random, shape, ranks);
    default:
      break;
  }
  const Layout layout = computed_layout(random, shape, ranks, is_dense);
  ++kinds[layout.skewed() ? "skewed" : copy_count(layout) > 1 ? "copies" : "dealt"];
  Side side{.has_copies = copy_count(layout) > 1};
  side.layout.assign(static_cast<std::size_t>(ranks), layout);
  side.numbers.resize(static_cast<std::size_t>(ranks));
  for (const auto& [rank, buffer] : index_calc::testing::numbers_of(layout))
    side.numbers[at(rank)] = buffer;
  return side;
}

struct Pair {
  Side source, sink;
  std::vector<bool> is_offered;  ///< shape: [element]
  double alpha = 1;

  Pair(Random& random, RankCount sources, RankCount sinks, Kinds& kinds) {
    const auto shape = index_calc::testing::random_shape(random);
    const bool is_dense = random.one_in(3);
    source = any_side(random, shape, sources, is_dense, kinds);
    sink = any_side(random, shape, sinks, is_dense, kinds);
    is_offered.resize(static_cast<std::size_t>(index_calc::testing::volume(shape)));
    for (const auto& numbers : source.numbers)
      for (const Index number : numbers)
        if (number >= 0) is_offered[static_cast<std::size_t>(number)] = true;
    if (random.one_in(2)) alpha = 3;
  }
  std::string text() const {
    return to_string(source.layout[0]) + " to " + to_string(sink.layout[0]);
  }
  std::vector<Index> from(Rank me) const { return source.numbers[at(me)]; }
  std::vector<double> before(Rank me) const {
    return std::vector<double>(sink.numbers[at(me)].size(), -7);
  }
  std::vector<double> after(Rank me) const {
    std::vector<double> result = before(me);
    const auto& numbers = sink.numbers[at(me)];
    for (std::size_t i = 0; i < result.size(); ++i)
      if (numbers[i] >= 0 && is_offered[static_cast<std::size_t>(numbers[i])])
        result[i] = alpha * static_cast<double>(numbers[i]);
    return result;
  }
};

void expect_all(const Kinds& kinds) {
  for (const char* kind : {"points", "segments", "boxes", "skewed", "copies", "dealt"})
    EXPECT_TRUE(kinds.contains(kind)) << kind;
}

TEST(AnyLayouts, ArriveWholeBetweenTwoGroups) {
  Random random;
  Kinds kinds;
  for (int i = 0; i < pairs; ++i) {
    const Pair pair(random, static_cast<RankCount>(random.in(1, 5)),
                    static_cast<RankCount>(random.in(1, 5)), kinds);
    SCOPED_TRACE(pair.text());
    World world(8192, i % 2 == 0 ? World::Way::loopback : World::Way::local);
    world.start("producer", pair.source.ranks(), [&](Session& s) {
      OutStream out(s, "s", {});
      out.declare({.name = "f",
                   .type = core::ElementType::i64,
                   .layout = pair.source.layout[at(s.rank())]});
      const auto numbers = pair.from(s.rank());
      out.begin_step();
      out.put(0, std::as_bytes(std::span(numbers)));
      out.end_step();
      out.close();
    });
    world.start("consumer", pair.sink.ranks(), [&](Session& s) {
      InStream in(s, "s");
      in.declare(
          {.name = "f", .type = core::ElementType::f64, .layout = pair.sink.layout[at(s.rank())]},
          {.alpha = pair.alpha});
      auto found = pair.before(s.rank());
      ASSERT_TRUE(in.begin_step());
      in.get(0, std::as_writable_bytes(std::span(found)));
      in.end_step();
      ASSERT_EQ(found, pair.after(s.rank())) << "rank " << s.rank().value;
      ASSERT_FALSE(in.begin_step());
      in.close();
    });
    ASSERT_EQ(text_of(world.join()), "");
  }
  expect_all(kinds);
}

TEST(AnyLayouts, ArriveWholeInsideOneGroup) {
  Random random;
  Kinds kinds;
  for (int i = 0; i < pairs; ++i) {
    testing::Job job(static_cast<RankCount>(random.in(1, 5)));
    const Pair pair(random, job.size(), job.size(), kinds);
    const bool are_near = i % 2 == 1;
    const auto failures = job.run([&](Rank me, transport::Endpoint& endpoint) {
      testing::NearRings rings = are_near ? job.rings(me) : testing::NearRings();
      const auto rank = at(me);
      const Update update{
          .from = pair.source.layout[rank],
          .to = pair.sink.layout[rank],
          .transformation = {
              .from = core::ElementType::i64, .to = core::ElementType::f64, .alpha = pair.alpha}};
      std::vector<std::vector<redistribute::ListedUpdate>> listed;
      if (redistribute::has_lists(update))
        listed.push_back(redistribute::match_updates({&update, 1}, 1, endpoint, me, job.size(),
                                                     core::Deadline::after(20)));
      redistribute::Redistribution redistribution({&update, 1}, me, job.size(), {},
                                                  rings.near_ranks(), rings.machines(), listed);
      const auto from = pair.from(me);
      auto found = pair.before(me);
      const ConstMemoryView source = std::as_bytes(std::span(from));
      const MemoryView sink = std::as_writable_bytes(std::span(found));
      testing::run(redistribution, endpoint, rings, {&source, 1}, {&sink, 1},
                   core::Deadline::after(20));
      if (found != pair.after(me)) throw std::runtime_error("wrong elements");
    });
    for (std::size_t r = 0; r < failures.size(); ++r)
      ASSERT_EQ(failures[r], "") << "rank " << r << " of pair " << i << "\n" << pair.text();
  }
  expect_all(kinds);
}

/// Two copies on each side, in a different order on the two hosts: each consumer rank gets
/// everything from its own host, and each copy sends its half. This also holds after the producer
/// has redeclared its layout.
TEST(AnyLayouts, PreferCopiesOnTheirOwnHost) {
  const Layout copied = Layout::parse("shape=1000 mesh=2");
  World world(8192, World::Way::local);
  world.host_of = {{"producer.0", "east"},
                   {"producer.1", "west"},
                   {"consumer.0", "west"},
                   {"consumer.1", "east"}};
  const auto put = [](OutStream& out) {
    const std::vector<std::int64_t> numbers(1000, 5);
    out.begin_step();
    out.put(0, std::as_bytes(std::span(numbers)));
    out.end_step();
  };
  world.start("producer", 2, [&](Session& s) {
    OutStream out(s, "s", {});
    out.declare({.name = "f", .type = core::ElementType::i64, .layout = copied});
    put(out);
    const std::pair<int, Layout> again[] = {{0, Layout::parse("shape=1000 mesh=2 members=1/0")}};
    out.redeclare(again);
    put(out);
    EXPECT_EQ(out.statistics().traffic.bytes, 2 * 8000u);
    out.close();
  });
  world.start("consumer", 2, [&](Session& s) {
    InStream in(s, "s");
    in.declare({.name = "f", .type = core::ElementType::i64, .layout = copied});
    for (int step = 0; step < 2; ++step) {
      ASSERT_TRUE(in.begin_step());
      std::vector<std::int64_t> found(1000);
      in.get(0, std::as_writable_bytes(std::span(found)));
      in.end_step();
      ASSERT_EQ(found, std::vector<std::int64_t>(1000, 5));
      for (const PeerStatistics& peer : in.peer_statistics())
        EXPECT_EQ(peer.traffic.bytes > 0, peer.rank.value == 1 - s.rank().value)
            << "rank " << s.rank().value << " from " << peer.rank.value;
    }
    ASSERT_FALSE(in.begin_step());
    in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

}  // namespace
}  // namespace tremula::client
