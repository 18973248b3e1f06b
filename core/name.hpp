// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <string_view>

namespace tremula::core {

inline constexpr std::size_t max_name_bytes = 255;
/// What a name must be, for error messages.
inline constexpr std::string_view name_rule = "1 to 255 bytes of printable UTF-8 text";

/// True for a text that may be the name of a group, stream, field or host: see name_rule; no
/// control characters.
constexpr bool is_name(std::string_view text) noexcept {
  if (text.empty() || text.size() > max_name_bytes) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c < 0x20 || c == 0x7f) return false;
    const bool is_c1_control =
        c == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (is_c1_control) return false;
  }
  return true;
}

}  // namespace tremula::core
