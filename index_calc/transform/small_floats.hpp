// SPDX-License-Identifier: Apache-2.0
#pragma once
// The 16-bit floating types, as bits. Conversion to float is exact; conversion from float and from
// double rounds once, to nearest, ties to even. A NaN stays a NaN and keeps the upper bits of its
// payload; all conversions but that of bf16 to float make it quiet. There are no branches, so that
// compilers can vectorise loops over these functions.
// Source: IEEE 754-2008, 3.4, 4.3.1 and 6.2.3; round to odd: Boldo and Melquiond 2008.
#include <bit>
#include <concepts>
#include <cstdint>

namespace tremula::index_calc {

/// Returns `value` as a float such that rounding it again, to at most 22 bits, gives the result of
/// rounding `value` once.
inline float rounded_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  const auto bits = std::bit_cast<std::uint32_t>(nearest);
  const auto back = static_cast<double>(nearest);
  // The result is the odd one of the two floats on either side of the value: the nearest float or a
  // neighbour of it.
  const bool is_inexact = back != value && value == value && (bits & 1) == 0;
  const bool is_too_large = (back < 0 ? -back : back) > (value < 0 ? -value : value);
  const std::uint32_t odd = is_too_large ? bits - 1 : bits + 1;
  return std::bit_cast<float>(is_inexact ? odd : bits);
}

/// Returns a 64-bit integer as a double with the same property; the integer may have more than 53
/// bits.
inline double rounded_to_odd(std::int64_t value) {
  constexpr std::uint64_t lost = 0x7FF;  // beyond 53 bits
  const bool is_negative = value < 0;
  auto size = static_cast<std::uint64_t>(value);
  if (is_negative) size = 0 - size;
  if (size >> 53 != 0) size = (size & ~lost) | ((size & lost) != 0 ? lost + 1 : 0);
  const auto result = static_cast<double>(size);
  return is_negative ? -result : result;
}
inline double rounded_to_odd(std::uint64_t value) {
  constexpr std::uint64_t lost = 0x7FF;
  if (value >> 53 != 0) value = (value & ~lost) | ((value & lost) != 0 ? lost + 1 : 0);
  return static_cast<double>(value);
}

inline std::uint16_t bf16_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40;
  return static_cast<std::uint16_t>((bits & 0x7FFFFFFF) > 0x7F800000 ? quiet : rounded);
}
inline float float_of_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

inline std::uint16_t f16_of(float value) {
  const auto all = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (all >> 16) & 0x8000, bits = all & 0x7FFFFFFF;
  // Normal: the exponent has a different bias, and the mantissa has 13 bits fewer. A carry beyond 65504
  // gives infinity.
  const std::uint32_t normal = (bits - (112U << 23) + 0xFFF + ((bits >> 13) & 1)) >> 13;
  // Below 2^-14: the float adder rounds at the position of the lowest bit.
  const float shifted = std::bit_cast<float>(bits) + 0.5F;
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0.5F);
  const std::uint32_t quiet = 0x7E00 | ((bits >> 13) & 0x3FF);
  std::uint32_t result = bits < (113U << 23) ? subnormal : normal;
  result = bits >= (143U << 23) ? 0x7C00 : result;
  result = bits > 0x7F800000 ? quiet : result;
  return static_cast<std::uint16_t>(sign | result);
}
inline float float_of_f16(std::uint16_t half) {
  const std::uint32_t sign = std::uint32_t{half} << 16 & 0x80000000, bits = half & 0x7FFF;
  const std::uint32_t normal = (bits << 13) + (112U << 23);
  const float subnormal = static_cast<float>(bits) * 0x1p-24F;
  std::uint32_t result = bits < 0x400 ? std::bit_cast<std::uint32_t>(subnormal) : normal;
  result = bits >= 0x7C00 ? (bits << 13) | 0x7F800000 : result;
  result = bits > 0x7C00 ? result | 0x400000 : result;
  return std::bit_cast<float>(sign | result);
}

/// A 16-bit float that the formulas of transform_functions.cpp can use as a number.
template <std::uint16_t (*of_float)(float), float (*to_float)(std::uint16_t)>
struct SmallFloat {
  std::uint16_t bits = 0;

  SmallFloat() = default;
  explicit SmallFloat(float value) : bits(of_float(value)) {}
  explicit SmallFloat(double value) : bits(of_float(rounded_to_odd(value))) {}
  template <std::integral Integer>
  explicit SmallFloat(Integer value) {
    if constexpr (sizeof(Integer) < 8)
      *this = SmallFloat(static_cast<double>(value));
    else
      *this = SmallFloat(rounded_to_odd(value));
  }
  template <class Number>
  explicit operator Number() const {
    return static_cast<Number>(to_float(bits));
  }
};
using F16 = SmallFloat<f16_of, float_of_f16>;
using BF16 = SmallFloat<bf16_of, float_of_bf16>;

}  // namespace tremula::index_calc
