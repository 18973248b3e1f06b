// SPDX-License-Identifier: Apache-2.0
#pragma once
// The two buffers of a copy: the checks that they must pass, and the walks between them.
#include <array>
#include <cstddef>
#include <span>

#include "index_calc/pack/pack.hpp"
#include "index_calc/pack/pack_bars.hpp"
#include "index_calc/pack/pack_walk.hpp"

namespace tremula::index_calc {

/// One of the two buffers of a copy, without its address.
struct End {
  Whose whose = Whose::wire;
  const LocalPart* part = nullptr;  ///< null on the wire
  std::size_t element_bytes = 0;
  std::size_t bytes = 0;

  /// Returns how many bytes this many elements take.
  std::ptrdiff_t step(Index elements) const {
    return wrapping_product(elements, static_cast<Index>(element_bytes));
  }
};

/// Checks that all elements of the stretch are inside both buffers. The parts need not be trusted.
/// @throws core::Error invalid_argument if one is not
void check(const Package& package, Stretch stretch, const End& from, const End& to);

CacheUse cache_use(const Package& package, Stretch stretch, const End& from, const End& to,
                   const CopyTuning& tuning);

/// Calls visit(Walk) for the boxes of a stretch.
/// @throws what check throws, before the first call
template <class Visit>
void for_each_walk(const Package& package, Order order, Stretch stretch, const End& from,
                   const End& to, Visit&& visit) {
  check(package, stretch, from, to);
  if (stretch.count == 0) return;
  std::array<Axis, max_dimensions> axes{};
  Index wire_stride = 1, skipped = 0;
  for (std::size_t k = 0; k < package.dimensions; ++k) {
    const std::size_t d = kth_fastest(order, package.dimensions, k);
    const auto step = [&](const End& end) {
      return end.step(end.part != nullptr ? end.part->stride[d] : wire_stride);
    };
    axes[k] = Axis(package.along[d], from.whose, step(from), to.whose, step(to));
    skipped += wrapping_product(wire_stride, package.along[d].skip);  // numbers also count these
    wire_stride = wrapping_product(wire_stride, axes[k].elements());
  }
  const auto origin = [&](const End& end) {
    return end.step(end.part != nullptr ? end.part->first : -stretch.first - skipped);
  };
  for_each_box({axes.data(), package.dimensions}, stretch, [&](std::span<const Axis> box) {
    visit(Walk(box, from.element_bytes, origin(from), to.element_bytes, origin(to)));
  });
}

}  // namespace tremula::index_calc
