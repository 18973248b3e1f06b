// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tremula::testing_only {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool is_sanitized = true;
#else
inline constexpr bool is_sanitized = false;
#endif

/// How often a random test draws: a fifth as often under a sanitizer, which takes ten times as long. Other builds look
/// for mistakes of arithmetic; the sanitizer looks for those of memory, which are no rarer in what is drawn first.
constexpr int rounds(int otherwise) { return is_sanitized ? otherwise / 5 : otherwise; }

}  // namespace tremula::testing_only
