// SPDX-License-Identifier: Apache-2.0
#include "index_calc/plan/plan.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <set>

#include "core/error.hpp"
#include "tests/index_calc/oracle.hpp"
#include "tests/index_calc/random.hpp"

namespace tremula::index_calc {
namespace {

using testing::Random, testing::World;

std::vector<Segment> unrolled(const SegmentList& list) {
  std::vector<Segment> result;
  list.for_each([&](const Segment& s) { result.push_back(s); });
  return result;
}

/// Returns two random layouts with the same random shape of 1 to 3 dimensions.
std::pair<Layout, Layout> random_pair(Random& random) {
  std::vector<Index> shape;
  for (Index d = random.in(1, 3); d > 0; --d)
    shape.push_back(random.one_in(20) ? 0 : random.in(1, 12));
  const Index most = shape.size() == 1 ? 6 : 3;
  return {random.layout(shape, most), random.layout(shape, most)};
}

TEST(Plan, CoversEveryLocalElementOnce) {
  Random random;
  for (int round = 0; round < 400; ++round) {
    const auto [mine, theirs] = random_pair(random);
    SCOPED_TRACE(to_string(mine) + "  to  " + to_string(theirs));
    for (const Rank me : all_ranks(30)) {
      const Plan plan = make_plan(mine, theirs, me);
      const LocalPart part = local_part(mine, me);
      ASSERT_EQ(plan.elements(), part.elements);
      std::vector<int> packages(static_cast<std::size_t>(part.elements), 0);
      plan.for_each_package([&](const Package& package) {
        std::vector<Index> cells{0};  // local elements in dense row-major order
        for (std::size_t d = 0; d < package.dimensions; ++d) {
          std::vector<Index> finer;
          for (const Index cell : cells)
            package.along[d].for_each([&](const Segment& s) {
              for (Index k = 0; k < s.length; ++k)
                finer.push_back(cell * part.extent[d] + s.begin.value + k);
            });
          cells = finer;
        }
        ASSERT_EQ(static_cast<Index>(cells.size()), package.elements);
        ASSERT_GE(package.elements, 1);
        for (const Index cell : cells) ++packages[static_cast<std::size_t>(cell)];
      });
      for (const int n : packages) ASSERT_EQ(n, 1);
    }
  }
}

TEST(Plan, BothSidesDescribeTheSamePackage) {
  Random random;
  for (int round = 0; round < 400; ++round) {
    const auto [mine, theirs] = random_pair(random);
    SCOPED_TRACE(to_string(mine) + "  to  " + to_string(theirs));
    for (const Rank me : all_ranks(30)) {
      const Plan plan = make_plan(mine, theirs, me);
      std::set<Rank> peers;
      plan.for_each_package([&](const Package& package) {
        ASSERT_TRUE(peers.insert(package.peer).second);
        const Plan other = make_plan(theirs, mine, package.peer);
        ASSERT_EQ(other.fingerprint(), plan.fingerprint());
        ASSERT_TRUE(other.package_for(me));
        const Package swapped = *other.package_for(me);
        ASSERT_EQ(swapped.peer, me);
        ASSERT_EQ(swapped.elements, package.elements);
        for (std::size_t d = 0; d < package.dimensions; ++d) {
          const auto here = unrolled(package.along[d]), there = unrolled(swapped.along[d]);
          ASSERT_EQ(here.size(), there.size());
          for (std::size_t k = 0; k < here.size(); ++k)
            ASSERT_TRUE(here[k].begin == there[k].peer_begin &&
                        here[k].peer_begin == there[k].begin && here[k].length == there[k].length);
        }
      });
      ASSERT_EQ(peers.size(), plan.size());
      for (const Rank peer : all_ranks(30))
        ASSERT_EQ(plan.package_for(peer).has_value(), peers.contains(peer));
    }
  }
}

/// Bounds as a user may write them: neighbours may be equal.
struct WrittenSplits {
  std::vector<Index> bounds{0}, owner;
  Index grid = 1;
  bool is_in_order;  ///< no owners are written: interval i belongs to coordinate i
  WrittenSplits(Random& random, Index extent) : is_in_order(random.one_in(2)) {
    const Index intervals = random.in(1, 6);
    grid = is_in_order ? random.in(intervals, 7) : random.in(1, 7);
    for (Index i = 0; i < intervals; ++i) {
      const Index last = bounds.back();
      const Index end = random.one_in(2) ? last : random.in(last, extent);
      bounds.push_back(i + 1 == intervals ? extent : end);
      owner.push_back(is_in_order ? i : random.in(0, grid - 1));
    }
  }
  std::string text() const {
    std::string ends, names;
    for (const Index bound : bounds) ends += (ends.empty() ? "" : "/") + std::to_string(bound);
    for (const Index name : owner) names += (names.empty() ? "" : "/") + std::to_string(name);
    return "shape=" + std::to_string(bounds.back()) + " grid=" + std::to_string(grid) +
           " splits0=" + ends + (is_in_order ? "" : " owners0=" + names);
  }
};

TEST(Plan, MatchesTheDefinitionForRanksWithoutAPart) {
  Random random;
  for (int round = 0; round < 2000; ++round) {
    const Index extent = random.one_in(20) ? 0 : random.in(1, 30);
    const WrittenSplits from(random, extent), to(random, extent);
    SCOPED_TRACE(from.text() + "  to  " + to.text());
    const Layout mine = Layout::parse(from.text()), theirs = Layout::parse(to.text());
    // Element by element, from the bounds as they are written.
    std::map<std::pair<Index, Index>, Index> shared;
    std::map<Index, std::vector<Index>> numbers;  // of the elements of each coordinate of `from`
    const auto owner_of = [](const WrittenSplits& s, Index i) {
      std::size_t k = 0;
      while (s.bounds[k + 1] <= i) ++k;
      return s.owner[k];
    };
    for (Index i = 0; i < extent; ++i) {
      ++shared[{owner_of(from, i), owner_of(to, i)}];
      numbers[owner_of(from, i)].push_back(i);
    }
    for (Index me = 0; me < from.grid; ++me) {
      const auto count = static_cast<Index>(numbers[me].size());
      ASSERT_EQ(local_part(mine, Rank{static_cast<RankCount>(me)}).elements, count);
      for (Index i = 0; i < count; ++i)
        ASSERT_EQ(to_global(mine.grid()->dims[0], {me}, {i}).value,
                  numbers[me][static_cast<std::size_t>(i)]);
      const Plan plan = make_validated_plan(mine, theirs, Rank{static_cast<RankCount>(me)});
      for (Index peer = 0; peer < to.grid; ++peer) {
        const auto package = plan.package_for(Rank{static_cast<RankCount>(peer)});
        const auto expected = shared.find({me, peer});
        ASSERT_EQ(package ? package->elements : 0, expected == shared.end() ? 0 : expected->second);
      }
    }
  }
}

TEST(Plan, HasThePackagesOfTheDefinition) {
  Random random;
  for (int round = 0; round < 200; ++round) {
    const auto [mine, theirs] = random_pair(random);
    SCOPED_TRACE(to_string(mine) + "  to  " + to_string(theirs));
    const World here(mine), there(theirs);
    for (const auto& [me, buffer] : here.buffers) {
      const Plan plan = make_plan(mine, theirs, me);
      for (const auto& [peer, peer_buffer] : there.buffers) {
        const auto common = here.common(there, me, peer, Order::row);
        const auto package = plan.package_for(peer);
        ASSERT_EQ(package ? package->elements : 0, static_cast<Index>(common.size()));
      }
    }
  }
}

TEST(Plan, IsOrderedByGridCoordinatesOfPeers) {
  const Plan plan =
      make_plan(Layout::parse("shape=12x12 grid=1x1"),
                Layout::parse("shape=12x12 grid=2x3 ranks=column members=10-15"), Rank{0});
  std::vector<Rank> peers;
  plan.for_each_package([&](const Package& package) { peers.push_back(package.peer); });
  EXPECT_EQ(peers, (std::vector<Rank>{{10}, {12}, {14}, {11}, {13}, {15}}));
}

TEST(Plan, VisitsPeersWithoutSearchingEveryRange) {
  // Searching all ranges of members for each package would take 2^39 steps.
  constexpr RankCount ranks = 1 << 20;
  Ranks members;
  for (RankCount r = 0; r < ranks; ++r) members.members.push_back({Rank{2 * (ranks - 1 - r)}, 1});
  const Layout theirs = Layout::parse("shape=1048576 grid=1048576").with(members);
  const Plan plan = make_plan(Layout::parse("shape=1048576 grid=1"), theirs, Rank{0});
  RankCount next = 0;
  plan.for_each_package([&](const Package& package) {
    ASSERT_EQ(package.peer, Rank{2 * (ranks - 1 - next)});
    ASSERT_EQ(package.along[0].first().begin.value, next++);
  });
  EXPECT_EQ(next, ranks);
}

TEST(Plan, IsEmptyForAnIdleRank) {
  const Layout mine = Layout::parse("shape=8 grid=2 members=1/3"),
               theirs = Layout::parse("shape=8 grid=4");
  for (const Rank idle : {Rank{0}, Rank{2}, Rank{7}}) {
    EXPECT_EQ(make_plan(mine, theirs, idle).size(), 0U);
    EXPECT_EQ(make_validated_plan(mine, theirs, idle).elements(), 0);
  }
  EXPECT_EQ(make_plan(mine, theirs, Rank{1}).fingerprint(),
            make_plan(mine, theirs, Rank{0}).fingerprint());
}

TEST(Plan, RefusesDifferentShapesNamingBoth) {
  const Layout mine = Layout::parse("shape=8x4 grid=2x1"),
               theirs = Layout::parse("shape=8x5 grid=4x1");
  try {
    make_plan(mine, theirs, Rank{0});
    FAIL() << "expected an error";
  } catch (const core::Error& e) {
    EXPECT_EQ(e.code(), core::Errc::mismatch);
    const std::string text = e.what();
    EXPECT_NE(text.find(to_string(mine)), std::string::npos) << text;
    EXPECT_NE(text.find(to_string(theirs)), std::string::npos) << text;
  }
}

TEST(Plan, ValidatedPlanEqualsPlan) {
  Random random;
  for (int round = 0; round < 500; ++round) {
    const auto [mine, theirs] = random_pair(random);
    for (const Rank me : all_ranks(5)) {
      const Plan plan = make_plan(mine, theirs, me),
                 validated = make_validated_plan(mine, theirs, me);
      ASSERT_EQ(plan.size(), validated.size());
      ASSERT_EQ(plan.elements(), validated.elements());
    }
  }
}

/// Checks overlaps that are too large for an oracle: the segments of the first and the last turn
/// begin and end where the distributions say, in ascending order, and the lengths add up to the
/// number of elements that the coordinate owns. Together, these conditions show that no element is
/// missing or repeated.
void expect_exact(const Distribution& mine, GridCoord me, const Distribution& theirs) {
  const Overlaps found = overlaps(mine, me, theirs);
  Index elements = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const SegmentList list = found[i];
    const auto check = [&](const Segment& s) {
      for (const Index k : {Index{0}, s.length - 1}) {
        const GlobalIndex g = to_global(mine, me, {s.begin.value + k});
        ASSERT_EQ(owner(theirs, g), found.peers()[i]);
        ASSERT_EQ(to_local(theirs, g).value, s.peer_begin.value + k);
      }
    };
    Index end = 0;
    for (const Family& f : list.period) {
      Segment last = f.first;
      last.begin.value += (f.count - 1) * list.family_stride;
      last.peer_begin.value += (f.count - 1) * list.family_peer_stride;
      ASSERT_GE(f.first.begin.value, end);
      end = last.begin.value + last.length;
      check(f.first);
      check(last);
      if (list.repeat > 0) {
        last.begin.value += (list.repeat - 1) * list.stride;
        last.peer_begin.value += (list.repeat - 1) * list.peer_stride;
        check(last);
      }
    }
    check(list.last());
    if (i > 0) {
      ASSERT_LT(found.peers()[i - 1], found.peers()[i]);
    }
    ASSERT_EQ(list.elements(), found.elements(i));
    elements += list.elements();
  }
  ASSERT_EQ(elements, local_extent(mine, me));
}

std::string text(const Distribution& d) { return to_string(Layout(Grid({d}))); }

TEST(Plan, IsSmallForAMillionRanks) {
  const Layout mine = Layout::parse("shape=1000000000000x1000000 grid=1000x1000 block=64x48");
  const Layout theirs = Layout::parse("shape=1000000000000x1000000 grid=999x1001 block=100x36");
  const Plan plan = make_plan(mine, theirs, Rank{499'500}),
             other = make_plan(theirs, mine, Rank{17});
  EXPECT_LT(plan.memory_bytes(), std::size_t{1} << 20);
  EXPECT_LT(other.memory_bytes(), std::size_t{1} << 20);
  EXPECT_EQ(plan.elements(), local_part(mine, Rank{499'500}).elements);
  for (std::size_t d = 0; d < 2; ++d) {
    expect_exact(mine.grid()->dims[d], {499}, theirs.grid()->dims[d]);
    expect_exact(theirs.grid()->dims[d], {17}, mine.grid()->dims[d]);
  }
}

/// Checks the overlaps, and returns how many bytes of memory they take.
std::size_t exact_bytes(const Distribution& mine, GridCoord me, const Distribution& theirs) {
  expect_exact(mine, me, theirs);
  return overlaps(mine, me, theirs).memory_bytes();
}
constexpr Index most = std::numeric_limits<Index>::max();

TEST(Plan, SizeDependsOnNeitherExtentNorRemoteGrid) {
  constexpr Index n = 1'000'000'000'000;
  const BlockCyclic plain{.extent = n, .block = n / 7 + 1, .grid = 7, .source = 3};
  const BlockCyclic cyclic{.extent = n, .block = 1, .grid = 5, .source = 2};
  EXPECT_LT(exact_bytes(plain, {0}, cyclic), 2000U);
  EXPECT_LT(exact_bytes(cyclic, {0}, plain), 3000U);
  const Splits bands{
      .bounds = {0, 10, n / 3, n / 2, n}, .owner = {999'999, 0, 999'999, 5}, .grid = 1'000'000};
  EXPECT_LT(exact_bytes(cyclic, {1}, bands), 2000U);
  EXPECT_LT(exact_bytes(bands, {999'999}, cyclic), 3000U);
  // One block of mine meets two of a billion coordinates.
  const BlockCyclic far{.extent = n, .block = 1000, .grid = 1'000'000'000, .source = 999'999'999};
  EXPECT_LT(exact_bytes(BlockCyclic{.extent = n, .block = 1500, .grid = 1'000'000'000}, {77}, far),
            1000U);
}

// Neither the round block * grid nor the period fits into 63 bits.
const BlockCyclic huge{.extent = most, .block = (Index{1} << 61) + 1, .grid = 5, .source = 1};

TEST(Plan, IsSmallIfARoundIsBeyond63Bits) {
  const BlockCyclic other{.extent = most, .block = Index{1} << 61, .grid = 4, .source = 0};
  for (Index c = 0; c < 4; ++c) {
    EXPECT_LT(exact_bytes(huge, {c}, other), 1000U);
    EXPECT_LT(exact_bytes(other, {c}, huge), 1000U);
  }
}

TEST(Plan, IsSmallIfTheLastBlockEndsBeyond63Bits) {
  const BlockCyclic halves{.extent = most, .block = (Index{1} << 62) + 1, .grid = 3, .source = 2};
  for (Index c = 0; c < 2; ++c) {
    EXPECT_LT(exact_bytes(BlockCyclic{.extent = most, .block = 1, .grid = 2}, {c}, halves), 1000U);
    EXPECT_LT(exact_bytes(halves, {c}, BlockCyclic{.extent = most, .block = 1, .grid = 2}), 1000U);
  }
  EXPECT_LT(exact_bytes(
                BlockCyclic{
                    .extent = most - 3, .block = 542'551'296'285'575'047, .grid = 12, .source = 3},
                {3}, BlockCyclic{.extent = most - 3, .block = most - 5, .grid = 22}),
            1000U);
  const Splits thirds{
      .bounds = {0, most / 2 - 3, most - 5, most - 3}, .owner = {0, 1, 0}, .grid = 2};
  EXPECT_LT(
      exact_bytes(BlockCyclic{.extent = most - 3, .block = most - 3, .grid = 43, .source = 28},
                  {28}, thirds),
      1000U);
}

TEST(Plan, IsSmallIfTheNextBlockBeginsBeyond63Bits) {
  const BlockCyclic rare{.extent = most, .block = (Index{1} << 61) + 1, .grid = 2, .source = 0};
  const BlockCyclic rarer{.extent = most, .block = (Index{1} << 62) + 7, .grid = 2, .source = 1};
  for (Index c = 0; c < 2; ++c) {
    EXPECT_LT(exact_bytes(rare, {c}, rarer), 1000U);
    EXPECT_LT(exact_bytes(rarer, {c}, rare), 1000U);
  }
  EXPECT_LT(exact_bytes(BlockCyclic{.extent = most}, {0},
                        BlockCyclic{.extent = most, .block = most, .grid = 3}),
            1000U);
  EXPECT_LT(exact_bytes(BlockCyclic{.extent = most, .block = 3, .grid = 2}, {1},
                        BlockCyclic{.extent = most}),
            1000U);
}

TEST(Plan, IsSmallIfOnlyTheSecondRoundExceeds63Bits) {
  const BlockCyclic half{
      .extent = most, .block = Index{1} << 62, .grid = 2, .cut = (Index{1} << 62) - 1};
  for (Index c = 0; c < 2; ++c) EXPECT_LT(exact_bytes(half, {c}, huge), 1000U);
  EXPECT_LT(exact_bytes(huge, {1}, half), 1000U);
}

TEST(Plan, IsExactAtTheLargestExtent) {
  Random random;
  for (int round = 0; round < 3000; ++round) {
    const Index extent = most - random.in(0, 4);
    const auto distribution = [&] {
      const bool is_small = random.one_in(2);
      BlockCyclic d{.extent = extent,
                    .block = is_small ? random.in(1, 6) : random.in(most / 9, most),
                    .grid = random.in(1, 5)};
      if (random.one_in(3)) d.block = most / random.in(2, 4) + random.in(0, 1);
      d.source = random.in(0, d.grid - 1);
      if (!random.one_in(3)) d.cut = random.one_in(2) ? d.block - 1 : random.in(0, d.block - 1);
      return d;
    };
    const BlockCyclic mine = distribution(), theirs = distribution();
    SCOPED_TRACE(text(mine) + "  to  " + text(theirs));
    expect_exact(mine, {random.in(0, mine.grid - 1)}, theirs);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace tremula::index_calc
