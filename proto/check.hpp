// SPDX-License-Identifier: Apache-2.0
#pragma once
// Functions with which convert*.cpp and bounds.cpp reject untrusted bytes. Internal to this room.
#include <fmt/format.h>

#include <concepts>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "proto/attributes.hpp"
#include "proto/convert.hpp"

namespace tremula::proto {

/// Returns at most 64 bytes of foreign text, safe to print: bytes other than printable ASCII become '?'.
inline std::string shown(std::string_view text) {
  constexpr std::size_t limit = 64;
  std::string out(text.substr(0, limit));
  for (char& c : out)
    if (c < ' ' || c > '~') c = '?';
  return text.size() <= limit ? fmt::format("'{}'", out)
                              : fmt::format("'{}...' ({} bytes)", out, text.size());
}

inline std::string_view text_of(std::string_view part) { return part; }
/// Returns the name of a part. A composed name is built only when it is needed.
template <std::invocable Part>
std::string text_of(const Part& part) {
  return part();
}

template <class Part>
[[noreturn]] void reject(const Part& part, std::string_view expected, std::string_view found) {
  throw core::Error(core::Errc::protocol,
                    fmt::format("{}: expected {}, found {}", text_of(part), expected, found));
}

template <class Part>
void check_name(const Part& part, std::string_view text) {
  if (!is_name(text)) reject(part, name_rule, shown(text));
}

template <class Part>
void check_text(const Part& part, std::string_view text, std::size_t max_bytes) {
  if (text.size() > max_bytes)
    reject(part, fmt::format("at most {} bytes", max_bytes), fmt::format("{}", text.size()));
}

template <class Part, std::integral T>
void check_range(const Part& part, T value, T least, T most) {
  if (value < least || value > most)
    reject(part, fmt::format("{} to {}", least, most), fmt::format("{}", value));
}

template <class Part>
void check_attributes(const Part& part, const std::string& bytes) {
  try {
    decode_attributes(bytes_of(bytes));
  } catch (const core::Error& error) {
    throw core::Error(error.code(), fmt::format("{}: {}", text_of(part), error.what()));
  }
}

/// Checks the bytes and the number of parts of a message to the server against the bounds of its kind, before anything
/// is allocated for it. Leaves bytes that are not a message to the parser.
void check_bounds(core::BytesView bytes);

/// Checks fields, except the texts of their layouts.
/// @param part  text that precedes "fields[0].name" in error texts
void check_fields(std::string_view part, const WireFields& fields);

}  // namespace tremula::proto
