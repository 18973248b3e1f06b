// SPDX-License-Identifier: Apache-2.0
#include "index_calc/pack.hpp"

#include <fmt/format.h>

#include <array>
#include <limits>

#include "core/error.hpp"
#include "index_calc/pack_kernels.hpp"
#include "index_calc/pack_walk.hpp"

namespace tremula::index_calc {
namespace {

/// What exceeds a cache of the second level. Beyond it, prefetching and streaming pay (README.md).
constexpr std::size_t cached_bytes = std::size_t{2} << 20;

/// One of the two buffers of a copy.
template <class Byte>
struct End {
  Place place = Place::wire;
  const LocalPart* part = nullptr;  ///< null on the wire
  std::span<Byte> bytes;
};

template <class... Arguments>
[[noreturn]] void refuse(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  throw core::Error(core::Errc::invalid_argument,
                    fmt::format(text, std::forward<Arguments>(arguments)...));
}

/// Do `elements` elements fit in so many bytes?
bool fits(Index elements, std::size_t element_bytes, std::size_t bytes) {
  return elements >= 0 && static_cast<std::size_t>(elements) <= bytes / element_bytes;
}

/// Every element of the package lies in the buffer of its part. The part may have been made by
/// anyone.
void check_local(const Package& package, Place place, const LocalPart& part,
                 std::size_t element_bytes, std::size_t bytes) {
  const char* const whose = place == Place::mine ? "local" : "peer's";
  if (part.dimensions != package.dimensions)
    refuse("pack: expected a {} part of {} dimensions, found {}", whose, package.dimensions,
           part.dimensions);
  if (!fits(part.allocated, element_bytes, bytes))
    refuse("pack: expected a {} buffer of {} elements of {} bytes, found {} bytes", whose,
           part.allocated, element_bytes, bytes);
  Index last = part.first;
  bool is_inside = part.first >= 0;
  for (std::size_t d = 0; d < package.dimensions && is_inside; ++d) {
    const Segment s = package.along[d].last();
    const Index begin = place == Place::mine ? s.begin.value : s.peer_begin.value;
    Index reach = 0;
    is_inside = part.stride[d] > 0 &&
                !__builtin_mul_overflow(begin + s.length - 1, part.stride[d], &reach) &&
                !__builtin_add_overflow(last, reach, &last);
  }
  if (!is_inside || last >= part.allocated)
    refuse(
        "pack: expected all elements of the package among the {} of the {} part, found first {} "
        "and strides {}",
        part.allocated, whose, part.first,
        fmt::join(std::span(part.stride).first(package.dimensions), "x"));
}

template <class Byte>
void check(const Package& package, const End<Byte>& end, std::size_t element_bytes, Index count) {
  if (end.part != nullptr)
    return check_local(package, end.place, *end.part, element_bytes, end.bytes.size());
  if (!fits(count, element_bytes, end.bytes.size()) ||
      static_cast<std::size_t>(count) * element_bytes != end.bytes.size())
    refuse("pack: expected {} elements of {} bytes on the wire, found {} bytes", count,
           element_bytes, end.bytes.size());
}

/// Calls visit(Walk) for the boxes of a stretch, after it has checked that all of it lies in both
/// buffers.
template <class FromByte, class ToByte, class Visit>
void for_each_walk(const Package& package, Order order, std::size_t element_bytes, Stretch stretch,
                   const End<FromByte>& from, const End<ToByte>& to, Visit&& visit) {
  core::expects(element_bytes == 1 || element_bytes == 2 || element_bytes == 4 ||
                    element_bytes == 8 || element_bytes == 16,
                "pack: expected elements of 1, 2, 4, 8 or 16 bytes");
  if (stretch.first < 0 || stretch.count < 0 || stretch.first > package.elements ||
      stretch.count > package.elements - stretch.first)
    refuse("pack: expected a stretch of a package of {} elements, found {} from {} on",
           package.elements, stretch.count, stretch.first);
  if (package.elements > 0) {
    check(package, from, element_bytes, stretch.count);
    check(package, to, element_bytes, stretch.count);
  }
  if (stretch.count == 0) return;

  const auto width = static_cast<Index>(element_bytes);
  std::array<Axis, max_dimensions> axes{};
  Index wire_step = width;
  for (std::size_t k = 0; k < package.dimensions; ++k) {
    const std::size_t d = kth_fastest(order, package.dimensions, k);
    const auto step = [&](const auto& end) {
      return end.part != nullptr ? wrapping_product(end.part->stride[d], width) : wire_step;
    };
    axes[k] = Axis(package.along[d], from.place, step(from), to.place, step(to));
    wire_step = wrapping_product(wire_step, axes[k].elements());
  }
  const auto origin = [&](const auto& end) {
    return (end.part != nullptr ? end.part->first : -stretch.first) * width;
  };
  for_each_box({axes.data(), package.dimensions}, stretch, [&](std::span<const Axis> box) {
    visit(Walk(box, element_bytes, origin(from), origin(to)));
  });
}

void move(const Package& package, Order order, std::size_t element_bytes, Stretch stretch,
          const End<const std::byte>& from, const End<std::byte>& to) {
  const auto exceeds_cache = [&](Index elements) {
    return static_cast<std::size_t>(elements) > cached_bytes / element_bytes;
  };
  // A local part receives the rest of the package as well.
  const CacheUse use{
      .prefetches = exceeds_cache(package.elements),
      .streams = exceeds_cache(to.part != nullptr ? package.elements : stretch.count)};
  for_each_walk(package, order, element_bytes, stretch, from, to, [&](const Walk& walk) {
    move_elements(walk, from.bytes.data(), to.bytes.data(), use);
  });
}

void add_run(std::vector<CommonRun>& runs, std::ptrdiff_t from, std::ptrdiff_t to,
             std::size_t bytes) {
  const auto their = static_cast<std::size_t>(from), my = static_cast<std::size_t>(to);
  if (!runs.empty() && runs.back().theirs + runs.back().bytes == their &&
      runs.back().mine + runs.back().bytes == my)
    runs.back().bytes += bytes;
  else
    runs.push_back({.theirs = their, .mine = my, .bytes = bytes});
}

void add_runs(std::span<const Axis> axes, std::size_t unit, std::ptrdiff_t from, std::ptrdiff_t to,
              std::vector<CommonRun>& runs) {
  if (axes.empty()) return add_run(runs, from, to, unit);
  const auto step = static_cast<std::ptrdiff_t>(unit);
  axes.front().for_each_bar([&](const Bar& bar) {
    if (axes.size() == 1 && bar.from_step == step && bar.to_step == step)
      return add_run(runs, from + bar.from, to + bar.to,
                     unit * static_cast<std::size_t>(bar.count));
    for (Index i = 0; i < bar.count; ++i)
      add_runs(axes.subspan(1), unit, from + bar.from + i * bar.from_step,
               to + bar.to + i * bar.to_step, runs);
  });
}

Stretch whole(const Package& package) { return {.first = 0, .count = package.elements}; }

}  // namespace

void pack(const Package& package, const LocalPart& part, Order order, std::size_t element_bytes,
          Stretch stretch, std::span<const std::byte> local, std::span<std::byte> wire) {
  move(package, order, element_bytes, stretch, {Place::mine, &part, local},
       {Place::wire, nullptr, wire});
}

void pack(const Package& package, const LocalPart& part, Order order, std::size_t element_bytes,
          std::span<const std::byte> local, std::span<std::byte> wire) {
  pack(package, part, order, element_bytes, whole(package), local, wire);
}

void unpack(const Package& package, const LocalPart& part, Order order, std::size_t element_bytes,
            Stretch stretch, std::span<const std::byte> wire, std::span<std::byte> local) {
  move(package, order, element_bytes, stretch, {Place::wire, nullptr, wire},
       {Place::mine, &part, local});
}

void unpack(const Package& package, const LocalPart& part, Order order, std::size_t element_bytes,
            std::span<const std::byte> wire, std::span<std::byte> local) {
  unpack(package, part, order, element_bytes, whole(package), wire, local);
}

void copy_from_peer(const Package& package, const LocalPart& mine, const LocalPart& theirs,
                    Order order, std::size_t element_bytes, Stretch stretch,
                    std::span<const std::byte> their_local, std::span<std::byte> my_local) {
  move(package, order, element_bytes, stretch, {Place::peer, &theirs, their_local},
       {Place::mine, &mine, my_local});
}

void copy_from_peer(const Package& package, const LocalPart& mine, const LocalPart& theirs,
                    std::size_t element_bytes, std::span<const std::byte> their_local,
                    std::span<std::byte> my_local) {
  copy_from_peer(package, mine, theirs, Order::row, element_bytes, whole(package), their_local,
                 my_local);
}

void copy_to_peer(const Package& package, const LocalPart& mine, const LocalPart& theirs,
                  Order order, std::size_t element_bytes, Stretch stretch,
                  std::span<const std::byte> my_local, std::span<std::byte> their_local) {
  move(package, order, element_bytes, stretch, {Place::mine, &mine, my_local},
       {Place::peer, &theirs, their_local});
}

void copy_to_peer(const Package& package, const LocalPart& mine, const LocalPart& theirs,
                  std::size_t element_bytes, std::span<const std::byte> my_local,
                  std::span<std::byte> their_local) {
  copy_to_peer(package, mine, theirs, Order::row, element_bytes, whole(package), my_local,
               their_local);
}

void list_common_runs(const Package& package, const LocalPart& mine, const LocalPart& theirs,
                      Order order, std::size_t element_bytes, Stretch stretch,
                      std::span<const std::byte> my_local, std::vector<CommonRun>& runs) {
  const auto limit = std::numeric_limits<std::size_t>::max() / element_bytes;
  if (theirs.allocated < 0 || static_cast<std::size_t>(theirs.allocated) > limit)
    refuse("pack: expected a peer's buffer of fewer elements, found {}", theirs.allocated);
  // Their buffer is in another address space: only its length is used.
  const std::span<const std::byte> their_local(
      static_cast<const std::byte*>(nullptr),
      static_cast<std::size_t>(theirs.allocated) * element_bytes);
  for_each_walk(package, order, element_bytes, stretch,
                End<const std::byte>{Place::peer, &theirs, their_local},
                End<const std::byte>{Place::mine, &mine, my_local}, [&](const Walk& walk) {
                  add_runs({walk.axes.data(), walk.depth}, walk.unit, walk.from, walk.to, runs);
                });
}

}  // namespace tremula::index_calc
