// SPDX-License-Identifier: Apache-2.0
#pragma once
// Copies bars: equally spaced units of one size.
//
// Two things make a large copy slow, and both are addressed here. First, a store into a line that
// is not in the cache reads that line, so whole lines are *streamed*, that is, written past the
// cache. Second, a core waits for one miss after another if runs end before the hardware predicts
// the next run, or jump from page to page. So bars are cut into pieces and queued, and a piece is
// prefetched while an earlier one is copied: the lines needed next are always being fetched, and
// the lines between two runs never are. tests/bench/runs_bench.cpp compares this with plain loops
// over the same runs.
#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "index_calc/layout/layout.hpp"
#include "index_calc/pack/copy_lines.hpp"
#include "index_calc/pack/pack_walk.hpp"

namespace tremula::index_calc {

/// Fetches the lines that a stream of these bytes writes only in part, so that it need not wait for
/// them.
TREMULA_PREFETCHES void prefetch_ends(std::byte* to, std::ptrdiff_t bytes, bool is_far) {
  std::byte* const last = to + bytes - 1;
  const bool is_begun = bytes_after_line_begin(to) > 0,
             is_open = bytes_after_line_begin(to + bytes) > 0;
  if (is_far) {
    if (is_begun) prefetch_far(to);
    if (is_open) prefetch_far(last);
  } else {
    if (is_begun) __builtin_prefetch(to, 1);
    if (is_open) __builtin_prefetch(last, 1);
  }
}

inline constexpr std::ptrdiff_t shortest_stream = 128;

/// Returns whether a copy that streams writes whole lines of such a run without reading them.
inline bool is_worth_streaming(const std::byte* to, std::ptrdiff_t bytes) {
  return bytes >= shortest_stream || (bytes >= cache_line && bytes_after_line_begin(to) == 0);
}

/// Returns whether such runs consist of whole lines.
inline bool are_lines(const std::byte* to, std::ptrdiff_t to_step, std::ptrdiff_t bytes) {
  return (bytes_after_line_begin(to) | to_step % cache_line | bytes % cache_line) == 0;
}

/// Number of bytes whose lines are prefetched before the first of them is copied.
inline constexpr std::ptrdiff_t queue_bytes = 8192;
/// Number of bytes of the lines in a piece that is not a single run.
inline constexpr std::ptrdiff_t piece_bytes = 1024;
/// Size in bytes of the shortest run that is moved by wide stores and prefetched on the way.
inline constexpr std::ptrdiff_t shortest_long_run = 1024;
/// Size in bytes of the largest unit that is not a run by itself.
inline constexpr std::ptrdiff_t largest_apart = 16;

/// How a copy uses the caches.
struct CacheUse {
  bool prefetches = false;  ///< true if the elements are not in a cache
  bool streams = false;     ///< true if the destination will not be in a cache when it is complete
  /// Whether the buffer is so large that it is in memory, not in a third-level cache.
  bool is_source_far = false, is_target_far = false;
  MoveLines move_lines = nullptr;  ///< streams if `streams` is true
};

/// The mover of BarCopier that copies the bytes of a bar as they are.
/// @tparam Unit  std::ptrdiff_t, or std::integral_constant so that the compiler knows the size
template <class Unit>
class ByteMover {
public:
  ByteMover(Unit unit, CacheUse use) : unit_(unit), use_(use) {}

  /// Return the size of the parts of a unit (widths), and the size of a unit, in bytes.
  std::ptrdiff_t from_width() const { return 1; }
  std::ptrdiff_t to_width() const { return 1; }
  std::ptrdiff_t from_unit() const { return unit_; }
  std::ptrdiff_t to_unit() const { return unit_; }
  bool streams() const { return use_.streams; }
  /// Returns whether short runs of the source are fetched into the second-level cache. Long runs
  /// always are, and so are streamed runs, which leaves the fill buffers of the first level to the
  /// stores.
  bool is_source_far() const { return use_.streams || use_.is_source_far; }
  bool is_target_far() const { return use_.is_target_far; }
  /// Returns the most bytes of the source that move_run takes at a time.
  static std::ptrdiff_t longest_run() { return std::numeric_limits<std::ptrdiff_t>::max(); }
  /// Returns whether move_run itself prefetches the rest of a long run.
  static bool prefetches_long_runs() { return true; }

  /// Moves a contiguous run of `count` widths.
  void move_run(std::byte* to, const std::byte* from, Index count, Ahead ahead) const {
    if (use_.prefetches && count >= shortest_long_run)
      return move_long_run(use_.move_lines, to, from, count, ahead, queue_bytes);
    ahead.prefetch(is_source_far());
    if (use_.streams && is_worth_streaming(to, count))
      stream_run(to, from, count);
    else
      copy_run(to, from, count);
  }

  /// Moves runs of `run` widths.
  void move_runs(std::byte* to, const std::byte* from, Index count, std::ptrdiff_t to_step,
                 std::ptrdiff_t from_step, Index run) const {
    if (use_.streams && are_lines(to, to_step, run)) {
      for (; count > 0; --count, to += to_step, from += from_step)
        for (std::ptrdiff_t i = 0; i < run; i += cache_line) stream_line(to + i, from + i);
    } else {
      for (; count > 0; --count, to += to_step, from += from_step) move_run(to, from, run, {});
    }
  }

  /// Moves units that have space between them in one of the buffers.
  void move_apart(std::byte* to, const std::byte* from, Index count, std::ptrdiff_t to_step,
                  std::ptrdiff_t from_step) const {
    if constexpr (std::is_same_v<Unit, std::ptrdiff_t>) {
      for (; count > 0; --count, to += to_step, from += from_step) move_run(to, from, unit_, {});
    } else {
      if (use_.streams && to_step == unit_ && count > 0 && count * unit_ <= piece_bytes &&
          is_worth_streaming(to, count * unit_))
        return gather(to, from, count, from_step);
      for (; count > 0; --count, to += to_step, from += from_step)
        copy_fixed<Unit::value>(to, from);
    }
  }

private:
  /// Copies units through a small buffer, so that whole lines are streamed.
  /// @pre count > 0
  void gather(std::byte* to, const std::byte* from, Index count, std::ptrdiff_t from_step) const {
    alignas(cache_line) std::array<std::byte, piece_bytes> buffer;
    std::byte* end = buffer.data();
    do {
      copy_fixed<Unit::value>(end, from);
      from += from_step, end += unit_;
    } while (--count > 0);
    stream_run(to, buffer.data(), end - buffer.data());
  }

  Unit unit_;
  CacheUse use_;
};

/// Moves bars, with prefetches and through a queue if they are not in a cache.
/// @tparam Mover  ByteMover, or a class with the same functions
template <class Mover>
class BarCopier {
public:
  BarCopier(const Mover& mover, CacheUse use) : move_(mover), use_(use) {}

  std::ptrdiff_t from_unit() const { return move_.from_unit(); }
  std::ptrdiff_t to_unit() const { return move_.to_unit(); }

  /// Moves `count` units, at the latest in finish(); `from` must not change until then.
  void operator()(std::byte* to, const std::byte* from, Index count, std::ptrdiff_t to_step,
                  std::ptrdiff_t from_step) {
    if (!use_.prefetches) return copy_now(to, from, count, to_step, from_step);
    const Index widths = from_unit() / move_.from_width();  // widths of a unit
    if (is_run(to_step, from_step)) return push_run(to, from, count * widths);
    if (from_unit() > largest_apart) return push_runs(to, from, count, to_step, from_step, widths);
    const Index most =
        std::min(units_of_piece(from_unit(), from_step), units_of_piece(to_unit(), to_step));
    for (Index i = 0; i < count; i += most)
      push_apart(to + i * to_step, from + i * from_step, std::min(most, count - i), to_step,
                 from_step);
  }

  /// Moves a comb.
  /// @param to, from  addresses of its first bar
  void operator()(std::byte* to, const std::byte* from, const Comb& comb) {
    const Bar& bar = comb.bar;
    if (comb.count > 1 && is_run(bar.to_step, bar.from_step)) {
      const Index widths = bar.count * (from_unit() / move_.from_width());
      return use_.prefetches
                 ? push_runs(to, from, comb.count, comb.to_step, comb.from_step, widths)
                 : move_.move_runs(to, from, comb.count, comb.to_step, comb.from_step, widths);
    }
    for (Index i = 0; i < comb.count; ++i, to += comb.to_step, from += comb.from_step)
      (*this)(to, from, bar.count, bar.to_step, bar.from_step);
  }

  /// Moves `count` units immediately, for a source in the cache.
  void copy_now(std::byte* to, const std::byte* from, Index count, std::ptrdiff_t to_step,
                std::ptrdiff_t from_step) const {
    if (is_run(to_step, from_step))
      move_.move_run(to, from, count * (from_unit() / move_.from_width()), {});
    else
      move_.move_apart(to, from, count, to_step, from_step);
  }

  /// Fetches the lines of the destination that must be read before copy_now can write them.
  TREMULA_PREFETCHES void prefetch_target(std::byte* to, Index count,
                                          std::ptrdiff_t to_step) const {
    if (to_step == to_unit())
      prefetch_target_run(to, count * to_unit());
    else if (use_.prefetches)
      prefetch<1>(to, to_unit(), count, to_step);
  }

  void finish() {
    drain();
    if (use_.streams) end_streams();
  }

private:
  /// A queued part of a bar or comb: units with space between them, or runs.
  struct Piece {
    std::byte* to;
    const std::byte* from;
    Index count;
    std::ptrdiff_t to_step, from_step;
    Index run;  ///< widths of a run; 0 for units
  };

  bool is_run(std::ptrdiff_t to_step, std::ptrdiff_t from_step) const {
    return to_step == to_unit() && from_step == from_unit();
  }

  /// Returns how many bytes of cache lines each unit occupies.
  static std::ptrdiff_t in_lines(std::ptrdiff_t unit, std::ptrdiff_t step) {
    return std::max(unit, std::min(step, cache_line));
  }
  static Index units_of_piece(std::ptrdiff_t unit, std::ptrdiff_t step) {
    return std::max<Index>(1, piece_bytes / in_lines(unit, step));
  }

  /// @param count  widths
  void push_run(std::byte* to, const std::byte* from, Index count) {
    const std::ptrdiff_t width = move_.from_width(), to_width = move_.to_width();
    if (!move_.prefetches_long_runs() && count * width >= shortest_long_run)
      return move_.move_run(to, from, count, {});
    const Index most = move_.longest_run() / width;
    for (; count > 0; count -= most, to += most * to_width, from += most * width) {
      const Index now = std::min(most, count);
      prefetch_target_run(to, now * to_width);
      // Beyond these bytes, move_run itself prefetches.
      const std::ptrdiff_t bytes = std::min(now * width, queue_bytes);
      push({to, from, 1, 0, 0, now}, bytes, {from, bytes});
    }
  }

  /// Queues runs; short runs share a piece.
  /// @param run  widths of each run
  void push_runs(std::byte* to, const std::byte* from, Index count, std::ptrdiff_t to_step,
                 std::ptrdiff_t from_step, Index run) {
    const std::ptrdiff_t bytes = run * move_.from_width();
    const Index most = piece_bytes / bytes;
    if (constexpr Index worth_sharing = 8; most < worth_sharing) {
      for (; count > 0; --count, to += to_step, from += from_step) push_run(to, from, run);
      return;
    }
    const bool is_in_lines = move_.streams() && are_lines(to, to_step, run * move_.to_width());
    for (; count > 0; count -= most, to += most * to_step, from += most * from_step) {
      const Index now = std::min(most, count);
      if (from_step == bytes)
        Ahead(from, now * bytes).prefetch(move_.is_source_far());
      else
        for (Index i = 0; i < now; ++i)
          Ahead(from + i * from_step, bytes).prefetch(move_.is_source_far());
      if (!is_in_lines)
        for (Index i = 0; i < now; ++i)
          prefetch_target_run(to + i * to_step, run * move_.to_width());
      push({to, from, now, to_step, from_step, run}, now * bytes, {});
    }
  }

  void push_apart(std::byte* to, const std::byte* from, Index count, std::ptrdiff_t to_step,
                  std::ptrdiff_t from_step) {
    prefetch<0>(from, from_unit(), count, from_step);
    prefetch_target(to, count, to_step);
    constexpr std::ptrdiff_t share = queue_bytes / 16;
    push({to, from, count, to_step, from_step, 0}, share, {});
  }

  /// Queues a piece; if the queue is full, moves the oldest piece.
  /// @param bytes  share of `queue_bytes`
  /// @param ahead  lines of the piece's source that are yet to be prefetched
  void push(const Piece& piece, std::ptrdiff_t bytes, Ahead ahead) {
    if (bytes > most_bytes_) make_room(bytes);
    Piece& slot = queue_[next_];
    if (queued_ == slots_) {
      move(slot, ahead);
    } else {
      ahead.prefetch(move_.is_source_far());
      ++queued_;
    }
    slot = piece;
    if (++next_ == slots_) next_ = 0;
  }

  /// Resizes the queue for pieces of this many bytes: the larger they are, the fewer are queued.
  [[gnu::noinline]] void make_room(std::ptrdiff_t bytes) {
    drain();
    most_bytes_ = bytes;
    slots_ =
        std::clamp<std::size_t>(static_cast<std::size_t>(queue_bytes / bytes), 1, queue_.size());
  }

  [[gnu::noinline]] void drain() {
    for (std::size_t i = queued_ == slots_ ? next_ : 0; queued_ > 0; --queued_) {
      move(queue_[i], {});
      if (++i == slots_) i = 0;
    }
    next_ = 0;
  }

  void move(const Piece& p, Ahead ahead) const {
    if (p.run > 0 && p.count == 1) return move_.move_run(p.to, p.from, p.run, ahead);
    ahead.prefetch(move_.is_source_far());
    if (p.run == 0) return move_.move_apart(p.to, p.from, p.count, p.to_step, p.from_step);
    move_.move_runs(p.to, p.from, p.count, p.to_step, p.from_step, p.run);
  }

  TREMULA_PREFETCHES void prefetch_target_run(std::byte* to, std::ptrdiff_t bytes) const {
    if (move_.streams() && is_worth_streaming(to, bytes))
      prefetch_ends(to, bytes, move_.is_target_far());
    else if (use_.prefetches && bytes < shortest_long_run)  // the hardware predicts longer ones
      prefetch<1>(to, bytes, 1, bytes);
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

  Mover move_;
  CacheUse use_;
  std::array<Piece, 32> queue_;  // a ring of `slots_`
  std::size_t slots_ = 0, next_ = 0, queued_ = 0;
  std::ptrdiff_t most_bytes_ = 0;  // largest share of any piece so far
};

}  // namespace tremula::index_calc
