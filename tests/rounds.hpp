// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdlib>

namespace tremula::testing_only {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool is_sanitized = true;
#else
inline constexpr bool is_sanitized = false;
#endif

/// How often a random test draws: under a sanitizer, which takes ten times as long, a fifth as often. A seed that is
/// replayed is drawn to its end, so what a round draws must not depend on how many there are.
inline int rounds(int all) {
  return is_sanitized && std::getenv("TREMULA_TEST_SEED") == nullptr ? all / 5 : all;
}

}  // namespace tremula::testing_only
