// SPDX-License-Identifier: Apache-2.0
// Checks every value of f16, bf16 and bool against the definition of IEEE 754, computed in long
// double.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/error.hpp"
#include "index_calc/pack/copy_lines.hpp"
#include "index_calc/transform/conversions.hpp"
#include "index_calc/transform/transform.hpp"
#include "tests/index_calc/random.hpp"

namespace tremula::index_calc {
namespace {

using testing::Random;
using enum core::ElementType;
using Bits = std::uint16_t;

/// The format of a 16-bit type.
struct Format {
  core::ElementType type;
  int exponent_bits, mantissa_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  bool is_nan(Bits bits) const { return exponent(bits) == 2 * bias() + 1 && mantissa(bits) != 0; }
  int exponent(Bits bits) const { return bits >> mantissa_bits & (2 * bias() + 1); }
  int mantissa(Bits bits) const { return bits & ((1 << mantissa_bits) - 1); }
  long double value(Bits bits) const {
    const long double sign = bits >> 15 != 0 ? -1 : 1;
    const int e = exponent(bits), m = mantissa(bits);
    if (e == 2 * bias() + 1) return sign * std::numeric_limits<long double>::infinity();
    if (e == 0) return sign * std::ldexp(static_cast<long double>(m), 1 - bias() - mantissa_bits);
    return sign * std::ldexp(static_cast<long double>(m + (1 << mantissa_bits)),
                             e - bias() - mantissa_bits);
  }
  /// Returns the nearest value, found by a search; on a tie, the even one.
  Bits nearest(long double x) const {
    const Bits sign = std::signbit(x) ? 0x8000 : 0;
    const long double size = std::fabs(x);
    // Beyond the largest value, rounding continues as if the exponent were unbounded.
    const auto infinite = static_cast<Bits>((2 * bias() + 1) << mantissa_bits);
    Bits low = 0, high = infinite;  // value(low) <= size
    while (high - low > 1) {
      const auto middle = static_cast<Bits>(low + (high - low) / 2);
      (value(middle) <= size ? low : high) = middle;
    }
    const long double next = high == infinite ? std::ldexp(1.0L, bias() + 1) : value(high);
    const long double below = size - value(low), above = next - size;
    const bool is_up = above < below || (above == below && low % 2 != 0);
    return static_cast<Bits>(sign | (is_up ? high : low));
  }
};
constexpr Format formats[] = {{f16, 5, 10}, {bf16, 8, 7}};

/// Returns the converted elements, contiguously. Checks that the conversion gives the same elements
/// at every third place.
template <class To, class From>
std::vector<To> converted(core::ElementType from_type, core::ElementType to_type,
                          const std::vector<From>& from) {
  const auto count = static_cast<Index>(from.size());
  const Transformation t{.from = from_type, .to = to_type};
  const std::string shape = "shape=" + std::to_string(count);
  const Layout all = Layout::parse(shape + " grid=1");
  std::vector<To> dense(from.size());
  unpack(make_plan(all, all, Rank{0})[0], local_part(all, Rank{0}), Order::row, t, {0, count},
         std::as_bytes(std::span(from)), std::as_writable_bytes(std::span(dense)));
  // A column of a matrix: no two elements are adjacent.
  const Layout column = Layout::parse(shape + "x1 grid=1x1 ghost=0x1");
  const LocalPart part = local_part(column, Rank{0});
  std::vector<To> apart(static_cast<std::size_t>(part.allocated));
  unpack(make_plan(column, column, Rank{0})[0], part, Order::row, t, {0, count},
         std::as_bytes(std::span(from)), std::as_writable_bytes(std::span(apart)));
  for (std::size_t i = 0; i < dense.size(); ++i)
    EXPECT_EQ(std::memcmp(&dense[i], &apart[3 * i + 1], sizeof(To)), 0) << i;
  return dense;
}

std::vector<Bits> all_bits() {
  std::vector<Bits> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<Bits>(i);
  return all;
}

TEST(SmallFloats, AreExactInWiderTypes) {
  const auto all = all_bits();
  for (const Format& format : formats) {
    const auto floats = converted<float>(format.type, f32, all);
    const auto doubles = converted<double>(format.type, f64, all);
    for (const Bits bits : all) {
      if (format.is_nan(bits)) {
        ASSERT_TRUE(std::isnan(floats[bits]) && std::isnan(doubles[bits])) << bits;
        continue;
      }
      ASSERT_EQ(floats[bits], format.value(bits)) << bits;
      ASSERT_EQ(doubles[bits], format.value(bits)) << bits;
      ASSERT_EQ(std::signbit(floats[bits]), bits >> 15 != 0) << bits;
    }
  }
}

TEST(SmallFloats, RoundTripThroughWiderTypes) {
  const auto all = all_bits();
  for (const Format& format : formats) {
    const auto by_float =
        converted<Bits>(f32, format.type, converted<float>(format.type, f32, all));
    const auto by_double =
        converted<Bits>(f64, format.type, converted<double>(format.type, f64, all));
    for (const Bits bits : all)
      if (format.is_nan(bits)) {  // quiet, with the same payload
        ASSERT_EQ(by_float[bits], bits | 1 << (format.mantissa_bits - 1)) << bits;
        ASSERT_TRUE(format.is_nan(by_double[bits]));
      } else {
        ASSERT_EQ(by_float[bits], bits);
        ASSERT_EQ(by_double[bits], bits);
      }
  }
}

/// Returns values around which rounding changes, and random values.
template <class Float>
std::vector<Float> hard_values(const Format& format, Random& random) {
  std::vector<Float> values;
  for (int bits = 0; bits < 0x7FFF; ++bits) {
    if (format.is_nan(static_cast<Bits>(bits)) || format.is_nan(static_cast<Bits>(bits + 1)))
      continue;
    const long double low = format.value(static_cast<Bits>(bits));
    long double high = format.value(static_cast<Bits>(bits + 1));
    if (std::isinf(low)) break;
    if (std::isinf(high)) high = std::ldexp(1.0L, format.bias() + 1);
    const auto tie = static_cast<Float>(low + (high - low) / 2);
    for (const Float x :
         {static_cast<Float>(low), tie, std::nextafter(tie, std::numeric_limits<Float>::infinity()),
          std::nextafter(tie, Float{0})})
      values.insert(values.end(), {x, -x});
  }
  for (int i = 0; i < 100'000; ++i) {
    const auto mantissa = static_cast<Float>(random.in(0, Index{1} << 60));
    values.push_back(std::ldexp(mantissa, static_cast<int>(random.in(-220, 80))));
  }
  for (const Float x : {std::numeric_limits<Float>::infinity(), std::numeric_limits<Float>::max(),
                        std::numeric_limits<Float>::denorm_min(), Float{0}})
    values.insert(values.end(), {x, -x});
  return values;
}

template <class Float>
void expect_nearest(core::ElementType from) {
  Random random;
  for (const Format& format : formats) {
    const auto values = hard_values<Float>(format, random);
    const auto found = converted<Bits>(from, format.type, values);
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(found[i], format.nearest(values[i]))
          << std::hexfloat << values[i] << " to " << to_string(format.type);
  }
}
TEST(SmallFloats, AreTheNearestToAFloat) { expect_nearest<float>(f32); }
TEST(SmallFloats, AreTheNearestToADouble) { expect_nearest<double>(f64); }

TEST(SmallFloats, AreTheNearestToIntegersAndToEachOther) {
  Random random;
  std::vector<std::int64_t> integers;
  std::vector<std::uint64_t> naturals;
  for (int i = 0; i < 100'000; ++i) {
    integers.push_back(
        random.in(std::numeric_limits<Index>::min(), std::numeric_limits<Index>::max()) >>
        random.in(0, 63));
    naturals.push_back(static_cast<std::uint64_t>(integers.back()));
  }
  // The middle between two bf16, and its neighbours, which a double cannot distinguish from it.
  for (const std::int64_t low : {std::int64_t{0x8080} << 47, std::int64_t{0x8180} << 46})
    for (const std::int64_t more : {-1, 0, 1}) {
      integers.push_back((low >> 1) + more);
      naturals.push_back(static_cast<std::uint64_t>(low) + static_cast<std::uint64_t>(more));
    }
  for (const Format& format : formats) {
    const auto of_integers = converted<Bits>(i64, format.type, integers);
    const auto of_naturals = converted<Bits>(u64, format.type, naturals);
    for (std::size_t i = 0; i < integers.size(); ++i) {
      ASSERT_EQ(of_integers[i], format.nearest(static_cast<long double>(integers[i])));
      ASSERT_EQ(of_naturals[i], format.nearest(static_cast<long double>(naturals[i])));
    }
    const Format& other = formats[format.type == f16 ? 1 : 0];
    const auto all = all_bits();
    const auto crossed = converted<Bits>(other.type, format.type, all);
    for (const Bits bits : all) {
      if (other.is_nan(bits)) continue;
      ASSERT_EQ(crossed[bits], format.nearest(other.value(bits))) << bits;
    }
  }
}

TEST(SmallFloats, AreTheSamePastTheCacheWhereverTheyBegin) {
  Random random;
  CopyTuning past_the_cache = copy_tuning();
  past_the_cache.cached_bytes = 0;
  std::vector<std::uint32_t> from(30'000);  // of all kinds, including NaNs
  for (auto& bits : from) bits = static_cast<std::uint32_t>(random.in(0, 0xFFFFFFFF));
  const auto source = std::as_bytes(std::span(from));
  constexpr std::byte untouched{0xA5};
  for (const Format& format : formats)
    for (const std::size_t count : {1u, 31u, 32u, 97u, 1000u, 8191u, 29'000u})
      for (std::size_t offset = 0; offset <= 64; ++offset) {
        const Transformation t{.from = f32, .to = format.type};
        const Layout all = Layout::parse("shape=" + std::to_string(count) + " grid=1");
        const Plan plan = make_plan(all, all, Rank{0});
        const auto convert = [&](const CopyTuning& tuning) {
          std::vector<std::byte> to(offset + 2 * count + 64, untouched);
          unpack(plan[0], local_part(all, Rank{0}), Order::row, t, {0, static_cast<Index>(count)},
                 source.first(4 * count), std::span(to).subspan(offset, 2 * count), tuning);
          return to;
        };
        CopyTuning cached = past_the_cache;
        cached.cached_bytes = std::size_t{1} << 30;
        ASSERT_TRUE(convert(past_the_cache) == convert(cached))
            << count << " elements of " << to_string(format.type) << " from byte " << offset;
      }
}

TEST(SmallFloats, AreScaledAndAddedInFloat) {
  const std::vector<float> from{1.5F, -2, 3};
  const Layout all = Layout::parse("shape=3 grid=1");
  std::vector<Bits> to{0x3C00, 0x4000, 0x4200};  // 1, 2, 3 in f16
  unpack(make_plan(all, all, Rank{0})[0], local_part(all, Rank{0}), Order::row,
         {.from = f32, .to = f16, .alpha = 2, .beta = 3}, {0, 3}, std::as_bytes(std::span(from)),
         std::as_writable_bytes(std::span(to)));
  EXPECT_EQ(to, (std::vector<Bits>{0x4600, 0x4000, 0x4B80}));  // 6, 2, 15
}

TEST(Bool, IsAnIntegerOfZeroOrOne) {
  EXPECT_EQ(converted<double>(boolean, f64, std::vector<std::uint8_t>{0, 1, 1}),
            (std::vector<double>{0, 1, 1}));
  EXPECT_EQ(converted<std::uint8_t>(f64, boolean, std::vector{0.0, 1.0, 1.9, -0.5}),
            (std::vector<std::uint8_t>{0, 1, 1, 0}));
  for (const double x : {2.0, -1.0, std::nan("")}) try {
      converted<std::uint8_t>(f64, boolean, std::vector{x});
      ADD_FAILURE() << x;
    } catch (const core::Error& e) {
      EXPECT_EQ(e.code(), core::Errc::mismatch);
    }
}

TEST(Opaque, IsMovedUnchangedAndNeverConverted) {
  EXPECT_NO_THROW(validate({.from = core::opaque(24), .to = core::opaque(24)}));
  for (const Transformation& t :
       {Transformation{.from = core::opaque(24), .to = core::opaque(25)},
        Transformation{.from = core::opaque(8), .to = f64},
        Transformation{.from = core::opaque(8), .to = core::opaque(8), .beta = 1}})
    EXPECT_THROW(validate(t), core::Error);
}

}  // namespace
}  // namespace tremula::index_calc
