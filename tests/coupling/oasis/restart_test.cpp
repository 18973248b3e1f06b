// SPDX-License-Identifier: Apache-2.0
// A run, and a second run that continues from its restart files on a different number of ranks,
// give the same bits as one long run, for lagged fields and for transformations that the end of a
// run interrupts.
#include <gtest/gtest.h>

#include "tests/coupling/oasis/toy.hpp"

namespace tremula::oasis_toy {
namespace {

namespace fs = std::filesystem;

/// Distributes the same fields over a different number of ranks; each point is on one rank.
void deal_again(Random& random, Scene& scene) {
  for (Component& component : scene.components) component.ranks = component.ranks % 3 + 1;
  for (Case& c : scene.cases) {
    const auto again = [&](const Decomposition& d, int ranks) {
      const Kind kind = d.kind == Kind::points ? Kind::apple : d.kind;
      return deal(random, kind, c.nx, c.ny, ranks);
    };
    c.source = again(c.source, scene.components[c.is_forth ? 0 : 1].ranks);
    c.target = again(c.target, scene.components[c.is_forth ? 1 : 0].ranks);
  }
}

/// Removes masks, which would hide a point from one of the two runs.
void unmask(Random& random, Scene& scene) {
  for (Case& c : scene.cases)
    for (Decomposition* d : {&c.source, &c.target})
      if (d->kind == Kind::points)
        *d = deal(random, Kind::orange, c.nx, c.ny, static_cast<int>(d->points.size()));
}

TEST(OasisRestart, EqualsOneLongRun) {
  const std::uint64_t seed = first_seed();
  SCOPED_TRACE("TREMULA_TEST_SEED=" + std::to_string(seed));
  Random random(seed);
  Scene whole = random_scene(seed);
  unmask(random, whole);
  Scene first = whole, second = whole;
  first.runtime = second.runtime = whole.runtime / 2;
  second.first_date = first.runtime;
  deal_again(random, second);

  coupled::Stage stage;
  stage.start_server();
  const fs::path long_run = stage.directory() / "long", short_runs = stage.directory() / "short";
  if (!play(whole, stage, long_run) || !play(first, stage, short_runs)) return;
  expect_right(first, short_runs);
  if (!play(second, stage, short_runs)) return;
  const auto expected = got_fields(whole, long_run), found = got_fields(second, short_runs);
  EXPECT_EQ(found.size(), expected.size() / 2);
  for (const auto& [where, values] : found)
    ASSERT_EQ(values, expected.at(where))
        << whole.cases[static_cast<std::size_t>(where.first)].text() << " at date " << where.second;
}

}  // namespace
}  // namespace tremula::oasis_toy
