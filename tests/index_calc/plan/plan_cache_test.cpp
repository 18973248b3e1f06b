// SPDX-License-Identifier: Apache-2.0
#include "index_calc/plan/plan_cache.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

#include "core/error.hpp"

namespace tremula::index_calc {

namespace {

const Layout rows = Layout::parse("shape=40x30 grid=4x1");
const Layout columns = Layout::parse("shape=40x30 grid=1x3");

TEST(PlanCache, MakesAPlanOnce) {
  PlanCache cache;
  const auto plan = cache.get(rows, columns, Rank{1});
  EXPECT_EQ(cache.hits(), 0U);
  EXPECT_EQ(plan->size(), 3U);
  EXPECT_EQ(plan->fingerprint(), make_plan(rows, columns, Rank{1}).fingerprint());
  EXPECT_EQ(cache.get(rows, columns, Rank{1}), plan);
  EXPECT_EQ(cache.hits(), 1U);
  EXPECT_EQ(cache.size(), 1U);
}

TEST(PlanCache, DistinguishesDifferentRequests) {
  PlanCache cache;
  const auto plan = cache.get(rows, columns, Rank{1});
  EXPECT_NE(cache.get(rows, columns, Rank{2}), plan);
  EXPECT_NE(cache.get(columns, rows, Rank{1}), plan);
  EXPECT_NE(cache.get(rows, columns, Rank{1}, {.algorithm = Algorithm::falls}), plan);
  EXPECT_NE(cache.get(rows, columns, Rank{1}, {.validate = true}), plan);
  const Layout turned = rows.with(Ranks{.order = Order::column});
  EXPECT_NE(cache.get(turned, columns, Rank{1}), plan);
  EXPECT_EQ(cache.size(), 6U);
  EXPECT_EQ(cache.hits(), 0U);
}

TEST(PlanCache, IgnoresHowARankStoresItsPart) {
  PlanCache cache;
  const Layout ghosts = Layout::parse("shape=40x30 grid=4x1 ghost=1x2 leading=50");
  EXPECT_EQ(cache.get(rows, columns, Rank{1}), cache.get(ghosts, columns, Rank{1}));
}

TEST(PlanCache, KeepsNothingThatFailed) {
  PlanCache cache;
  EXPECT_THROW(cache.get(rows, Layout::parse("shape=40x31 grid=1x3"), Rank{0}), core::Error);
  EXPECT_EQ(cache.size(), 0U);
}

TEST(PlanCache, ForgetsALargePlanThatIsNotInUse) {
  PlanCache cache;
  const auto used = cache.get(rows, columns, Rank{0});
  const Layout mine = Layout::parse("shape=1000000000000 grid=2 block=500009");
  const Layout theirs = Layout::parse("shape=1000000000000 grid=3 block=500029");
  auto large = cache.get(mine, theirs, Rank{0});
  ASSERT_GT(large->memory_bytes(), PlanCache::most_idle_bytes);
  cache.forget_idle();
  EXPECT_EQ(cache.size(), 2U);
  large.reset();
  cache.forget_idle();
  EXPECT_EQ(cache.size(), 1U);
  EXPECT_EQ(cache.get(rows, columns, Rank{0}), used);
}

TEST(PlanCache, ForgetsTheLongestUnusedFirst) {
  PlanCache cache;
  const Layout cyclic = Layout::parse("shape=1000000000 grid=1000 block=97");
  const Layout other = Layout::parse("shape=1000000000 grid=999 block=31");
  RankCount r = 0;
  while (cache.size() == static_cast<std::size_t>(r)) {
    cache.get(cyclic, other, Rank{r++});
    cache.get(cyclic, other, Rank{0});  // stays in use
    ASSERT_LT(r, 100) << "nothing is ever forgotten";
  }
  const auto hits = cache.hits();
  cache.get(cyclic, other, Rank{0});
  EXPECT_EQ(cache.hits(), hits + 1);
  cache.get(cyclic, other, Rank{1});  // dropped first
  EXPECT_EQ(cache.hits(), hits + 1);
}

/// Returns how many plans the cache looks at while n plans are made and stay in use.
std::uint64_t looks_of(int n) {
  PlanCache cache;
  std::vector<std::shared_ptr<const Plan>> used;
  for (int i = 0; i < n; ++i) {
    const std::string shape = fmt::format("shape={}x{}", 8 + i % 100, 8 + i / 100);
    used.push_back(
        cache.get(Layout::parse(shape + " grid=8x1"), Layout::parse(shape + " grid=1x8"), Rank{0}));
  }
  EXPECT_EQ(cache.size(), static_cast<std::size_t>(n));
  EXPECT_EQ(cache.hits(), 0U);
  return cache.looks();
}

TEST(PlanCache, LooksAtFewPlansForEachThatIsMade) {
  EXPECT_EQ(looks_of(100), 0U);
  const auto looks = looks_of(10'000);
  EXPECT_GT(looks, 0U);
  EXPECT_LE(looks, 20'000U);
}

}  // namespace
}  // namespace tremula::index_calc
