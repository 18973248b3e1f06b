// SPDX-License-Identifier: Apache-2.0
// A package is walked as nested loops, one per dimension, slowest in wire order first. Before the
// walk the loops are simplified: a dimension of one element needs no loop; the fastest dimensions
// are one *unit* as long as they are contiguous in memory. Then the fastest loop moves units:
// neighbouring ones by memcpy, distant ones one by one with a copy of fixed size.
#include "index_calc/pack.hpp"

#include <fmt/format.h>

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

/// How many pairs of successive elements of the list are `distance` apart in my local indices.
/// O(period)
Index steps_of(const SegmentList& list, Index distance) {
  Index result = distance == 1 ? list.elements() - list.segments() : 0;
  const auto end_of = [&](const Family& f) {
    return f.first.begin.value + (f.count - 1) * list.family_stride + f.first.length;
  };
  for (std::size_t i = 0; i < list.period.size(); ++i) {
    const Family& f = list.period[i];
    const Index place = static_cast<Index>(i) + 1;  // in the tail, from 1 on
    if (list.family_stride - f.first.length + 1 == distance)
      result += (f.count - 1) * list.repeat + (place < list.tail    ? f.count - 1
                                               : place == list.tail ? list.tail_count - 1
                                                                    : 0);
    if (i > 0 && f.first.begin.value - end_of(list.period[i - 1]) + 1 == distance)
      result += list.repeat + (place <= list.tail ? 1 : 0);
  }
  const Index turns = list.repeat + (list.tail > 0 ? 1 : 0);
  if (turns > 1 &&
      list.first().begin.value + list.stride - end_of(list.period.back()) + 1 == distance)
    result += turns - 1;
  return result;
}

struct Loop {
  SegmentList list;
  std::ptrdiff_t stride = 0;  ///< bytes between neighbours in the local buffer
};

/// The simplified loops of a package.
struct Walk {
  std::array<Loop, max_dimensions> loops{};  ///< slowest first
  std::size_t depth = 0;                     ///< loops in use
  std::ptrdiff_t first = 0;                  ///< byte offset that all loops start from
  std::size_t unit = 0;                      ///< bytes that are contiguous on both sides

  Walk(const Package& package, const LocalPart& part, Order order, std::size_t element_bytes)
      : unit(element_bytes) {
    const auto width = static_cast<std::ptrdiff_t>(element_bytes);
    first = part.first * width;
    std::array<Loop, max_dimensions> fastest_first{};
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
        fastest_first[depth++] = {list, stride};
      }
    }
    for (std::size_t k = 0; k < depth; ++k) loops[k] = fastest_first[depth - 1 - k];
  }
};

/// Copies towards the wire.
struct Pack {
  const std::byte* local;
  std::byte* wire;
  template <class Bytes>
  void move(std::ptrdiff_t at, Bytes bytes) {
    std::memcpy(wire, local + at, bytes);
    wire += static_cast<std::size_t>(bytes);
  }
};

/// Copies from the wire.
struct Unpack {
  std::byte* local;
  const std::byte* wire;
  template <class Bytes>
  void move(std::ptrdiff_t at, Bytes bytes) {
    std::memcpy(local + at, wire, bytes);
    wire += static_cast<std::size_t>(bytes);
  }
};

/// Units between neighbours in memory up to which a run is copied unit by unit instead of by a call
/// of memcpy.
constexpr std::size_t short_run_bytes = 64;

/// @tparam Unit  std::size_t, or std::integral_constant so that the compiler knows the size of the
/// copy
template <class Mover, class Unit>
void move_runs(const Loop& loop, std::ptrdiff_t base, Unit unit, Mover& mover) {
  const bool contiguous = static_cast<std::size_t>(loop.stride) == unit;
  loop.list.for_each_run([&](Index begin, Index length) {
    std::ptrdiff_t at = base + begin * loop.stride;
    const std::size_t bytes = bytes_of(length, unit);
    if (contiguous && bytes > short_run_bytes) return mover.move(at, bytes);
    for (Index i = 0; i < length; ++i, at += loop.stride) mover.move(at, unit);
  });
}

template <class Mover, class Unit>
void move_all(const Walk& walk, std::size_t level, std::ptrdiff_t base, Unit unit, Mover& mover) {
  if (level + 1 == walk.depth) return move_runs(walk.loops[level], base, unit, mover);
  const Loop& loop = walk.loops[level];
  loop.list.for_each_run([&](Index begin, Index length) {
    for (Index i = begin; i < begin + length; ++i)
      move_all(walk, level + 1, base + i * loop.stride, unit, mover);
  });
}

template <class Mover>
void move_package(const Walk& walk, Mover mover) {
  if (walk.depth == 0) return mover.move(walk.first, walk.unit);
  const auto with = [&](auto unit) { move_all(walk, 0, walk.first, unit, mover); };
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

Index runs(const Package& package, const LocalPart& part, Order order) {
  if (package.elements == 0) return 0;
  // From the fastest dimension on: going one element on along d, every faster dimension jumps back
  // by its span. The run goes on if that ends at the next address.
  Index result = 1, span = 0, slower = package.elements;
  for (std::size_t k = 0; k < package.dimensions; ++k) {
    const std::size_t d = kth_fastest(order, package.dimensions, k);
    const SegmentList& list = package.along[d];
    const Index elements = list.elements(), stride = part.stride[d];
    slower /= elements;
    const Index onward = (span + 1) % stride == 0 ? steps_of(list, (span + 1) / stride) : 0;
    result += slower * (elements - 1 - onward);
    span += span_of(list) * stride;
  }
  return result;
}

}  // namespace tremula::index_calc
