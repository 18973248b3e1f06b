// SPDX-License-Identifier: Apache-2.0
// Tests transform.hpp with single values: those that fit, and those that are refused.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "core/error.hpp"
#include "index_calc/transform/transform.hpp"

namespace tremula::index_calc {
namespace {

using core::Errc;
using enum core::ElementType;

/// Transforms successive elements in one stretch, and returns them.
template <class To, class From>
std::vector<To> transformed(const Transformation& t, const std::vector<From>& from,
                            std::vector<To> to = {}) {
  to.resize(from.size());
  const Layout all = Layout::parse("shape=" + std::to_string(from.size()) + " grid=1");
  unpack(make_plan(all, all, Rank{0})[0], local_part(all, Rank{0}), Order::row, t,
         {.first = 0, .count = static_cast<Index>(from.size())}, std::as_bytes(std::span(from)),
         std::as_writable_bytes(std::span(to)));
  return to;
}

void expect_error(Errc code, const std::string& text, const std::function<void()>& action) {
  try {
    action();
    ADD_FAILURE() << "expected an error with: " << text;
  } catch (const core::Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
  }
}

template <class T>
class Borders : public ::testing::Test {};
using Integers =
    ::testing::Types<std::pair<std::int8_t, std::integral_constant<core::ElementType, i8>>,
                     std::pair<std::int16_t, std::integral_constant<core::ElementType, i16>>,
                     std::pair<std::int32_t, std::integral_constant<core::ElementType, i32>>,
                     std::pair<std::int64_t, std::integral_constant<core::ElementType, i64>>,
                     std::pair<std::uint8_t, std::integral_constant<core::ElementType, u8>>,
                     std::pair<std::uint16_t, std::integral_constant<core::ElementType, u16>>,
                     std::pair<std::uint32_t, std::integral_constant<core::ElementType, u32>>,
                     std::pair<std::uint64_t, std::integral_constant<core::ElementType, u64>>>;
TYPED_TEST_SUITE(Borders, Integers);

TYPED_TEST(Borders, AreTheLastValuesThatFit) {
  using T = typename TypeParam::first_type;
  using Limits = std::numeric_limits<T>;
  constexpr core::ElementType type = TypeParam::second_type::value;
  const auto min = static_cast<double>(Limits::min());
  const double end = std::ldexp(1., Limits::digits);  // max + 1
  const double last = std::nextafter(end, 0), least = std::nextafter(min - 1, 0);
  Transformation t{.from = f64, .to = type};
  EXPECT_EQ(transformed<T>(t, std::vector{min, last, -0.9, 0.9, 1.9}),
            (std::vector<T>{Limits::min(), static_cast<T>(last), 0, 0, 1}));
  if (Limits::digits < 53) {
    EXPECT_EQ(transformed<T>(t, std::vector{least})[0], Limits::min());
  }
  const std::string wanted = "expected results that fit in " + std::string(to_string(type));
  const double below = Limits::digits < 53 ? min - 1
                       : min == 0          ? -1
                                           : std::nextafter(min, -HUGE_VAL);
  for (const double alpha : {1., 2.})
    for (const double beta : {0., 1.})
      for (const double x : {end, below, HUGE_VAL, -HUGE_VAL, std::nan(""), 1e300}) {
        t.alpha = alpha;
        t.beta = beta;
        expect_error(Errc::mismatch, wanted + ", found 2 made of f64 that do not, the first ", [&] {
          transformed<T>(t, std::vector{1., x, x, 2.}, std::vector<T>{1, 0, 0, 2});
        });
      }
  t = {.from = f32, .to = type};
  expect_error(Errc::mismatch, "the first nan",
               [&] { transformed<T>(t, std::vector{std::nanf("")}); });
  // The sums must fit, but their terms need not.
  t = {.from = i64, .to = type, .alpha = 4, .beta = -3};
  const T high = Limits::max();
  if (std::in_range<std::int64_t>(high)) {
    const auto x = static_cast<std::int64_t>(high);
    EXPECT_EQ(transformed<T>(t, std::vector{x}, std::vector{high})[0], high);
    expect_error(Errc::mismatch, wanted + ", found 1 made of i64 that do not, the first ", [&] {
      transformed<T>(t, std::vector{std::int64_t{1}, x},
                     std::vector<T>{1, static_cast<T>(high - 1)});
    });
  }
}

TEST(Transform, NamesTheValueThatDoesNotFit) {
  expect_error(Errc::mismatch, "fit in i8, found 2 made of i32 that do not, the first 128; ", [] {
    transformed<std::int8_t>({.from = i32, .to = i8}, std::vector{127, 128, -129, -128});
  });
  expect_error(Errc::mismatch, "fit in u64, found 1 made of i64 that do not, the first -1; ", [] {
    transformed<std::uint64_t>({.from = i64, .to = u64}, std::vector<std::int64_t>{-1, 0});
  });
  expect_error(Errc::mismatch, "made of u64 that do not, the first 9223372036854775808; ", [] {
    transformed<std::int64_t>({.from = u64, .to = i64}, std::vector{std::uint64_t{1} << 63});
  });
}

TEST(Transform, FollowsIeeeWhereNothingIsChecked) {
  const double huge = 1e300;
  const auto floats = transformed<float>({.from = f64, .to = f32},
                                         std::vector{huge, -huge, std::nan(""), 0.1, 1e-300});
  EXPECT_EQ(floats[0], HUGE_VALF);
  EXPECT_EQ(floats[1], -HUGE_VALF);
  EXPECT_TRUE(std::isnan(floats[2]));
  EXPECT_EQ(floats[3], 0.1F);
  EXPECT_EQ(floats[4], 0.F);
  // Computed in double, not in float: 2^24 + 1 is kept until the sum is rounded.
  EXPECT_EQ(transformed<float>({.from = i32, .to = f32, .alpha = 2, .beta = 1},
                               std::vector{(1 << 24) + 1}, {-33554432.F})[0],
            2.F);
  // Real factors do not mix real and imaginary parts.
  using C = std::complex<double>;
  const auto kept = transformed<C>({.from = c128, .to = c128, .alpha = 2, .beta = 3},
                                   std::vector<C>{{HUGE_VAL, 1}}, {{1, HUGE_VAL}});
  EXPECT_EQ(kept[0], C(HUGE_VAL, HUGE_VAL));
  const auto turned =
      transformed<C>({.from = c128, .to = c128, .alpha = {0, 1}, .beta = 1, .conjugates = true},
                     std::vector<C>{{1, 2}}, {{10, 20}});
  EXPECT_EQ(turned[0], C(12, 21));
}

TEST(Transform, IsACopyOnlyIfNothingChanges) {
  EXPECT_TRUE(Transformation{}.is_copy());
  EXPECT_TRUE((Transformation{.from = i8, .to = i8, .conjugates = true}.is_copy()));
  EXPECT_FALSE((Transformation{.from = c64, .to = c64, .conjugates = true}.is_copy()));
  EXPECT_FALSE((Transformation{.from = f32, .to = f64}.is_copy()));
  EXPECT_FALSE((Transformation{.alpha = 2}.is_copy()));
  EXPECT_FALSE((Transformation{.alpha = {1, 1}}.is_copy()));
  EXPECT_FALSE((Transformation{.beta = 1}.is_copy()));
}

TEST(Transform, RefusesMeaninglessTypesAndFactors) {
  const auto refused = [](Errc code, const Transformation& t, const std::string& text) {
    expect_error(code, text, [&] { validate(t); });
    expect_error(code, text, [&] { transformed<char>(t, std::vector{'a'}); });
    expect_error(code, text, [&] { scale(LocalPart{}, t, {}); });
  };
  refused(Errc::unsupported, {.from = c64, .to = f64},
          "expected a complex type for elements of c64, found f64; receive c64 or c128");
  refused(Errc::unsupported, {.from = c128, .to = i8}, "found i8");
  refused(Errc::invalid_argument, {.alpha = {2, 1}},
          "expected a real alpha for elements of f64, found 2+1i");
  refused(Errc::invalid_argument, {.beta = {0, -1}}, "expected a real beta for elements of f64");
  EXPECT_NO_THROW(validate({.from = f32, .to = c64, .alpha = {2, 1}, .beta = {0, 1}}));
  for (const double x : {0.5, std::ldexp(1., 53) + 2, HUGE_VAL, std::nan("")}) {
    refused(Errc::invalid_argument, {.from = f64, .to = i64, .alpha = x},
            "expected a whole alpha of at most 2^53 for elements of i64, found ");
    refused(Errc::invalid_argument, {.from = f64, .to = u8, .beta = x}, "expected a whole beta");
  }
  EXPECT_NO_THROW(validate({.from = f64, .to = i64, .alpha = std::ldexp(-1., 53)}));
  for (const int none : {0, 16, -1})
    refused(Errc::invalid_argument, {.from = static_cast<core::ElementType>(none), .to = f64},
            "expected element types, found " + std::to_string(none));
}

TEST(Transform, RefusesBuffersOfTheWrongSize) {
  const Layout layout = Layout::parse("shape=6 grid=2 ghost=1");
  const Layout other = Layout::parse("shape=6 grid=1");
  const Plan plan = make_plan(layout, other, Rank{0});
  const LocalPart mine = local_part(layout, Rank{0}), theirs = local_part(other, Rank{0});
  std::vector<std::byte> local(5 * 4, std::byte{7}), from(6 * 8, std::byte{1});
  const auto before = local;
  const Transformation t{.from = f64, .to = f32, .alpha = 2, .beta = 1};
  const auto refused = [&](const std::string& text, std::size_t local_bytes, std::size_t wire_bytes,
                           std::size_t their_bytes) {
    expect_error(Errc::invalid_argument, text, [&] {
      const auto l = std::span(local).first(local_bytes);
      unpack(plan[0], mine, Order::row, t, {0, 3}, std::span(from).first(wire_bytes), l);
      copy_from_peer(plan[0], mine, theirs, Order::row, t, {0, 3},
                     std::span(from).first(their_bytes), l);
    });
  };
  refused("local buffer of 5 elements of 4 bytes, found 19 bytes", 19, 24, 48);
  refused("expected 3 elements of 8 bytes on the wire, found 12 bytes", 20, 12, 48);
  EXPECT_EQ(local, before);
  refused("peer's buffer of 6 elements of 8 bytes, found 47 bytes", 20, 24, 47);
  expect_error(Errc::invalid_argument, "local buffer of 5 elements of 4 bytes", [&] {
    scale(mine, {.from = f64, .to = f32, .alpha = 0, .beta = 2}, std::span(local).first(19));
  });
}

}  // namespace
}  // namespace tremula::index_calc
