// SPDX-License-Identifier: Apache-2.0
// Makes the calls of OASIS3-MCT's toys in both directions, with all pairs of partitions and random
// decompositions, periods, lags and transformations. Compares 500 fields with the oracle.
#include "tests/coupling/oasis/toy.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

namespace tremula::oasis_toy {
namespace {

TEST(OasisToy, MovesEveryPairOfPartitionsInBothDirections) {
  const char* const runs = std::getenv("OASIS_TOY_RUNS");
  const std::uint64_t first = first_seed(),
                      end = first + (runs ? std::strtoull(runs, nullptr, 10) : 10);
  std::size_t cases = 0;
  for (std::uint64_t seed = first; seed < end && !HasFailure(); ++seed) {
    SCOPED_TRACE("TREMULA_TEST_SEED=" + std::to_string(seed));
    coupled::Stage stage;
    stage.start_server();
    const Scene scene = random_scene(seed);
    const auto folder = stage.directory() / "run";
    if (play(scene, stage, folder)) expect_right(scene, folder);
    cases += scene.cases.size();
  }
  std::cout << cases << " cases, TREMULA_TEST_SEED=" << first << " to " << end - 1 << '\n';
}

}  // namespace
}  // namespace tremula::oasis_toy
