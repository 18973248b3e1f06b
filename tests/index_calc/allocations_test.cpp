// SPDX-License-Identifier: Apache-2.0
// Calls that succeed build no error text: they allocate nothing, or only what their result needs.
#include <gtest/gtest.h>

#include "index_calc/plan/plan_cache.hpp"
#include "index_calc/view/view.hpp"
#include "tests/transport/count_allocations.hpp"

namespace tremula::index_calc {

namespace {

long allocations_of(const auto& call) {
  const long before = testing_only::allocations();
  call();
  return testing_only::allocations() - before;
}

TEST(Allocations, AreNotMadeByChecksOfALayout) {
  const Layout layout = Layout::parse("shape=120x70 grid=3x2 block=7x5 ghost=1x2 leading=90");
  const Layout bands = Layout::parse("shape=120x70 grid=3x2 splits0=0/10/60/120 block1=4");
  const Selection part{.origin = {3, 4}, .extents = {50, 60}};
  const std::vector<std::size_t> axes{1, 0};
  EXPECT_EQ(allocations_of([&] { validate_for_group(layout, 6); }), 0);
  EXPECT_EQ(allocations_of([&] { validate_pair(layout, bands); }), 0);
  EXPECT_EQ(allocations_of([&] { bytes_of(layout, 8); }), 0);
  EXPECT_EQ(allocations_of([&] { local_part(layout, Rank{4}); }), 0);
  EXPECT_EQ(allocations_of([&] { selected_part(layout, part, Rank{4}); }), 0);
  EXPECT_EQ(allocations_of([&] { permuted(local_part(layout, Rank{4}), axes); }), 0);
}

TEST(Allocations, AreOnlyForFingerprintsIfAPlanIsKnown) {
  PlanCache cache;
  const Layout mine = Layout::parse("shape=40x30 grid=4x1 members=0/2/4/6 ghost=1x1");
  const Layout theirs = Layout::parse("shape=40x30 grid=1x3 splits1=0/5/20/30");
  const auto plan = cache.get(mine, theirs, Rank{2});
  const long of_fingerprints = allocations_of([&] { fingerprint(mine), fingerprint(theirs); });
  std::shared_ptr<const Plan> again;
  EXPECT_EQ(allocations_of([&] { again = cache.get(mine, theirs, Rank{2}); }), of_fingerprints);
  EXPECT_EQ(again, plan);
  if (testing_only::counts_allocations()) {
    EXPECT_EQ(of_fingerprints, 2);
  }
}

}  // namespace
}  // namespace tremula::index_calc
