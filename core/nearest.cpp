// SPDX-License-Identifier: Apache-2.0
#include "core/nearest.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

namespace tremula::core {

std::size_t letters_between(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j)
      diagonal = std::exchange(
          row[j + 1], std::min({diagonal + (a[i] != b[j] ? 1 : 0), row[j] + 1, row[j + 1] + 1}));
  }
  return row.back();
}

std::string_view likely_meant(std::string_view text, std::span<const std::string> known) {
  const auto nearest = std::ranges::min_element(
      known, {}, [&](const std::string& one) { return letters_between(text, one); });
  const std::size_t most = std::max<std::size_t>(2, text.size() / 3);
  if (nearest == known.end() || letters_between(text, *nearest) > most) return {};
  return *nearest;
}

}  // namespace tremula::core
