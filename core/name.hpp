// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tremula::core {

inline constexpr std::size_t max_name_bytes = 255;
/// The rule that names follow, for error messages.
inline constexpr std::string_view name_rule =
    "1 to 255 bytes of printable UTF-8 text, not only blanks";

/// Removes the first code point of `text` and returns it; nullopt if the bytes are not UTF-8
/// (Unicode 15.0, table 3-7), in which case one byte is removed.
/// @pre text is not empty
constexpr std::optional<char32_t> next_code_point(std::string_view& text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  const std::size_t bytes = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  constexpr char32_t least[] = {0, 0, 0x80, 0x800, 0x10000};  // overlong forms are not UTF-8
  char32_t point = bytes == 1 ? first : first & (0x7fu >> bytes);
  bool is_good = first < 0x80 || (first >= 0xc2 && first < 0xf5);
  for (std::size_t i = 1; i < bytes && is_good; ++i) {
    is_good = i < text.size() && (byte(i) & 0xc0) == 0x80;
    if (is_good) point = point << 6 | (byte(i) & 0x3f);
  }
  is_good = is_good && point >= least[bytes] && point <= 0x10ffff && !(point >> 11 == 0x1b);
  text.remove_prefix(is_good ? bytes : 1);
  return is_good ? std::optional(point) : std::nullopt;
}

/// Returns false for characters that are invisible or change how the text around them is displayed:
/// control and format characters (Unicode 15.0, categories Cc and Cf, including all that change the
/// direction of writing), line and paragraph separators, and noncharacters.
constexpr bool is_printable(char32_t point) noexcept {
  constexpr struct {
    char32_t first, last;
  } refused[] = {{0, 0x1f},          {0x7f, 0x9f},       {0xad, 0xad},       {0x600, 0x605},
                 {0x61c, 0x61c},     {0x6dd, 0x6dd},     {0x70f, 0x70f},     {0x890, 0x891},
                 {0x8e2, 0x8e2},     {0x180e, 0x180e},   {0x200b, 0x200f},   {0x2028, 0x202e},
                 {0x2060, 0x206f},   {0xfdd0, 0xfdef},   {0xfeff, 0xfeff},   {0xfff9, 0xfffb},
                 {0x110bd, 0x110bd}, {0x110cd, 0x110cd}, {0x13430, 0x1343f}, {0x1bca0, 0x1bca3},
                 {0x1d173, 0x1d17a}, {0xe0000, 0xe007f}};
  if ((point & 0xfffe) == 0xfffe) return false;
  for (const auto& range : refused)
    if (point >= range.first && point <= range.last) return false;
  return true;
}

/// Returns false for characters that is_printable() rejects, and for those displayed as a blank or
/// a box: spaces (category Zs), Hangul fillers, the Braille blank, variation selectors, private use
/// (category Co).
constexpr bool is_seen(char32_t point) noexcept {
  constexpr struct {
    char32_t first, last;
  } blank[] = {{0x20, 0x20},       {0xa0, 0xa0},       {0x34f, 0x34f},      {0x115f, 0x1160},
               {0x1680, 0x1680},   {0x17b4, 0x17b5},   {0x180b, 0x180f},    {0x2000, 0x200a},
               {0x202f, 0x202f},   {0x205f, 0x205f},   {0x2800, 0x2800},    {0x3000, 0x3000},
               {0x3164, 0x3164},   {0xe000, 0xf8ff},   {0xfe00, 0xfe0f},    {0xffa0, 0xffa0},
               {0xe0100, 0xe01ef}, {0xf0000, 0xffffd}, {0x100000, 0x10fffd}};
  for (const auto& range : blank)
    if (point >= range.first && point <= range.last) return false;
  return is_printable(point);
}

/// Returns whether a text may be the name of a group, stream, field or host: see name_rule.
constexpr bool is_name(std::string_view text) noexcept {
  if (text.size() > max_name_bytes) return false;
  bool has_seen = false;
  while (!text.empty()) {
    const auto point = next_code_point(text);
    if (!point || !is_printable(*point)) return false;
    has_seen = has_seen || is_seen(*point);
  }
  return has_seen;
}

/// Returns foreign text as one line that is safe to display, with '?' for everything that
/// is_printable() rejects.
inline std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::string_view rest = text;
    const auto point = next_code_point(text);
    if (point && is_printable(*point))
      out.append(rest.substr(0, rest.size() - text.size()));
    else
      out += '?';
  }
  return out;
}

}  // namespace tremula::core
