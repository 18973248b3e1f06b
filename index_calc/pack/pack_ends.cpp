// SPDX-License-Identifier: Apache-2.0
#include "index_calc/pack/pack_ends.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "index_calc/pack/copy_lines.hpp"

namespace tremula::index_calc {
namespace {

template <class... Arguments>
[[noreturn]] void refuse(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  throw core::Error(core::Errc::invalid_argument,
                    fmt::format(text, std::forward<Arguments>(arguments)...));
}

/// Returns whether this many elements fit in the buffer.
bool fits(Index elements, const End& end) {
  return elements >= 0 && static_cast<std::size_t>(elements) <= end.bytes / end.element_bytes;
}

/// Returns the greatest local index.
Index last_index(const SegmentList& list, Whose whose) {
  const bool is_mine = whose == Whose::mine;
  if (list.index != nullptr) return (is_mine ? list.index->end : list.index->peer_end) - 1;
  const Segment s = list.last();
  return (is_mine ? s.begin.value : s.peer_begin.value) + s.length - 1;
}

/// Checks that every element of the package is inside the buffer of its part.
void check_local(const Package& package, const End& end) {
  const LocalPart& part = *end.part;
  const char* const whose = end.whose == Whose::mine ? "local" : "peer's";
  if (part.dimensions != package.dimensions)
    refuse("pack: expected a {} part of {} dimensions, found {}", whose, package.dimensions,
           part.dimensions);
  if (!fits(part.allocated, end))
    refuse("pack: expected a {} buffer of {} elements of {} bytes, found {} bytes", whose,
           part.allocated, end.element_bytes, end.bytes);
  Index last = part.first;
  bool is_inside = part.first >= 0;
  for (std::size_t d = 0; d < package.dimensions && is_inside; ++d) {
    Index reach = 0;
    is_inside =
        part.stride[d] > 0 &&
        !__builtin_mul_overflow(last_index(package.along[d], end.whose), part.stride[d], &reach) &&
        !__builtin_add_overflow(last, reach, &last);
  }
  if (!is_inside || last >= part.allocated)
    refuse(
        "pack: expected all elements of the package among the {} of the {} part, found first {} "
        "and strides {}",
        part.allocated, whose, part.first,
        fmt::join(std::span(part.stride).first(package.dimensions), "x"));
}

void check(const Package& package, const End& end, Index count) {
  if (end.part != nullptr) return check_local(package, end);
  if (!fits(count, end) || static_cast<std::size_t>(count) * end.element_bytes != end.bytes)
    refuse("pack: expected {} elements of {} bytes on the wire, found {} bytes", count,
           end.element_bytes, end.bytes);
}

/// Multiple of `cached_bytes` up to which an array is assumed to be in the third-level cache, which
/// ranks share.
constexpr std::size_t third_cache_share = 4;

}  // namespace

void check(const Package& package, Stretch stretch, const End& from, const End& to) {
  for (const std::size_t bytes : {from.element_bytes, to.element_bytes})
    core::expects(bytes >= 1, "pack: expected elements of at least 1 byte");
  if (stretch.first < 0 || stretch.count < 0 || stretch.first > package.elements ||
      stretch.count > package.elements - stretch.first)
    refuse("pack: expected a stretch of a package of {} elements, found {} beginning with {}",
           package.elements, stretch.count, stretch.first);
  if (package.elements == 0) return;
  check(package, from, stretch.count);
  check(package, to, stretch.count);
}

CacheUse cache_use(const Package& package, Stretch stretch, const End& from, const End& to,
                   const CopyTuning& tuning) {
  const auto exceed = [](Index elements, std::size_t element_bytes, std::size_t bytes) {
    return static_cast<std::size_t>(elements) > bytes / std::max<std::size_t>(1, element_bytes);
  };
  // A rank moves its whole part in one go: even if the part is moved to or from many peers, it does
  // not stay in the cache.
  const auto exceeds = [&](const End& end, std::size_t bytes) {
    return exceed(
        end.part != nullptr ? std::max(package.elements, end.part->elements) : stretch.count,
        end.element_bytes, bytes);
  };
  const std::size_t near_bytes = third_cache_share * tuning.cached_bytes;
  const bool streams = exceeds(to, tuning.cached_bytes);
  return {.prefetches = streams || exceeds(from, tuning.cached_bytes),
          .streams = streams,
          .is_source_far = exceeds(from, near_bytes),
          .is_target_far = exceeds(to, near_bytes),
          .move_lines = streams ? tuning.stream_lines : tuning.copy_lines};
}

}  // namespace tremula::index_calc
