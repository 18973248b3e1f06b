// SPDX-License-Identifier: Apache-2.0
#pragma once
// Copies bars: equally spaced units of one size.
//
// Two things make a large copy slow, and both are dealt with here. A store into a line that is not
// in the cache first reads that line: whole lines are *streamed*, written past the cache (gathering
// runs of 512 bytes was 1.2 times as fast with it, scattering them 2.1 times), those of long runs
// four pages side by side (1.3 times as fast for 256 MiB from another process). And a core waits
// for one miss after the other where runs are too short for the hardware to foresee the next: bars
// are queued, their lines prefetched when they come and copied when some others have come (1.3 to 2
// times as fast for runs of 8 to 512 bytes). Wider registers than those of SSE2 gained nothing over
// this.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "index_calc/layout/layout.hpp"

namespace tremula::index_calc {

inline constexpr std::ptrdiff_t cache_line = 64;

/// For functions that only prefetch: gcc takes them for functions that do nothing, and drops calls.
#define TREMULA_PREFETCHES [[gnu::always_inline]] inline

inline std::ptrdiff_t bytes_after_line_begin(const void* at) {
  return static_cast<std::ptrdiff_t>(reinterpret_cast<std::uintptr_t>(at) % cache_line);
}

template <std::size_t bytes>
void copy_fixed(std::byte* to, const std::byte* from) {
  std::memcpy(to, from, bytes);
}

/// A contiguous run; the short ones without a call.
inline void copy_run(std::byte* to, const std::byte* from, std::ptrdiff_t bytes) {
  constexpr std::ptrdiff_t longest_inline = 256;
  if (bytes > longest_inline) {
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

#ifdef __SSE2__
inline constexpr bool can_stream = true;

inline void stream_line(std::byte* to, const std::byte* from) {
  __m128i line[4];
  for (int i = 0; i < 4; ++i) line[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from) + i);
  for (int i = 0; i < 4; ++i) _mm_stream_si128(reinterpret_cast<__m128i*>(to) + i, line[i]);
}

inline constexpr std::ptrdiff_t page = 4096, pages_at_a_time = 4, page_foresight = 1024;

/// As copy_run; whole cache lines are written past the cache.
/// @param foresight  `from` is prefetched so many bytes ahead; 0 if that was done before
inline void stream_run(std::byte* to, const std::byte* from, std::ptrdiff_t bytes,
                       std::ptrdiff_t foresight = 0) {
  std::ptrdiff_t at = 0;
  if (const std::ptrdiff_t begun = bytes_after_line_begin(to); begun > 0) {
    at = std::min(cache_line - begun, bytes);
    copy_run(to, from, at);
  }
  // Pages side by side, so that several of them are read from memory at a time.
  for (; at + pages_at_a_time * page <= bytes; at += pages_at_a_time * page)
    for (std::ptrdiff_t line = at; line < at + page; line += cache_line)
      for (std::ptrdiff_t p = line; p < line + pages_at_a_time * page; p += page) {
        __builtin_prefetch(from + p + page_foresight);
        stream_line(to + p, from + p);
      }
  for (; at + cache_line <= bytes; at += cache_line) {
    if (foresight > 0 && at + foresight < bytes) __builtin_prefetch(from + at + foresight);
    stream_line(to + at, from + at);
  }
  copy_run(to + at, from + at, bytes - at);
}

/// What was streamed is seen by others before what is written from here on.
inline void end_streams() { _mm_sfence(); }
#else
inline constexpr bool can_stream = false;
inline void stream_run(std::byte*, const std::byte*, std::ptrdiff_t, std::ptrdiff_t = 0) {}
inline void end_streams() {}
#endif

/// Fetches the lines that a stream of these bytes writes in part, so that it need not wait for
/// them.
TREMULA_PREFETCHES void prefetch_ends(std::byte* to, std::ptrdiff_t bytes) {
  if (bytes_after_line_begin(to) > 0) __builtin_prefetch(to, 1);
  if (bytes_after_line_begin(to + bytes) > 0) __builtin_prefetch(to + bytes - 1, 1);
}

inline constexpr std::ptrdiff_t shortest_stream = 128;
/// The hardware foresees longer runs of the source by itself, the sooner if it is contiguous.
inline constexpr std::ptrdiff_t longest_queued = 1024, longest_queued_apart = 4096;
inline constexpr std::ptrdiff_t foresight = 1024;

/// What a copy is too large for.
struct CacheUse {
  bool prefetches = false;  ///< the elements are not in a cache
  bool streams = false;     ///< nor will the destination be, when it is complete
};

/// What BarCopier makes of a bar: its bytes as they are.
/// @tparam Unit  std::ptrdiff_t, or std::integral_constant so that the compiler knows the size
template <class Unit>
class ByteMover {
public:
  ByteMover(Unit unit, CacheUse use) : unit_(unit), streams_(use.streams) {}

  std::ptrdiff_t from_unit() const { return unit_; }
  std::ptrdiff_t to_unit() const { return unit_; }

  /// Are the whole lines of such a bar written without being read?
  bool is_streamed(std::ptrdiff_t to_step, Index count) const {
    return can_stream && streams_ && to_step == unit_ && count * unit_ >= shortest_stream;
  }

  void operator()(std::byte* to, const std::byte* from, Index count, std::ptrdiff_t to_step,
                  std::ptrdiff_t from_step) const {
    if (to_step == unit_ && from_step == unit_) return copy_bytes(to, from, count * unit_);
    if constexpr (std::is_same_v<Unit, std::ptrdiff_t>) {
      for (; count > 0; --count, to += to_step, from += from_step) copy_bytes(to, from, unit_);
    } else {
      if (count * unit_ <= foresight && is_streamed(to_step, count))
        return gather(to, from, count, from_step);
      for (; count > 0; --count, to += to_step, from += from_step)
        copy_fixed<Unit::value>(to, from);
    }
  }

private:
  void copy_bytes(std::byte* to, const std::byte* from, std::ptrdiff_t bytes) const {
    if (can_stream && streams_ && bytes >= shortest_stream)
      stream_run(to, from, bytes, bytes < longest_queued ? 0 : foresight);
    else
      copy_run(to, from, bytes);
  }

  /// Through a small buffer, so that whole lines are streamed.
  void gather(std::byte* to, const std::byte* from, Index count, std::ptrdiff_t from_step) const {
    alignas(cache_line) std::array<std::byte, foresight> buffer;
    std::byte* end = buffer.data();
    for (; count > 0; --count, from += from_step, end += unit_) copy_fixed<Unit::value>(end, from);
    stream_run(to, buffer.data(), end - buffer.data());
  }

  Unit unit_;
  bool streams_;
};

/// @tparam Mover  as ByteMover
template <class Mover>
class BarCopier {
public:
  BarCopier(const Mover& mover, CacheUse use) : move_(mover), use_(use) {}

  std::ptrdiff_t from_unit() const { return move_.from_unit(); }
  std::ptrdiff_t to_unit() const { return move_.to_unit(); }

  /// Moves `count` units: at the latest by finish(), until when `from` must not change.
  void operator()(std::byte* to, const std::byte* from, Index count, std::ptrdiff_t to_step,
                  std::ptrdiff_t from_step) {
    const bool is_run = to_step == to_unit() && from_step == from_unit();
    const std::ptrdiff_t longest = from_step == from_unit() ? longest_queued : longest_queued_apart;
    if (!use_.prefetches || (is_run ? count * from_unit() : from_unit()) >= longest)
      return move_(to, from, count, to_step, from_step);
    const Index most = is_run ? count
                              : std::min(units_of_piece(from_unit(), from_step),
                                         units_of_piece(to_unit(), to_step));
    for (Index i = 0; i < count; i += most)
      push({to + i * to_step, from + i * from_step, std::min(most, count - i), to_step, from_step});
  }

  /// As above, at once: for a source in the cache.
  void copy_now(std::byte* to, const std::byte* from, Index count, std::ptrdiff_t to_step,
                std::ptrdiff_t from_step) const {
    move_(to, from, count, to_step, from_step);
  }

  /// Fetches the lines of the destination that must be read before copy_now can write them.
  TREMULA_PREFETCHES void prefetch_target(std::byte* to, Index count,
                                          std::ptrdiff_t to_step) const {
    if (move_.is_streamed(to_step, count))
      prefetch_ends(to, count * to_unit());
    else if (use_.prefetches)
      prefetch<1>(to, to_unit(), count, to_step);
  }

  void finish() {
    if (use_.prefetches)
      for (Piece& piece : queue_) copy(std::exchange(piece, {}));
    if (use_.streams) end_streams();
  }

private:
  struct Piece {
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    Index count = 0;
    std::ptrdiff_t to_step = 0, from_step = 0;
  };

  /// About `foresight` bytes of cache lines.
  static Index units_of_piece(std::ptrdiff_t unit, std::ptrdiff_t step) {
    return std::max<Index>(1, foresight / std::max(unit, std::min(step, cache_line)));
  }

  void push(const Piece& piece) {
    prefetch<0>(piece.from, from_unit(), piece.count, piece.from_step);
    prefetch_target(piece.to, piece.count, piece.to_step);
    copy(queue_[next_]);
    queue_[next_] = piece;
    next_ = (next_ + 1) % queue_.size();
  }

  template <int is_write>
  TREMULA_PREFETCHES static void prefetch(const std::byte* at, std::ptrdiff_t unit, Index count,
                                          std::ptrdiff_t step) {
    if (step == unit) {
      for (std::ptrdiff_t i = 0; i < count * step; i += cache_line)
        __builtin_prefetch(at + i, is_write);
      return;
    }
    const Index units = std::max<Index>(1, cache_line / step);
    for (Index i = 0; i < count; i += units)
      for (std::ptrdiff_t k = 0; k < unit; k += cache_line)
        __builtin_prefetch(at + i * step + k, is_write);
  }

  void copy(const Piece& p) const { copy_now(p.to, p.from, p.count, p.to_step, p.from_step); }

  Mover move_;
  CacheUse use_;
  std::array<Piece, 16> queue_{};
  std::size_t next_ = 0;
};

}  // namespace tremula::index_calc
