// SPDX-License-Identifier: Apache-2.0
// Checks plans of layouts with copies against the definition: every copy of a sink gets every
// element once, and no copy of a source sends more than its share.
#include <gtest/gtest.h>

#include <iterator>
#include <limits>
#include <map>

#include "index_calc/pack/pack.hpp"
#include "index_calc/plan/plan.hpp"
#include "index_calc/plan/runs.hpp"
#include "index_calc/plan/shares.hpp"
#include "index_calc/plan/volumes.hpp"
#include "tests/index_calc/cells.hpp"
#include "tests/index_calc/oracle.hpp"
#include "tests/index_calc/random.hpp"
#include "tests/rounds.hpp"

namespace tremula::index_calc {
namespace {

using testing::Random, testing::World, testing::buffer_of;

constexpr std::size_t width = 8;

/// Counts the runs of a package by visiting its elements one by one.
Index count_runs(const Package& package, const LocalPart& part, Order order) {
  std::vector<Index> offsets{part.first};
  for (std::size_t k = 0; k < package.dimensions; ++k) {
    const std::size_t d =
        kth_fastest(order, package.dimensions, package.dimensions - 1 - k);  // slowest first
    std::vector<Index> finer;
    for (const Index offset : offsets)
      package.along[d].for_each([&](const Segment& s) {
        for (Index i = 0; i < s.length; ++i)
          finer.push_back(offset + (s.begin.value + i) * part.stride[d]);
      });
    offsets = finer;
  }
  Index count = 0;
  for (std::size_t i = 0; i < offsets.size(); ++i)
    count += i == 0 || offsets[i] != offsets[i - 1] + 1 ? 1 : 0;
  return count;
}

TEST(Copies, GiveEveryCopyOfTheSinkEveryElementOnce) {
  Random random;
  for (int round = 0; round < testing_only::rounds(2000); ++round) {
    const auto shape = testing::random_shape(random, static_cast<std::size_t>(random.in(1, 4)));
    const Index most = shape.size() == 1 ? 6 : 3;
    const Layout from = random.layout(shape, most, true), to = random.layout(shape, most, true);
    SCOPED_TRACE(to_string(from) + "  to  " + to_string(to));
    ASSERT_EQ(Layout::parse(to_string(from)), from);
    const World sources(from), sinks(to);
    const Order order = random.one_in(2) ? Order::row : Order::column;
    std::map<Rank, std::vector<std::byte>> sent, got;
    for (const auto& [rank, numbers] : sources.buffers) sent[rank] = buffer_of(numbers, width);
    for (const auto& [rank, numbers] : sinks.buffers)
      got[rank] = buffer_of(std::vector<Index>(numbers.size(), -1), width);
    std::size_t packages = 0;
    for (const auto& [me, numbers] : sources.buffers) {
      const Plan plan = make_plan(from, to, me, Role::source);
      const LocalPart part = local_part(from, me);
      Index elements = 0;
      plan.for_each_package([&](const Package& package) {
        ++packages;
        elements += package.elements;
        const Plan other = make_plan(to, from, package.peer, Role::sink);
        const auto swapped = other.package_for(me);
        ASSERT_TRUE(swapped);
        ASSERT_EQ(swapped->elements, package.elements);
        ASSERT_EQ(runs(package, part, order).count, count_runs(package, part, order));
        const auto bytes = static_cast<std::size_t>(package.elements) * width;
        std::vector<std::byte> wire(bytes), piece;
        pack(package, part, order, width, sent[me], wire);
        // Two stretches must give the same bytes.
        const Index cut = random.in(0, package.elements);
        for (const Stretch s : {Stretch{0, cut}, Stretch{cut, package.elements - cut}}) {
          piece.resize(static_cast<std::size_t>(s.count) * width);
          pack(package, part, order, width, s, sent[me], piece);
          ASSERT_TRUE(std::equal(piece.begin(), piece.end(),
                                 wire.begin() + s.first * static_cast<Index>(width)));
        }
        const LocalPart theirs = local_part(to, package.peer);
        if (random.one_in(2))
          unpack(*swapped, theirs, order, width, wire, got[package.peer]);
        else
          copy_from_peer(*swapped, theirs, part, width, sent[me], got[package.peer]);
      });
      ASSERT_EQ(plan.elements(), elements);
    }
    for (const auto& [rank, numbers] : sinks.buffers) {
      ASSERT_EQ(got[rank], buffer_of(numbers, width)) << "rank " << rank.value;
      const Plan plan = make_plan(to, from, rank, Role::sink);
      ASSERT_EQ(plan.elements(), local_part(to, rank).elements);
      packages -= plan.size();
    }
    ASSERT_EQ(packages, 0U);
  }
}

TEST(Copies, HaveTheVolumesOfTheirPlans) {
  Random random;
  for (int round = 0; round < testing_only::rounds(500); ++round) {
    const auto shape = testing::random_shape(random, static_cast<std::size_t>(random.in(1, 3)));
    const Layout mine = random.layout(shape, 4, true), theirs = random.layout(shape, 4, true);
    SCOPED_TRACE(to_string(mine) + "  to  " + to_string(theirs));
    for (const Role role : {Role::source, Role::sink}) {
      const Volumes volumes(mine, theirs, role);
      const auto here = ranks_of(mine), there = ranks_of(theirs);
      for (std::size_t p = 0; p < here.size(); ++p) {
        std::map<Rank, Index> expected, found;
        make_plan(mine, theirs, here[p], role).for_each_package([&](const Package& package) {
          expected[package.peer] = package.elements;
        });
        for (const Volume& v : volumes.row(static_cast<RankCount>(p)))
          found[there[static_cast<std::size_t>(v.peer)]] = v.elements;
        ASSERT_EQ(found, expected);
      }
    }
  }
}

TEST(Copies, SendNoMoreThanTheirShares) {
  struct Case {
    const char *from, *to;
    std::vector<Index> elements;  ///< sent by each rank of the source
  };
  const Case cases[] = {
      {"shape=12 mesh=3", "shape=12 grid=1", {4, 4, 4}},
      {"shape=12 mesh=2x2 axes0=1", "shape=12 grid=3", {3, 3, 3, 3}},
      {"shape=12 mesh=2x2 axes0=0", "shape=12 mesh=3", {9, 9, 9, 9}},
      {"shape=6x8 mesh=2x2 axes0=1", "shape=6x8 mesh=2x2 axes0=1", {24, 24, 24, 24}},
      {"shape=10x10 mesh=4", "shape=10x10 mesh=2x5 axes1=1", {50, 50, 50, 50}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(std::string(c.from) + "  to  " + c.to);
    const Layout from = Layout::parse(c.from), to = Layout::parse(c.to);
    std::vector<Index> sent;
    for (const Rank r : all_ranks(rank_count(from)))
      sent.push_back(make_plan(from, to, r, Role::source).elements());
    EXPECT_EQ(sent, c.elements);
  }
}

TEST(Copies, AreSharedEvenlyAndNearOnesFirst) {
  Random random;
  const auto number = [](RankCount copy) { return static_cast<std::size_t>(copy); };
  for (int round = 0; round < testing_only::rounds(5000); ++round) {
    CopiedPair pair{.lines = random.in(1, 20),
                    .from = static_cast<RankCount>(random.in(1, 6)),
                    .to = static_cast<RankCount>(random.in(1, 6)),
                    .turn = static_cast<std::uint64_t>(random.in(0, 100))};
    auto &from_places = pair.from_places, &to_places = pair.to_places;
    const bool has_hosts = random.one_in(2), is_one_job = random.one_in(2);
    for (RankCount k = 0; k < pair.from; ++k) {
      if (has_hosts) from_places.hosts.push_back(static_cast<std::uint32_t>(random.in(0, 2)));
      if (is_one_job) from_places.ranks.push_back(Rank{k});
    }
    for (RankCount j = 0; j < pair.to; ++j) {
      if (has_hosts) to_places.hosts.push_back(static_cast<std::uint32_t>(random.in(0, 2)));
      if (is_one_job) to_places.ranks.push_back(Rank{2 * j});
    }
    const auto shares = deal_copies(pair);
    std::vector<Index> sent(number(pair.from));
    std::vector<std::vector<int>> got(number(pair.to),
                                      std::vector<int>(static_cast<std::size_t>(pair.lines)));
    Index near = 0;
    RankCount others = 0;  // copies of the sink that are not copies of the source
    for (RankCount j = 0; j < pair.to; ++j) others += is_one_job && 2 * j < pair.from ? 0 : 1;
    const auto has_itself = [&](RankCount j) { return is_one_job && 2 * j < pair.from; };
    for (const CopyShare& s : shares) {
      ASSERT_GT(s.count, 0);
      for (Index i = s.first; i < s.first + s.count; ++i)
        ++got[number(s.to)][static_cast<std::size_t>(i)];
      if (has_itself(s.to)) {
        ASSERT_EQ(s, (CopyShare{2 * s.to, s.to, 0, pair.lines}));
        continue;
      }
      sent[number(s.from)] += s.count;
      if (has_hosts && from_places.hosts[number(s.from)] == to_places.hosts[number(s.to)])
        near += s.count;
    }
    for (const auto& copy : got)
      for (const int times : copy) ASSERT_EQ(times, 1);
    for (const Index n : sent) {
      ASSERT_GE(n, pair.lines * others / pair.from);
      ASSERT_LE(n, (pair.lines * others + pair.from - 1) / pair.from);
    }
    for (RankCount k = 0; k < pair.from; ++k) {
      std::vector<CopyShare> expected;
      std::ranges::copy_if(shares, std::back_inserter(expected),
                           [k](const CopyShare& s) { return s.from == k; });
      ASSERT_EQ(shares_of_source(pair, k), expected);
    }
    for (RankCount j = 0; j < pair.to; ++j) {
      std::vector<CopyShare> expected;
      std::ranges::copy_if(shares, std::back_inserter(expected),
                           [j](const CopyShare& s) { return s.to == j; });
      ASSERT_EQ(shares_of_sink(pair, j), expected);
    }
    if (!has_hosts) continue;
    // On each host, the smaller of what its copies may send and what they need.
    Index most_near = 0;
    for (std::uint32_t host = 0; host < 3; ++host) {
      Index may_send = 0, needed = 0;
      for (std::size_t k = 0; k < sent.size(); ++k)
        if (from_places.hosts[k] == host) may_send += sent[k];
      for (RankCount j = 0; j < pair.to; ++j)
        if (to_places.hosts[number(j)] == host && !has_itself(j)) needed += pair.lines;
      most_near += std::min(may_send, needed);
    }
    ASSERT_EQ(near, most_near);
  }
}

TEST(Copies, AreCountedUpTo63Bits) {
  const Layout from = Layout::parse("shape=4611686018427387904 grid=1"),
               to = Layout::parse("shape=4611686018427387904 mesh=4");
  const Plan plan = make_plan(from, to, Rank{0}, Role::source);
  EXPECT_EQ(plan.size(), 4U);
  EXPECT_EQ(plan[3].elements, 4611686018427387904);
  EXPECT_EQ(plan.elements(), std::numeric_limits<Index>::max());
}

TEST(Copies, ShareTheRemainderAtRandom) {
  // Each pair of cells shares one line of 4 elements, which must not always be sent by the same one
  // of the 4 copies.
  const Layout from = Layout::parse("shape=64x4 mesh=4x4 axes1=1"),
               to = Layout::parse("shape=64x4 grid=64x4");
  for (const Rank r : all_ranks(rank_count(from))) {
    const Plan plan = make_plan(from, to, r, Role::source);
    EXPECT_GT(plan.elements(), 4) << r.value;
    EXPECT_LT(plan.elements(), 32) << r.value;  // its share is 16
  }
}

TEST(Copies, AreNotSentToARankThatHasThem) {
  // Rows in two copies become columns in two copies: every rank has half of what it needs.
  const Layout rows = Layout::parse("shape=8x8 mesh=2x2 axes0=0"),
               columns = Layout::parse("shape=8x8 mesh=2x2 axes1=1");
  const std::vector<std::uint32_t> machines(4);
  const Hosts hosts{.of_mine = machines, .of_theirs = machines, .is_one_job = true};
  for (const Rank r : all_ranks(4)) {
    const Plan plan = make_plan(rows, columns, r, Role::source, Algorithm::aspen, hosts);
    const auto own = plan.package_for(r);
    ASSERT_TRUE(own);
    EXPECT_EQ(own->elements, 16);
    EXPECT_EQ(plan.elements(), 32);
  }
  // Every rank has the whole array and needs a part of it: nothing is sent.
  const Layout all = Layout::parse("shape=8x8 mesh=4"), each = Layout::parse("shape=8x8 grid=4x1");
  for (const Rank r : all_ranks(4)) {
    const Plan plan = make_plan(all, each, r, Role::source, Algorithm::aspen, hosts);
    ASSERT_EQ(plan.size(), 1U);
    EXPECT_EQ(plan[0].peer, r);
  }
}

TEST(Copies, StayInPlaceOnOneMesh) {
  const Layout layout = Layout::parse("shape=64x64 mesh=3x2x2 axes0=1 axes1=2");
  for (const Rank r : all_ranks(rank_count(layout))) {
    const Plan plan = make_plan(layout, layout, r, Role::source);
    ASSERT_EQ(plan.size(), 1U);
    EXPECT_EQ(plan[0].peer, r);
  }
}

}  // namespace
}  // namespace tremula::index_calc
