// SPDX-License-Identifier: Apache-2.0
// A package is walked as nested loops, one per dimension. Before the walk the loops are simplified:
// a dimension of one element needs no loop; the fastest dimensions are one *unit* as long as they
// are contiguous in memory. Then the fastest loop moves units: neighbouring ones by memcpy, distant
// ones one by one with a copy of fixed size. If another loop than the fastest is contiguous in
// memory (the two sides store in different orders), both are walked in tiles.
#include "index_calc/pack.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/error.hpp"

namespace tremula::index_calc {
namespace {

std::size_t bytes_of(Index elements, std::size_t element_bytes) {
  return static_cast<std::size_t>(elements) * element_bytes;
}

/// Local indices from the first element of the list to the last.
Index span_of(const SegmentList& list) {
  const Segment last = list.last();
  return last.begin.value + last.length - list.first().begin.value - 1;
}

struct Loop {
  SegmentList list;
  std::ptrdiff_t stride = 0;       ///< bytes between neighbours in the local buffer
  std::ptrdiff_t wire_stride = 0;  ///< bytes between neighbours on the wire
};

/// The simplified loops of a package.
struct Walk {
  std::array<Loop, max_dimensions>
      loops{};                 ///< outermost first; the last one is the fastest on the wire
  std::size_t depth = 0;       ///< loops in use
  std::ptrdiff_t first = 0;    ///< byte offset that all loops start from
  std::size_t unit = 0;        ///< bytes that are contiguous on both sides
  bool is_transposed = false;  ///< the last but one loop, not the last one, is contiguous in memory

  Walk(const Package& package, const LocalPart& part, Order order, std::size_t element_bytes)
      : unit(element_bytes) {
    const auto width = static_cast<std::ptrdiff_t>(element_bytes);
    first = part.first * width;
    std::ptrdiff_t wire_stride = width;
    for (std::size_t k = 0; k < package.dimensions; ++k) {
      const std::size_t d = kth_fastest(order, package.dimensions, k);
      const SegmentList& list = package.along[d];
      const std::ptrdiff_t stride = part.stride[d] * width;
      const Index elements = list.elements(), begin = list.first().begin.value;
      const bool extends_unit =
          depth == 0 && static_cast<std::size_t>(stride) == unit && span_of(list) + 1 == elements;
      if (elements == 1 || extends_unit) {
        first += begin * stride;
        unit *= static_cast<std::size_t>(elements);
      } else {
        loops[depth++] = {list, stride, wire_stride};
      }
      wire_stride *= elements;
    }
    std::reverse(loops.begin(), loops.begin() + static_cast<std::ptrdiff_t>(depth));
    bring_contiguous_loop_inwards();
  }

private:
  void bring_contiguous_loop_inwards() {
    if (depth < 2) return;
    const auto fastest = loops.begin() + static_cast<std::ptrdiff_t>(depth) - 1;
    const auto is_contiguous = [&](const Loop& loop) {
      return static_cast<std::size_t>(loop.stride) == unit;
    };
    const auto found = std::find_if(loops.begin(), fastest, is_contiguous);
    is_transposed = !is_contiguous(*fastest) && found != fastest;
    if (is_transposed) std::rotate(found, found + 1, fastest);
  }
};

/// Copies towards the wire.
struct Pack {
  const std::byte* local;
  std::byte* wire;
  void move(std::ptrdiff_t at, std::ptrdiff_t on_wire, std::size_t bytes) const {
    std::memcpy(wire + on_wire, local + at, bytes);
  }
};

/// Copies from the wire.
struct Unpack {
  std::byte* local;
  const std::byte* wire;
  void move(std::ptrdiff_t at, std::ptrdiff_t on_wire, std::size_t bytes) const {
    std::memcpy(local + at, wire + on_wire, bytes);
  }
};

/// Contiguous runs up to this size are copied unit by unit instead of by a call of memcpy.
constexpr std::size_t short_run_bytes = 64;
/// Elements of either loop that a transposition takes at once: what it touches stays in the first
/// cache.
constexpr Index tile = 16;

/// Moves a package by its walk.
/// @tparam Unit  std::size_t, or std::integral_constant so that the compiler knows the size of each
/// copy
template <class Mover, class Unit>
class Kernel {
public:
  Kernel(const Walk& walk, Mover mover, Unit unit) : walk_(walk), mover_(mover), unit_(unit) {}

  void operator()(std::size_t level, std::ptrdiff_t at, std::ptrdiff_t wire) const {
    const Loop& loop = walk_.loops[level];
    if (level + 1 == walk_.depth) return move_runs(loop, at, wire);
    if (level + 2 == walk_.depth && walk_.is_transposed)
      return move_tiles(loop, walk_.loops[level + 1], at, wire);
    loop.list.for_each_run([&](Index begin, Index length) {
      for (Index i = begin; i < begin + length; ++i, wire += loop.wire_stride)
        (*this)(level + 1, at + i * loop.stride, wire);
    });
  }

private:
  void move_runs(const Loop& loop, std::ptrdiff_t base, std::ptrdiff_t wire) const {
    const bool is_contiguous = static_cast<std::size_t>(loop.stride) == unit_;
    loop.list.for_each_run([&](Index begin, Index length) {
      std::ptrdiff_t at = base + begin * loop.stride;
      const std::size_t bytes = bytes_of(length, unit_);
      if (is_contiguous && bytes > short_run_bytes) {
        mover_.move(at, wire, bytes);
        wire += static_cast<std::ptrdiff_t>(bytes);
        return;
      }
      for (Index i = 0; i < length; ++i, at += loop.stride, wire += loop.wire_stride)
        mover_.move(at, wire, unit_);
    });
  }

  /// `near` is contiguous in memory, `far` on the wire.
  void move_tiles(const Loop& near, const Loop& far, std::ptrdiff_t base,
                  std::ptrdiff_t wire) const {
    for_each_tile(
        near, base, wire, [&](std::ptrdiff_t near_at, std::ptrdiff_t near_wire, Index near_length) {
          for_each_tile(far, near_at, near_wire,
                        [&](std::ptrdiff_t at, std::ptrdiff_t on_wire, Index far_length) {
                          for (Index n = 0; n < near_length; ++n)
                            for (Index f = 0; f < far_length; ++f)
                              mover_.move(at + n * near.stride + f * far.stride,
                                          on_wire + n * near.wire_stride + f * far.wire_stride,
                                          unit_);
                        });
        });
  }

  template <class Visit>
  static void for_each_tile(const Loop& loop, std::ptrdiff_t base, std::ptrdiff_t wire,
                            Visit&& visit) {
    loop.list.for_each_run([&](Index begin, Index length) {
      for (Index done = 0; done < length; done += tile) {
        const Index now = std::min(tile, length - done);
        visit(base + (begin + done) * loop.stride, wire, now);
        wire += now * loop.wire_stride;
      }
    });
  }

  const Walk& walk_;
  Mover mover_;
  Unit unit_;
};

template <class Mover>
void move_package(const Walk& walk, Mover mover) {
  if (walk.depth == 0) return mover.move(walk.first, 0, walk.unit);
  const auto with = [&](auto unit) { Kernel(walk, mover, unit)(0, walk.first, 0); };
  switch (walk.unit) {
    case 1:
      return with(std::integral_constant<std::size_t, 1>{});
    case 2:
      return with(std::integral_constant<std::size_t, 2>{});
    case 4:
      return with(std::integral_constant<std::size_t, 4>{});
    case 8:
      return with(std::integral_constant<std::size_t, 8>{});
    case 16:
      return with(std::integral_constant<std::size_t, 16>{});
    default:
      return with(walk.unit);
  }
}

void check(const Package& package, const LocalPart& part, std::size_t element_bytes,
           std::size_t local_bytes, std::size_t wire_bytes) {
  core::expects(element_bytes == 1 || element_bytes == 2 || element_bytes == 4 ||
                    element_bytes == 8 || element_bytes == 16,
                "pack: expected elements of 1, 2, 4, 8 or 16 bytes");
  core::expects(package.dimensions == part.dimensions && package.elements <= part.elements,
                "pack: expected a package and a local part of one rank and one layout");
  if (local_bytes < bytes_of(part.allocated, element_bytes))
    throw core::Error(
        core::Errc::invalid_argument,
        fmt::format("pack: expected a local buffer of {} elements of {} bytes, found {} bytes",
                    part.allocated, element_bytes, local_bytes));
  if (wire_bytes != bytes_of(package.elements, element_bytes))
    throw core::Error(
        core::Errc::invalid_argument,
        fmt::format("pack: expected {} elements of {} bytes on the wire, found {} bytes",
                    package.elements, element_bytes, wire_bytes));
}

}  // namespace

void pack(const Package& package, const LocalPart& part, Order order, std::size_t element_bytes,
          std::span<const std::byte> local, std::span<std::byte> wire) {
  check(package, part, element_bytes, local.size(), wire.size());
  if (package.elements == 0) return;
  move_package(Walk(package, part, order, element_bytes), Pack{local.data(), wire.data()});
}

void unpack(const Package& package, const LocalPart& part, Order order, std::size_t element_bytes,
            std::span<const std::byte> wire, std::span<std::byte> local) {
  check(package, part, element_bytes, local.size(), wire.size());
  if (package.elements == 0) return;
  move_package(Walk(package, part, order, element_bytes), Unpack{local.data(), wire.data()});
}

}  // namespace tremula::index_calc
