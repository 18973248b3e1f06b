// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include "proto/control.pb.h"

namespace tremula::client {

/// Returns the ranks that a wait is for, for people: " (rank 3)", " (ranks 0, 2, 5, ...)"; empty if it names
/// none.
inline std::string ranks_text(const wire::Wait& wait) {
  constexpr int most = 8;
  const int count = std::min(wait.ranks_size(), most);
  if (count == 0) return {};
  return fmt::format(" ({} {}{})", count == 1 ? "rank" : "ranks",
                     fmt::join(wait.ranks().begin(), wait.ranks().begin() + count, ", "),
                     wait.ranks_size() > most ? ", ..." : "");
}

}  // namespace tremula::client
