// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tremula::core {

/// Type of an element of a field. The values are part of the wire format and of the C interface.
/// Values above `opaque_types` are opaque elements; the difference is their size in bytes.
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
  c64 = 11,      ///< complex, two f32
  c128 = 12,     ///< complex, two f64
  f16 = 13,      ///< IEEE 754 binary16
  bf16 = 14,     ///< the upper half of an f32
  boolean = 15,  ///< a byte that is 0 or 1
};

inline constexpr int opaque_types = 0x10000;
inline constexpr std::size_t max_opaque_bytes = 0x4000;  // fits into any chunk of a message

namespace detail {
struct ElementTypeRow {
  ElementType type;
  std::string_view name;
  std::size_t bytes;
};
inline constexpr std::array<ElementTypeRow, 15> element_types{{
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
    {ElementType::f16, "f16", 2},
    {ElementType::bf16, "bf16", 2},
    {ElementType::boolean, "bool", 1},
}};
inline constexpr std::string_view opaque_name = "opaque";
}  // namespace detail

inline constexpr std::string_view all_element_types =
    "i8 to i64, u8 to u64, f16, bf16, f32, f64, c64, c128, bool or opaque with a number of bytes "
    "from 1 to 16384";

/// Returns the type of opaque elements of `bytes` bytes, which are moved unchanged, e.g. structs.
/// @pre 1 <= bytes <= max_opaque_bytes
constexpr ElementType opaque(std::size_t bytes) noexcept {
  return static_cast<ElementType>(opaque_types + static_cast<int>(bytes));
}
constexpr bool is_opaque(ElementType type) noexcept {
  return static_cast<int>(type) > opaque_types;
}
/// Returns whether `value` is an element type. For values from outside the process.
constexpr bool is_element_type(int value) noexcept {
  return (value >= 1 && value <= static_cast<int>(detail::element_types.size())) ||
         (value > opaque_types && value <= opaque_types + static_cast<int>(max_opaque_bytes));
}
/// Returns the size of an element.  @pre is_element_type(type)
constexpr std::size_t element_bytes(ElementType type) noexcept {
  if (is_opaque(type)) return static_cast<std::size_t>(static_cast<int>(type) - opaque_types);
  return detail::element_types[static_cast<std::size_t>(type) - 1].bytes;
}
constexpr bool is_complex(ElementType type) noexcept {
  return type == ElementType::c64 || type == ElementType::c128;
}
/// Returns the name of the type, e.g. "f64" or "opaque24".  @pre is_element_type(type)
inline std::string to_string(ElementType type) {
  if (is_opaque(type))
    return std::string(detail::opaque_name) + std::to_string(element_bytes(type));
  return std::string(detail::element_types[static_cast<std::size_t>(type) - 1].name);
}
/// Returns the type with this name; nullopt if there is none.
inline std::optional<ElementType> parse_element_type(std::string_view name) noexcept {
  for (const auto& row : detail::element_types)
    if (row.name == name) return row.type;
  if (!name.starts_with(detail::opaque_name)) return std::nullopt;
  name.remove_prefix(detail::opaque_name.size());
  std::size_t bytes = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), bytes);
  if (error != std::errc{} || end != name.data() + name.size() || name.front() == '0' ||
      bytes > max_opaque_bytes)
    return std::nullopt;
  return opaque(bytes);
}

}  // namespace tremula::core
