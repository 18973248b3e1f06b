// SPDX-License-Identifier: Apache-2.0
// The sequence of calls of a toy of OASIS3-MCT, in both directions: all pairs of partitions, random
// decompositions, periods, lags and transformations, 500 fields against the oracle.
#include "tests/coupling/oasis/toy.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

namespace tremula::oasis_toy {
namespace {

template <class T>
T any(Random& random, std::initializer_list<T> choices) {
  return choices.begin()[std::uniform_int_distribution<std::size_t>(0, choices.size() - 1)(random)];
}

/// All 25 pairs of partitions in each direction.
Scene random_run(std::uint64_t seed) {
  Random random(seed);
  Scene scene;
  scene.components[0] = {"ocean", any(random, {1, 2, 3, 4}), 900, false};
  scene.components[1] = {"atmos", any(random, {1, 2, 3, 4}), 1800, true};
  scene.runtime = 14400;
  scene.is_yaml = seed % 2 == 1;
  for (const bool is_forth : {true, false})
    for (const Kind source : all_kinds)
      for (const Kind target : all_kinds) {
        const Component &from = scene.components[is_forth ? 0 : 1],
                        &to = scene.components[is_forth ? 1 : 0];
        Case c;
        c.slot = static_cast<int>(scene.cases.size());
        c.nx = any(random, {1, 2, 5, 8, 13, 24});
        c.ny = any(random, {1, 3, 7, 16});
        c.is_forth = is_forth;
        c.source = deal(random, source, c.nx, c.ny, from.ranks);
        c.target = deal(random, target, c.nx, c.ny, to.ranks);
        c.period = any(random, {1800, 3600, 7200});
        c.lag = any(random, {0, 0, from.step, c.period});
        c.transformation =
            any<const char*>(random, {"INSTANT", "ACCUMUL", "AVERAGE", "T_MIN", "T_MAX"});
        c.bundle = any(random, {1, 1, 1, 3});
        c.source_bytes = any(random, {4, 8});
        c.target_bytes = any(random, {4, 8});
        c.source_dimensions = any(random, {1, 2, 3});
        c.target_dimensions = any(random, {1, 2, 3});
        scene.cases.push_back(c);
      }
  return scene;
}

std::uint64_t first_seed() {
  const char* const given = std::getenv("TREMULA_TEST_SEED");
  return given ? std::strtoull(given, nullptr, 10) : 1;
}

TEST(OasisToy, MovesEveryPairOfPartitionsInBothDirections) {
  const char* const runs = std::getenv("OASIS_TOY_RUNS");
  const std::uint64_t first = first_seed(),
                      end = first + (runs ? std::strtoull(runs, nullptr, 10) : 10);
  std::size_t cases = 0;
  for (std::uint64_t seed = first; seed < end && !HasFailure(); ++seed) {
    SCOPED_TRACE("TREMULA_TEST_SEED=" + std::to_string(seed));
    coupled::Stage stage;
    stage.start_server();
    const Scene scene = random_run(seed);
    const auto folder = stage.directory() / "run";
    prepare(scene, folder);
    if (play(scene, stage, folder)) expect_right(scene, folder);
    cases += scene.cases.size();
  }
  std::cout << cases << " cases, TREMULA_TEST_SEED=" << first << " to " << end - 1 << '\n';
}

}  // namespace
}  // namespace tremula::oasis_toy
