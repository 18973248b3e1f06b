// SPDX-License-Identifier: Apache-2.0
// FALLS makes the same lists as ASPEN at a different cost, and refuses plans that are too large for it.
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "core/error.hpp"
#include "index_calc/layout/layout.hpp"
#include "index_calc/overlap/overlap.hpp"
#include "tests/index_calc/random.hpp"

namespace tremula::index_calc {

namespace {

using testing::Random;

constexpr Index most = std::numeric_limits<Index>::max();

std::string text(const Distribution& d) { return to_string(Layout(Grid({d}))); }

/// Returns the families of a list, with adjacent families joined.
std::vector<Family> joined(const SegmentList& list, Index turns) {
  SegmentList some = list;
  some.repeat = std::min(list.repeat, turns);
  std::vector<Family> result;
  some.for_each_family([&](const Family& f) {
    Family* const last = result.empty() ? nullptr : &result.back();
    const bool follows =
        last != nullptr && f.first.length == last->first.length &&
        f.first.begin.value == last->first.begin.value + last->count * list.family_stride &&
        f.first.peer_begin.value ==
            last->first.peer_begin.value + last->count * list.family_peer_stride;
    if (follows)
      last->count += f.count;
    else
      result.push_back(f);
  });
  return result;
}

/// Returns the first property in which two overlaps differ; empty if there is none.
std::string difference(const Overlaps& a, const Overlaps& b) {
  if (a.size() != b.size()) return "number of peers";
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::string of = " of peer " + std::to_string(a.peers()[i].value);
    const SegmentList here = a[i], there = b[i];
    if (a.peers()[i] != b.peers()[i]) return "number" + of;
    if (a.elements(i) != b.elements(i)) return "elements" + of;
    if (here.repeat != there.repeat || here.stride != there.stride ||
        here.peer_stride != there.peer_stride)
      return "period" + of;
    const auto x = joined(here, 1), y = joined(there, 1);
    if (x.size() != y.size()) return "families" + of;
    for (std::size_t k = 0; k < x.size(); ++k)
      if (x[k].first != y[k].first || x[k].count != y[k].count)
        return "family " + std::to_string(k) + of;
  }
  return {};
}

/// Estimates how many blocks ASPEN looks at.
double aspen_looks(const BlockCyclic& mine, const BlockCyclic& theirs) {
  const auto round = [](const BlockCyclic& d) {
    if (d.grid == 1 || d.extent <= d.block - d.cut) return static_cast<double>(d.extent);
    return static_cast<double>(d.block) * static_cast<double>(d.grid);
  };
  const double a = round(mine), b = round(theirs);
  double span = static_cast<double>(mine.extent);
  if (a < 1e15 && b < 1e15)
    span = std::min(
        span, a / static_cast<double>(std::gcd(static_cast<Index>(a), static_cast<Index>(b))) * b);
  return span / std::max(a, static_cast<double>(theirs.block));
}

void expect_same(const Distribution& mine, const Distribution& theirs, GridCoord me) {
  SCOPED_TRACE(text(mine) + "  to  " + text(theirs));
  const Overlaps aspen = overlaps(mine, me, theirs);
  const Overlaps falls = overlaps(mine, me, theirs, Algorithm::falls);
  ASSERT_EQ(difference(falls, aspen), "");
  // One look at each block for each peer, and one for each family found.
  ASSERT_LE(falls.steps(),
            static_cast<Index>(falls.families()) + grid(theirs) * (aspen.steps() + 2));
}

TEST(Falls, PlansTheSameAsAspen) {
  Random random;
  int compared = 0;
  for (int round = 0; round < 20'000; ++round) {
    const Index extent = Index{1} << random.in(0, 61);
    const Index n = extent - (random.one_in(2) ? random.in(0, extent / 3) : 0);
    const auto dealt = [&] {
      BlockCyclic d{.extent = n, .block = random.in(1, 40), .grid = random.in(1, 9)};
      if (random.one_in(3)) d.grid = 1;
      if (random.one_in(3)) d.block = random.in(1, n);
      if (random.one_in(3)) d.block = plain_block(n, d.grid);
      d.source = random.in(0, d.grid - 1);
      if (random.one_in(2)) d.cut = random.in(0, d.block - 1);
      return d;
    };
    const BlockCyclic a = dealt(), b = dealt();
    if (aspen_looks(a, b) > 1e4) continue;
    ++compared;
    Distribution mine = a, theirs = b;
    if (random.one_in(8)) mine = random.splits(n, 4);
    if (random.one_in(8)) theirs = random.splits(n, 4);
    expect_same(mine, theirs, {random.in(0, grid(mine) - 1)});
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(compared, 5'000);
}

TEST(Falls, PlansWholeDimensionsAndCutsOfAnyExtent) {
  const BlockCyclic whole{.extent = most, .block = 1, .grid = 1},
      cyclic{.extent = most, .block = 1, .grid = 7, .source = 3},
      cut{.extent = most, .block = 1000, .grid = 7, .source = 3, .cut = 999},
      halves{.extent = most, .block = most / 2 + 1, .grid = 2, .cut = 5};
  for (const BlockCyclic& mine : {whole, cyclic, cut, halves})
    for (const BlockCyclic& theirs : {whole, cyclic, cut, halves})
      for (Index me = 0; me < mine.grid; ++me) expect_same(mine, theirs, {me});
}

TEST(Falls, RefusesPlansThatOnlyAspenCanMake) {
  // Mine has 20,000 blocks, and each of 80,000 peers has a block.
  constexpr Index extent = 80'000'000;
  const BlockCyclic mine{.extent = extent, .block = 1000, .grid = 4},
      theirs{.extent = extent, .block = 1009, .grid = 1 << 20};
  EXPECT_EQ(overlaps(mine, {0}, theirs).steps(), 20'000);
  for (const Algorithm algorithm : {Algorithm::falls, Algorithm::classical}) try {
      overlaps(mine, {0}, theirs, algorithm);
      FAIL() << "expected an error";
    } catch (const core::Error& e) {
      EXPECT_EQ(e.code(), core::Errc::unsupported);
      EXPECT_NE(std::string(e.what()).find("choose the algorithm aspen"), std::string::npos)
          << e.what();
    }
}

}  // namespace
}  // namespace tremula::index_calc
