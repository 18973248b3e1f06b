// SPDX-License-Identifier: Apache-2.0
// A result does not depend on the processor: products and sums are rounded separately, even if the processor
// could fuse them. transform_functions.cpp is built a second time here, with the options that index_calc sets
// for it, for a processor that can fuse them.
#include <gtest/gtest.h>

#include <complex>
#include <utility>

#include "index_calc/transform/transform_functions.hpp"

namespace tremula::index_calc {

/// Returns the function of the second build, which may use FMA.
TransformFunction transform_function_for_fma(const Transformation& transformation);

namespace {

using core::ElementType;

template <class T>
T transformed(const TransformFunction& function, const Transformation& t, T from, T to) {
  constexpr auto width = static_cast<std::ptrdiff_t>(sizeof(T));
  Unfit unfit;
  function.function(reinterpret_cast<std::byte*>(&to), width,
                    reinterpret_cast<const std::byte*>(&from), width, 1, t, unfit);
  return to;
}

/// Relies on the square of 1 + 2^-30, which is 1 + 2^-29 + 2^-60: a double rounds it to 1 + 2^-29.
void expect_each_rounded(TransformFunction (*function)(const Transformation&)) {
  const double factor = 1 + 0x1p-30, rounded = 1 + 0x1p-29;
  Transformation t{.from = ElementType::f64, .to = ElementType::f64, .alpha = factor, .beta = -1};
  EXPECT_EQ(transformed(function(t), t, factor, rounded), 0.0);
  // A complex product: factor * factor - rounded * 1, and factor * 1 + rounded * factor.
  t.from = t.to = ElementType::c128;
  t.alpha = {factor, 1.0};
  t.beta = 0;
  using Pair = std::complex<double>;
  EXPECT_EQ(transformed(function(t), t, Pair(factor, rounded), Pair()).real(), 0.0);
  const float f_factor = 1 + 0x1p-13F, f_rounded = 1 + 0x1p-12F;
  t = {.from = ElementType::f32, .to = ElementType::f32, .alpha = f_factor, .beta = -1};
  EXPECT_EQ(transformed(function(t), t, f_factor, f_rounded), 0.0F);
}

/// Uses complex products whose real part is factor*factor - rounded*1 or rounded*1 - factor*factor. The real
/// part is 0 if both real products are rounded before the subtraction, whichever of them could be fused with
/// it. alpha or beta is the complex factor.
void expect_each_part_rounded(TransformFunction (*function)(const Transformation&)) {
  using Pair = std::complex<double>;
  const double factor = 1 + 0x1p-30, rounded = 1 + 0x1p-29;
  const std::pair<Pair, Pair> products[] = {{{factor, 1.0}, {factor, rounded}},
                                            {{1.0, factor}, {rounded, factor}}};
  for (const auto& [a, b] : products) {
    Transformation t{.from = ElementType::c128, .to = ElementType::c128, .alpha = a, .beta = 0};
    EXPECT_EQ(transformed(function(t), t, b, Pair()).real(), 0.0);
    t.beta = 1;
    EXPECT_EQ(transformed(function(t), t, b, Pair()).real(), 0.0);
    t.alpha = 1;
    t.beta = a;
    EXPECT_EQ(transformed(function(t), t, Pair(), b).real(), 0.0);
  }
}

TEST(Contraction, DoesNotHappenInTheOrdinaryBuild) {
  expect_each_rounded(transform_function);
  expect_each_part_rounded(transform_function);
}

TEST(Contraction, DoesNotHappenWithFusedInstructions) {
  if (!__builtin_cpu_supports("fma")) GTEST_SKIP() << "this processor has no FMA";
  expect_each_rounded(transform_function_for_fma);
  expect_each_part_rounded(transform_function_for_fma);
}

}  // namespace
}  // namespace tremula::index_calc
