// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdlib>

namespace tremula::testing_only {

#ifdef TREMULA_FEW_ROUNDS
inline constexpr bool has_few_rounds = true;
#else
inline constexpr bool has_few_rounds = false;
#endif

/// Returns how many rounds a random test draws: `all`, or a fifth of them in ./dev test, and under a
/// sanitizer or an emulator, which slow each round by a factor of ten. A replayed seed draws all
/// rounds, so what a round draws must not depend on the number of rounds.
inline int rounds(int all) {
  return has_few_rounds && std::getenv("TREMULA_TEST_SEED") == nullptr ? all / 5 : all;
}

}  // namespace tremula::testing_only
