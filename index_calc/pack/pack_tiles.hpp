// SPDX-License-Identifier: Apache-2.0
#pragma once
// Copies between two buffers that differ in their closest axis. Tiles of both axes are transposed
// in registers into a small contiguous buffer. Each side is then accessed in pieces of whole cache
// lines, even if these are a power of two apart and evict each other from the cache. This is 3 to 9
// times as fast as tiles of 16 x 16 elements without a buffer.
#include <algorithm>
#include <array>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "index_calc/pack/pack_bars.hpp"
#include "index_calc/pack/pack_walk.hpp"

namespace tremula::index_calc {

#ifdef __SSE2__
template <std::size_t unit>
__m128i interleave_low(__m128i a, __m128i b) {
  if constexpr (unit == 1) return _mm_unpacklo_epi8(a, b);
  if constexpr (unit == 2) return _mm_unpacklo_epi16(a, b);
  if constexpr (unit == 4) return _mm_unpacklo_epi32(a, b);
  return _mm_unpacklo_epi64(a, b);
}
template <std::size_t unit>
__m128i interleave_high(__m128i a, __m128i b) {
  if constexpr (unit == 1) return _mm_unpackhi_epi8(a, b);
  if constexpr (unit == 2) return _mm_unpackhi_epi16(a, b);
  if constexpr (unit == 4) return _mm_unpackhi_epi32(a, b);
  return _mm_unpackhi_epi64(a, b);
}

/// Number of units along one side of the square that `transpose` takes.
template <std::size_t unit>
constexpr Index square = 16 / unit;

/// Transposes a square whose side has as many units as a register holds.
template <std::size_t unit>
void transpose(const std::byte* from, std::ptrdiff_t from_step, std::byte* to,
               std::ptrdiff_t to_step) {
  constexpr std::size_t n = square<unit>;
  __m128i rows[n], mixed[n];
  for (std::size_t i = 0; i < n; ++i, from += from_step)
    rows[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  // Each pass interleaves row i with row i + n/2; log2 n passes transpose the square.
  for (std::size_t done = 1; done < n; done *= 2) {
    for (std::size_t i = 0; i < n / 2; ++i) {
      mixed[2 * i] = interleave_low<unit>(rows[i], rows[i + n / 2]);
      mixed[2 * i + 1] = interleave_high<unit>(rows[i], rows[i + n / 2]);
    }
    std::copy(mixed, mixed + n, rows);
  }
  for (std::size_t i = 0; i < n; ++i, to += to_step)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), rows[i]);
}
#else
template <std::size_t unit>
constexpr Index square = 1;

template <std::size_t unit>
void transpose(const std::byte* from, std::ptrdiff_t, std::byte* to, std::ptrdiff_t) {
  copy_fixed<unit>(to, from);
}
#endif

/// A tile of units of one width, copied to a contiguous buffer.
template <std::size_t unit>
class Tile {
public:
  /// Number of units along one side: 256 bytes, or fewer so that a tile fits in the first-level
  /// cache.
  static constexpr Index side = std::min<Index>(64, 256 / unit);

  /// Fetches the source, unless its units are far apart in `near`.
  TREMULA_PREFETCHES static void prefetch(const Bar& near, const Bar& far, const std::byte* from) {
    if (near.from_step != width) return;
    const std::ptrdiff_t bytes = near.count * width;
    for (Index f = 0; f < far.count; ++f, from += far.from_step)
      for (std::ptrdiff_t i = 0; i < bytes + cache_line - 1; i += cache_line)
        __builtin_prefetch(from + std::min(i, bytes - 1));
  }

  /// Reads a tile.
  /// @pre the counts of both bars are at most `side`; their offsets are not used
  void read(const Bar& near, const Bar& far, const std::byte* from) {
    // Squares come first, then the rest.
    const bool has_squares = near.from_step == width;
    const Index near_done = has_squares ? near.count - near.count % square<unit> : 0;
    const Index far_done = far.count - far.count % square<unit>;
    for (Index n = 0; n < near_done; n += square<unit>)
      for (Index f = 0; f < far_done; f += square<unit>)
        transpose<unit>(from + n * width + f * far.from_step, far.from_step, at(n, f), row);
    for (Index n = 0; n < near.count; ++n)
      for (Index f = n < near_done ? far_done : 0; f < far.count; ++f)
        copy_fixed<unit>(at(n, f), from + n * near.from_step + f * far.from_step);
  }

  template <class Mover>
  void write(const Bar& near, const Bar& far, std::byte* to, const BarCopier<Mover>& copy) {
    for (Index n = 0; n < near.count; ++n, to += near.to_step)
      copy.copy_now(to, at(n, 0), far.count, far.to_step, width);
  }

private:
  static constexpr auto width = static_cast<std::ptrdiff_t>(unit);
  static constexpr std::ptrdiff_t row = side * width;

  std::byte* at(Index n, Index f) { return buffer_.data() + n * row + f * width; }

  alignas(cache_line) std::array<std::byte, static_cast<std::size_t>(side* row)> buffer_;
};

/// Copies the outer product of the units of `near`, the closest axis in `from`, and the units of
/// `far`, the closest axis in `to`.
/// @tparam unit  bytes of a unit in `from`
template <std::size_t unit, class Mover>
void copy_tiles(const Bar& near, const Bar& far, const std::byte* from, std::byte* to,
                const BarCopier<Mover>& copy) {
  constexpr Index side = Tile<unit>::side;
  // Number of pages in use at a time; the processor keeps this many address translations.
  constexpr Index band = 512;
  Tile<unit> tile;
  Bar n = near, f = far;
  for (Index begin = 0; begin < far.count; begin += band)
    for (Index i = 0; i < near.count; i += side) {
      n.count = std::min(side, near.count - i);
      const Index end = std::min(begin + band, far.count);
      for (Index k = begin; k < end; k += side) {
        f.count = std::min(side, end - k);
        std::byte* const target = to + i * near.to_step + k * far.to_step;
        const std::byte* const source = from + i * near.from_step + k * far.from_step;
        for (Index row = 0; row < n.count; ++row)
          copy.prefetch_target(target + row * near.to_step, f.count, far.to_step);
        tile.read(n, f, source);
        f.count = std::min(side, end - k - f.count);
        Tile<unit>::prefetch(n, f, source + side * far.from_step);
        f.count = std::min(side, end - k);
        tile.write(n, f, target, copy);
      }
    }
}

}  // namespace tremula::index_calc
