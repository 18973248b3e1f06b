// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace tremula::core {

/// Type of an element of a field. The values are part of the wire format and of the C interface.
enum class ElementType : int {
  i8 = 1,
  i16 = 2,
  i32 = 3,
  i64 = 4,
  u8 = 5,
  u16 = 6,
  u32 = 7,
  u64 = 8,
  f32 = 9,
  f64 = 10,
  c64 = 11,   ///< complex, two f32
  c128 = 12,  ///< complex, two f64
};

namespace detail {
struct ElementTypeRow {
  ElementType type;
  std::string_view name;
  std::size_t bytes;
};
inline constexpr std::array<ElementTypeRow, 12> element_types{{
    {ElementType::i8, "i8", 1},
    {ElementType::i16, "i16", 2},
    {ElementType::i32, "i32", 4},
    {ElementType::i64, "i64", 8},
    {ElementType::u8, "u8", 1},
    {ElementType::u16, "u16", 2},
    {ElementType::u32, "u32", 4},
    {ElementType::u64, "u64", 8},
    {ElementType::f32, "f32", 4},
    {ElementType::f64, "f64", 8},
    {ElementType::c64, "c64", 8},
    {ElementType::c128, "c128", 16},
}};
}  // namespace detail

/// True if `value` is one of the twelve element types (for bytes that come from outside).
constexpr bool is_element_type(int value) noexcept { return value >= 1 && value <= 12; }
/// @pre is_element_type(type)
constexpr std::size_t element_bytes(ElementType type) noexcept {
  return detail::element_types[static_cast<std::size_t>(type) - 1].bytes;
}
constexpr bool is_complex(ElementType type) noexcept {
  return type == ElementType::c64 || type == ElementType::c128;
}
/// "f64" and so on.  @pre is_element_type(type)
constexpr std::string_view to_string(ElementType type) noexcept {
  return detail::element_types[static_cast<std::size_t>(type) - 1].name;
}
/// The inverse of to_string; empty for any other text.
constexpr std::optional<ElementType> parse_element_type(std::string_view name) noexcept {
  for (const auto& row : detail::element_types)
    if (row.name == name) return row.type;
  return std::nullopt;
}

}  // namespace tremula::core
