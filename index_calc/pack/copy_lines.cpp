// SPDX-License-Identifier: Apache-2.0
#include "index_calc/pack/copy_lines.hpp"

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>
#define TREMULA_KNOWS_X86 1
#endif

namespace tremula::index_calc {
namespace {

#ifdef TREMULA_KNOWS_X86

// Functions with wider stores are compiled for processors that have them; the loop cannot be one
// template, because such functions are not inlined into others.
// NOLINTBEGIN(bugprone-macro-parentheses): an argument is a type
#define TREMULA_MOVE_LINES(name, processor, Register, load, store)                                 \
  [[gnu::target(processor)]] void name(std::byte* to, const std::byte* from, std::ptrdiff_t lines, \
                                       const std::byte* ahead) {                                   \
    constexpr std::size_t registers = cache_line / sizeof(Register);                               \
    for (; lines > 0; --lines, to += cache_line, from += cache_line, ahead += cache_line) {        \
      prefetch_far(ahead);                                                                         \
      Register line[registers];                                                                    \
      for (std::size_t i = 0; i < registers; ++i)                                                  \
        line[i] = load(reinterpret_cast<const Register*>(from) + i);                               \
      for (std::size_t i = 0; i < registers; ++i)                                                  \
        store(reinterpret_cast<Register*>(to) + i, line[i]);                                       \
    }                                                                                              \
  }

TREMULA_MOVE_LINES(stream_16, "sse2", __m128i, _mm_loadu_si128, _mm_stream_si128)
TREMULA_MOVE_LINES(stream_32, "avx", __m256i, _mm256_loadu_si256, _mm256_stream_si256)
TREMULA_MOVE_LINES(stream_64, "avx512f", __m512i, _mm512_loadu_si512, _mm512_stream_si512)
TREMULA_MOVE_LINES(copy_16, "sse2", __m128i, _mm_loadu_si128, _mm_store_si128)
TREMULA_MOVE_LINES(copy_32, "avx", __m256i, _mm256_loadu_si256, _mm256_store_si256)
TREMULA_MOVE_LINES(copy_64, "avx512f", __m512i, _mm512_loadu_si512, _mm512_store_si512)
// NOLINTEND(bugprone-macro-parentheses)

/// Returns the size of the second-level cache; 0 if the processor does not state it. In a virtual
/// machine each query takes some microseconds, so the number that this cache nearly always has is
/// queried first.
std::size_t second_cache_bytes() {
  constexpr unsigned intel = 4, amd = 0x8000001D;
  for (const unsigned leaf : {intel, amd}) {
    if (__get_cpuid_max(leaf & 0x80000000, nullptr) < leaf) continue;
    for (const unsigned cache : {2U, 1U, 3U}) {
      unsigned a = 0, b = 0, c = 0, d = 0;
      __cpuid_count(leaf, cache, a, b, c, d);
      if ((a & 31U) == 0) continue;
      const unsigned level = a >> 5U & 7U;
      const std::size_t ways = (b >> 22U) + 1, partitions = (b >> 12U & 1023U) + 1,
                        line = (b & 4095U) + 1, sets = std::size_t{c} + 1;
      if (level == 2) return ways * partitions * line * sets;
    }
  }
  return 0;
}

#else

void move_lines(std::byte* to, const std::byte* from, std::ptrdiff_t lines,
                const std::byte* ahead) {
  for (; lines > 0; --lines, to += cache_line, from += cache_line, ahead += cache_line) {
    prefetch_far(ahead);
    copy_fixed<cache_line>(to, from);
  }
}

std::size_t second_cache_bytes() { return 0; }

#endif

/// Returns CopyTuning::cached_bytes. The source and the destination of a copy share this cache,
/// but need not both fit in it: parts that do not fit are still in the third-level cache, which
/// many cores share.
std::size_t cached_bytes() {
  constexpr std::size_t least = std::size_t{1} << 20;
  return std::max(least, 2 * second_cache_bytes());
}

}  // namespace

bool has(StoreWidth width) {
#ifdef TREMULA_KNOWS_X86
  switch (width) {
    case StoreWidth::least:
      return true;
    case StoreWidth::avx:
      return __builtin_cpu_supports("avx");
    case StoreWidth::avx512:
      return __builtin_cpu_supports("avx512f");
  }
#endif
  return width == StoreWidth::least;
}

CopyTuning copy_tuning([[maybe_unused]] StoreWidth width) {
  CopyTuning result{.cached_bytes = cached_bytes()};
#ifdef TREMULA_KNOWS_X86
  result.stream_lines = width == StoreWidth::avx512 ? stream_64
                        : width == StoreWidth::avx  ? stream_32
                                                    : stream_16;
  result.copy_lines = width == StoreWidth::avx512 ? copy_64
                      : width == StoreWidth::avx  ? copy_32
                                                  : copy_16;
#else
  result.stream_lines = result.copy_lines = move_lines;
#endif
  return result;
}

const CopyTuning& copy_tuning() {
  static const CopyTuning tuning = [] {
    for (const StoreWidth width : {StoreWidth::avx512, StoreWidth::avx})
      if (has(width)) return copy_tuning(width);
    return copy_tuning(StoreWidth::least);
  }();
  return tuning;
}

void end_streams() {
#ifdef TREMULA_KNOWS_X86
  _mm_sfence();
#endif
}

}  // namespace tremula::index_calc
