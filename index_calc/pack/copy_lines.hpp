// SPDX-License-Identifier: Apache-2.0
#pragma once
// The two properties of the processor that large copies depend on: the width of its stores and the
// size of its caches. The processor states both, so nothing is timed. Measurements showed that the
// distance at which the source is prefetched matters little: any distance from 4 to 16 KiB is
// within 5 % of the best.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace tremula::index_calc {

inline constexpr std::ptrdiff_t cache_line = 64;

/// Attribute of functions that only prefetch: without it, GCC assumes that they do nothing and
/// drops calls of them.
#define TREMULA_PREFETCHES [[gnu::always_inline]] inline

/// Fetches a line that is far away into the second-level cache. A fetch into the first-level cache
/// would take one of the core's few line fill buffers, which its stores also need.
TREMULA_PREFETCHES void prefetch_far(const std::byte* at) {
  constexpr int reads = 0, second_cache = 2;
  __builtin_prefetch(at, reads, second_cache);
}

inline std::ptrdiff_t bytes_after_line_begin(const void* at) {
  return static_cast<std::ptrdiff_t>(reinterpret_cast<std::uintptr_t>(at) % cache_line);
}

/// Copies whole lines, and prefetches the same number of lines, beginning at `ahead`.
/// @param to  the beginning of a line
using MoveLines = void (*)(std::byte* to, const std::byte* from, std::ptrdiff_t lines,
                           const std::byte* ahead);

struct CopyTuning {
  std::size_t cached_bytes = 0;      ///< arrays larger than this are read and written in memory
  MoveLines stream_lines = nullptr;  ///< writes past the cache
  MoveLines copy_lines = nullptr;    ///< writes into the cache
};

/// Returns the tuning for this processor, with its widest stores.
const CopyTuning& copy_tuning();

/// Width of stores: 16 bytes, which every processor supports, 32 or 64.
enum class StoreWidth { least, avx, avx512 };

/// Returns whether this processor has such stores.
bool has(StoreWidth width);

/// Returns the tuning for this processor with stores of a given width.
/// @pre has(width)
CopyTuning copy_tuning(StoreWidth width);

/// Makes all streamed bytes visible to other threads before anything that is written after this
/// call.
void end_streams();

/// The lines to prefetch while other lines are copied.
struct Ahead {
  const std::byte* at = nullptr;
  std::ptrdiff_t lines = 0;

  Ahead() = default;
  Ahead(const std::byte* begin, std::ptrdiff_t bytes)
      : at(begin), lines((bytes + cache_line - 1) / cache_line) {}

  TREMULA_PREFETCHES void prefetch(bool is_far, std::ptrdiff_t first_line = 0) const {
    if (is_far)
      for (std::ptrdiff_t i = first_line; i < lines; ++i) prefetch_far(at + i * cache_line);
    else
      for (std::ptrdiff_t i = first_line; i < lines; ++i) __builtin_prefetch(at + i * cache_line);
  }
};

template <std::size_t bytes>
void copy_fixed(std::byte* to, const std::byte* from) {
  std::memcpy(to, from, bytes);
}

/// Copies a contiguous run, without a call if it is short.
inline void copy_run(std::byte* to, const std::byte* from, std::ptrdiff_t bytes) {
  constexpr std::ptrdiff_t longest_inline = 256;
  if (bytes > longest_inline) {
    // If GCC knows a bound on the length, it turns the call into `rep movs`, which takes longer.
    asm("" : "+r"(bytes));
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  } else if (bytes >= 16) {
    for (std::ptrdiff_t i = 0; i + 16 < bytes; i += 16) copy_fixed<16>(to + i, from + i);
    copy_fixed<16>(to + bytes - 16, from + bytes - 16);
  } else if (bytes >= 8) {
    copy_fixed<8>(to, from);
    copy_fixed<8>(to + bytes - 8, from + bytes - 8);
  } else if (bytes >= 4) {
    copy_fixed<4>(to, from);
    copy_fixed<4>(to + bytes - 4, from + bytes - 4);
  } else {
    for (std::ptrdiff_t i = 0; i < bytes; ++i) to[i] = from[i];
  }
}

/// Streams one line, without a call.
inline void stream_line(std::byte* to, const std::byte* from) {
#ifdef __SSE2__
  __m128i line[4];
  for (int i = 0; i < 4; ++i) line[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from) + i);
  for (int i = 0; i < 4; ++i) _mm_stream_si128(reinterpret_cast<__m128i*>(to) + i, line[i]);
#else
  copy_fixed<cache_line>(to, from);
#endif
}

/// Copies a contiguous run; whole lines are streamed.
inline void stream_run(std::byte* to, const std::byte* from, std::ptrdiff_t bytes) {
  std::ptrdiff_t at = 0;
  if (const std::ptrdiff_t begun = bytes_after_line_begin(to); begun > 0) {
    at = std::min(cache_line - begun, bytes);
    copy_run(to, from, at);
  }
  for (; at + cache_line <= bytes; at += cache_line) stream_line(to + at, from + at);
  if (at < bytes) copy_run(to + at, from + at, bytes - at);
}

/// Copies a run that is not in a cache, with the processor's widest stores.
/// @param ahead       lines to prefetch while the last lines of the run are copied
/// @param prefetched  bytes of the run that are prefetched already; the move prefetches the others
inline void move_long_run(MoveLines move_lines, std::byte* to, const std::byte* from,
                          std::ptrdiff_t bytes, Ahead ahead, std::ptrdiff_t prefetched) {
  std::ptrdiff_t at = (cache_line - bytes_after_line_begin(to)) % cache_line;
  copy_run(to, from, at);
  const auto move = [&](std::ptrdiff_t lines, const std::byte* prefetched_now) {
    move_lines(to + at, from + at, lines, prefetched_now);
    at += lines * cache_line;
  };
  if (bytes - at > prefetched) move((bytes - at - prefetched) / cache_line, from + at + prefetched);
  const std::ptrdiff_t together = std::min((bytes - at) / cache_line, ahead.lines);
  if (together > 0) move(together, ahead.at);
  ahead.prefetch(true, together);
  move((bytes - at) / cache_line, from + at);
  copy_run(to + at, from + at, bytes - at);
}

}  // namespace tremula::index_calc
