// SPDX-License-Identifier: Apache-2.0
#include "index_calc/transform/conversions.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "index_calc/pack/copy_lines.hpp"
#include "index_calc/transform/small_floats.hpp"

namespace tremula::index_calc {
namespace {

using core::ElementType, core::Index;

#define TREMULA_AVX2 [[gnu::target("avx2,f16c")]]

template <class T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

constexpr int round_to_nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

TREMULA_AVX2 void f16_from_f32(std::byte* to, const std::byte* from, Index count) {
  for (; count >= 8; count -= 8, from += 32, to += 16)
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(to),
        _mm256_cvtps_ph(_mm256_loadu_ps(reinterpret_cast<const float*>(from)), round_to_nearest));
  for (; count > 0; --count, from += 4, to += 2) store(to, f16_of(load<float>(from)));
}

TREMULA_AVX2 void f32_from_f16(std::byte* to, const std::byte* from, Index count) {
  for (; count >= 8; count -= 8, from += 16, to += 32)
    _mm256_storeu_ps(reinterpret_cast<float*>(to),
                     _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
  for (; count > 0; --count, from += 2, to += 4) store(to, float_of_f16(load<std::uint16_t>(from)));
}

TREMULA_AVX2 void bf16_from_f32(std::byte* to, const std::byte* from, Index count) {
  for (Index i = 0; i < count; ++i) store(to + 2 * i, bf16_of(load<float>(from + 4 * i)));
}

TREMULA_AVX2 void f32_from_bf16(std::byte* to, const std::byte* from, Index count) {
  for (Index i = 0; i < count; ++i)
    store(to + 4 * i, float_of_bf16(load<std::uint16_t>(from + 2 * i)));
}

TREMULA_AVX2 void odd_f32_from_f64(std::byte* to, const std::byte* from, Index count) {
  for (Index i = 0; i < count; ++i) store(to + 4 * i, rounded_to_odd(load<double>(from + 8 * i)));
}

TREMULA_AVX2 void f64_from_f32(std::byte* to, const std::byte* from, Index count) {
  for (Index i = 0; i < count; ++i)
    store(to + 8 * i, static_cast<double>(load<float>(from + 4 * i)));
}

/// Converts through float, in pieces that stay in the first-level cache.
template <Conversion first, std::size_t from_bytes, Conversion second, std::size_t to_bytes>
void by_float(std::byte* to, const std::byte* from, Index count) {
  std::array<std::byte, 4096> floats;
  while (count > 0) {
    const Index now = std::min(count, static_cast<Index>(floats.size() / sizeof(float)));
    first(floats.data(), from, now);
    second(to, floats.data(), now);
    from += now * static_cast<Index>(from_bytes);
    to += now * static_cast<Index>(to_bytes);
    count -= now;
  }
}

/// Size of a cache line in bytes. A line of `to` is made from two lines of `from`.
constexpr std::ptrdiff_t line = 64;

TREMULA_AVX2 void f16_lines_from_f32(std::byte* to, const std::byte* from, Index lines,
                                     const std::byte* ahead) {
  for (; lines > 0; --lines, from += 2 * line, ahead += 2 * line) {
    prefetch_far(ahead);
    prefetch_far(ahead + line);
    for (std::ptrdiff_t at = 0; at < 2 * line; at += 32, to += 16)
      _mm_stream_si128(reinterpret_cast<__m128i*>(to),
                       _mm256_cvtps_ph(_mm256_loadu_ps(reinterpret_cast<const float*>(from + at)),
                                       round_to_nearest));
  }
}

/// Returns bf16_of() of eight floats, each in 32 bits.
TREMULA_AVX2 __m256i bf16_of_eight(const std::byte* from) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)),
                upper = _mm256_srli_epi32(bits, 16),
                odd = _mm256_and_si256(upper, _mm256_set1_epi32(1)),
                carried = _mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)),
                rounded = _mm256_srli_epi32(_mm256_add_epi32(carried, odd), 16),
                quiet = _mm256_or_si256(upper, _mm256_set1_epi32(0x40)),
                size = _mm256_and_si256(bits, _mm256_set1_epi32(0x7FFFFFFF)),
                is_nan = _mm256_cmpgt_epi32(size, _mm256_set1_epi32(0x7F800000));
  return _mm256_blendv_epi8(rounded, quiet, is_nan);
}

TREMULA_AVX2 void bf16_lines_from_f32(std::byte* to, const std::byte* from, Index lines,
                                      const std::byte* ahead) {
  for (; lines > 0; --lines, from += 2 * line, ahead += 2 * line) {
    prefetch_far(ahead);
    prefetch_far(ahead + line);
    for (std::ptrdiff_t at = 0; at < 2 * line; at += 64, to += 32) {
      const __m256i packed =
          _mm256_packus_epi32(bf16_of_eight(from + at), bf16_of_eight(from + at + 32));
      constexpr int in_order = 0xD8;  // packus packs each half of its arguments separately
      _mm256_stream_si256(reinterpret_cast<__m256i*>(to),
                          _mm256_permute4x64_epi64(packed, in_order));
    }
  }
}

bool has_avx2() {
  static const bool is_here = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
  return is_here;
}

}  // namespace

LineConversion line_conversion(ElementType from, ElementType to) noexcept {
  using enum ElementType;
  if (from != f32 || !has_avx2()) return nullptr;
  return to == f16 ? f16_lines_from_f32 : to == bf16 ? bf16_lines_from_f32 : nullptr;
}

Conversion vector_conversion(ElementType from, ElementType to) noexcept {
  if (!has_avx2()) return nullptr;
  using enum ElementType;
  if (from == f32) return to == f16 ? f16_from_f32 : to == bf16 ? bf16_from_f32 : nullptr;
  if (from == f64)
    return to == f16    ? by_float<odd_f32_from_f64, 8, f16_from_f32, 2>
           : to == bf16 ? by_float<odd_f32_from_f64, 8, bf16_from_f32, 2>
                        : nullptr;
  if (from == f16)
    return to == f32    ? f32_from_f16
           : to == f64  ? by_float<f32_from_f16, 2, f64_from_f32, 8>
           : to == bf16 ? by_float<f32_from_f16, 2, bf16_from_f32, 2>
                        : nullptr;
  if (from == bf16)
    return to == f32   ? f32_from_bf16
           : to == f64 ? by_float<f32_from_bf16, 2, f64_from_f32, 8>
           : to == f16 ? by_float<f32_from_bf16, 2, f16_from_f32, 2>
                       : nullptr;
  return nullptr;
}

}  // namespace tremula::index_calc
#else
namespace tremula::index_calc {
Conversion vector_conversion(core::ElementType, core::ElementType) noexcept { return nullptr; }
LineConversion line_conversion(core::ElementType, core::ElementType) noexcept { return nullptr; }
}  // namespace tremula::index_calc
#endif
