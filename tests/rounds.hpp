// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdlib>

namespace tremula::testing_only {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool is_sanitized = true;
#else
inline constexpr bool is_sanitized = false;
#endif

/// Returns how many rounds a random test draws: `all`, or a fifth of them under a sanitizer, which slows each by a
/// factor of ten. A replayed seed draws all rounds, so what a round draws must not depend on the number of rounds.
inline int rounds(int all) {
  return is_sanitized && std::getenv("TREMULA_TEST_SEED") == nullptr ? all / 5 : all;
}

}  // namespace tremula::testing_only
