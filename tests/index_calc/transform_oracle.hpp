// SPDX-License-Identifier: Apache-2.0
#pragma once
// Elements of every type, and the results of transformations, computed one by one from the
// definition.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "index_calc/transform/transform.hpp"
#include "tests/index_calc/random.hpp"

namespace tremula::index_calc::testing {

using core::ElementType, core::is_complex;
__extension__ using Exact = __int128;

inline constexpr ElementType all_types[] = {ElementType::i8,  ElementType::i16, ElementType::i32,
                                            ElementType::i64, ElementType::u8,  ElementType::u16,
                                            ElementType::u32, ElementType::u64, ElementType::f32,
                                            ElementType::f64, ElementType::c64, ElementType::c128};

inline bool is_integer(ElementType t) { return t <= ElementType::u64; }
inline bool is_unsigned(ElementType t) { return is_integer(t) && t >= ElementType::u8; }

/// Calls f(T{}).
template <class F>
auto with_type(ElementType type, const F& f) {
  switch (type) {
    case ElementType::i8:
      return f(std::int8_t{});
    case ElementType::i16:
      return f(std::int16_t{});
    case ElementType::i32:
      return f(std::int32_t{});
    case ElementType::i64:
      return f(std::int64_t{});
    case ElementType::u8:
      return f(std::uint8_t{});
    case ElementType::u16:
      return f(std::uint16_t{});
    case ElementType::u32:
      return f(std::uint32_t{});
    case ElementType::u64:
      return f(std::uint64_t{});
    case ElementType::f32:
      return f(float{});
    case ElementType::f64:
      return f(double{});
    case ElementType::c64:
      return f(std::complex<float>{});
    default:  // c128; the other types have their own tests
      return f(std::complex<double>{});
  }
}

/// A value of any type, exactly.
using Number = std::complex<long double>;

inline Number number_at(const std::byte* at, ElementType type) {
  return with_type(type, [at]<class T>(T value) -> Number {
    std::memcpy(&value, at, sizeof value);
    if constexpr (std::is_arithmetic_v<T>)
      return static_cast<long double>(value);
    else
      return {value.real(), value.imag()};
  });
}

/// Values that differ from number to number, and whose results fit for factors of -3 to 3.
class Values {
public:
  explicit Values(const Transformation& t) {
    Index most = std::numeric_limits<Index>::max();
    for (const ElementType type : {t.from, t.to})
      if (is_integer(type))
        with_type(type, [&](auto zero) {
          if constexpr (std::is_integral_v<decltype(zero)>)
            if (const auto max = std::numeric_limits<decltype(zero)>::max();
                std::cmp_less(max, most))
              most = static_cast<Index>(max);
        });
    most_ = most / 7;
    least_ = is_unsigned(t.from) || is_unsigned(t.to) ? 0 : -most_;
  }

  void put(std::byte* at, ElementType type, Index number) const {
    constexpr Index step = 1'000'000'007;
    const auto span = static_cast<Exact>(most_) - least_ + 1;
    const auto whole = static_cast<Index>(least_ + Exact{number + 1} * step * step % span);
    with_type(type, [&]<class T>(T) {
      T value;
      if constexpr (std::is_integral_v<T>)
        value = static_cast<T>(whole);
      else if constexpr (std::is_floating_point_v<T>)
        value = static_cast<T>(whole) * T{0.97F};
      else
        value = {static_cast<typename T::value_type>(whole) * 0.97F,
                 static_cast<typename T::value_type>(number) + 0.3F};
      std::memcpy(at, &value, sizeof value);
    });
  }

private:
  Index most_, least_;
};

/// Returns whether the definition gives `result` for these elements: up to rounding, and exactly
/// where nothing is rounded.
inline bool is_right(const Transformation& t, const std::byte* from, const std::byte* to,
                     const std::byte* result) {
  if (t.is_copy()) return std::memcmp(from, result, core::element_bytes(t.to)) == 0;
  const Number nothing = 0;
  Number x = t.alpha == 0.0 ? nothing : number_at(from, t.from);
  const Number y = t.beta == 0.0 ? nothing : number_at(to, t.to);
  if (t.conjugates) x = std::conj(x);
  const Number found = number_at(result, t.to);
  if (is_integer(t.to)) {
    const auto alpha = t.alpha.real(), beta = t.beta.real();
    const Exact product = is_integer(t.from)
                              ? static_cast<Exact>(alpha) * static_cast<Exact>(x.real())
                              : static_cast<Exact>(alpha * static_cast<double>(x.real()));
    const Exact sum = product + static_cast<Exact>(beta) * static_cast<Exact>(y.real());
    return static_cast<Exact>(found.real()) == sum;
  }
  const bool is_float = t.to == ElementType::f32 || t.to == ElementType::c64;
  const auto part = [&](long double ax, long double ay, long double bu, long double bv,
                        long double value) {
    const long double sum = ax + ay + bu + bv;
    if (t.alpha == 1.0 && t.beta == 0.0)
      return value == (is_float ? static_cast<long double>(static_cast<float>(sum))
                                : static_cast<long double>(static_cast<double>(sum)));
    const long double eps =
        is_float ? std::numeric_limits<float>::epsilon() : std::numeric_limits<double>::epsilon();
    const long double size = std::abs(ax) + std::abs(ay) + std::abs(bu) + std::abs(bv);
    return std::abs(value - sum) <= 4 * eps * size;
  };
  const Number a = t.alpha, b = t.beta;
  return part(a.real() * x.real(), -a.imag() * x.imag(), b.real() * y.real(), -b.imag() * y.imag(),
              found.real()) &&
         part(a.real() * x.imag(), a.imag() * x.real(), b.real() * y.imag(), b.imag() * y.real(),
              found.imag());
}

/// Returns a random transformation that is not refused.
inline Transformation random_transformation(Random& random) {
  const auto type = [&] { return all_types[random.in(0, 11)]; };
  Transformation t{.from = type(), .to = type(), .alpha = 1, .beta = 0, .conjugates = false};
  while (is_complex(t.from) && !is_complex(t.to)) t.to = type();
  const auto factor = [&] {
    const Index least = is_unsigned(t.to) ? 0 : -3;
    const auto whole = static_cast<double>(random.in(least, 3));
    if (is_integer(t.to)) return std::complex<double>(whole);
    const double real = random.one_in(2) ? whole : static_cast<double>(random.in(-300, 300)) / 101;
    const bool is_real = !is_complex(t.to) || random.one_in(2);
    return std::complex<double>(real, is_real ? 0 : static_cast<double>(random.in(-30, 30)) / 11);
  };
  if (!random.one_in(3)) t.alpha = factor();
  if (random.one_in(2)) t.beta = factor();
  t.conjugates = random.one_in(2);
  return t;
}

}  // namespace tremula::index_calc::testing
