// SPDX-License-Identifier: Apache-2.0
#include "index_calc/proof/content_hash.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/error.hpp"
#include "index_calc/basics/mixed.hpp"
#include "index_calc/layout/blocks.hpp"
#include "index_calc/layout/process_grid.hpp"
#include "index_calc/pack/pack_walk.hpp"

namespace tremula::index_calc {

namespace {

/// Factor of the row-major number of an element.
constexpr std::uint64_t step = golden;
/// Stands for a place without an element. No element has it, because `step` is odd and numbers have
/// 63 bits.
constexpr std::uint64_t unlisted = step * ~std::uint64_t{0};

/// Returns the hash of one element.
/// @param number  row-major number of the element, times `step`
template <class Element>
std::uint64_t hash_of(std::uint64_t number, const std::byte* at) {
  Element element;
  std::memcpy(&element, at, sizeof element);
  return mixed(number + element);
}

}  // namespace

ContentHash::ContentHash(const Layout& layout, Rank me, const LocalPart& part,
                         std::size_t element_bytes)
    : part_(part), element_bytes_(element_bytes) {
  const Grid& grid = expect_grid(layout, "hash");
  const auto coords = coords_of(layout, me);
  if (!coords || part.elements == 0) return;
  std::uint64_t weight = step;
  for (std::size_t d = grid.dims.size(); d-- > 0;) {
    auto& number = number_[d];
    number.resize(static_cast<std::size_t>(part.extent[d]));
    for_each_block(grid.dims[d], (*coords)[d], [&](const Block& block) {
      for (Index i = block.begin; i < block.end; ++i)
        number[static_cast<std::size_t>(block.local + i - block.begin)] =
            weight * static_cast<std::uint64_t>(i);
    });
    weight *= static_cast<std::uint64_t>(extent(grid.dims[d]));
  }
}

ContentHash::ContentHash(const IndexList& list, const LocalPart& part, std::size_t element_bytes)
    : part_(part), element_bytes_(element_bytes), is_list_(true) {
  auto& number = number_[0];
  number.resize(static_cast<std::size_t>(part.allocated), unlisted);
  for (const ListRun& run : list.runs())
    for (Index i = 0; i < run.length; ++i)
      number[static_cast<std::size_t>(run.local + i)] =
          step * static_cast<std::uint64_t>(run.global + i);
}

/// Returns the hash of an element of any length, 8 bytes at a time.
std::uint64_t hash_of(std::uint64_t number, const std::byte* at, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at + i, std::min<std::size_t>(8, bytes - i));
    number = mixed(number + word);
  }
  return number;
}

template <class Hash>
std::uint64_t ContentHash::total(const Package& package, const std::byte* array,
                                 const Hash& hash) const {
  // The dimension that is closest in memory is walked innermost.
  std::array<std::size_t, max_dimensions> order{};
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(package.dimensions);
  std::iota(order.begin(), end, std::size_t{0});
  std::stable_sort(order.begin(), end,
                   [&](std::size_t a, std::size_t b) { return part_.stride[a] > part_.stride[b]; });
  std::array<Axis, max_dimensions> axes{};
  const auto bytes = static_cast<Index>(element_bytes_);
  for (std::size_t k = 0; k < package.dimensions; ++k)  // from: bytes; to: local indices
    axes[k] = Axis(package.along[order[k]], Whose::mine,
                   wrapping_product(part_.stride[order[k]], bytes), Whose::mine, 1);
  std::uint64_t sum = 0;
  // With a list, `place` is the sum of the local indices so far; otherwise `before` is the sum of
  // the numbers.
  const auto walk = [&](const auto& deeper, std::size_t k, const std::byte* at,
                        std::uint64_t before, std::ptrdiff_t place) -> void {
    const auto& number = number_[is_list_ ? 0 : order[k]];
    const bool is_innermost = k + 1 == package.dimensions;
    axes[k].for_each_bar([&](const Bar& bar) {
      const std::byte* element = at + bar.from;
      std::ptrdiff_t own = place + bar.to;
      for (Index i = 0; i < bar.count; ++i, element += bar.from_step, own += bar.to_step)
        if (is_innermost)
          sum += hash(before + number[static_cast<std::size_t>(own)], element);
        else if (is_list_)
          deeper(deeper, k + 1, element, 0, own);
        else
          deeper(deeper, k + 1, element, before + number[static_cast<std::size_t>(own)], 0);
    });
  };
  walk(walk, 0, array + part_.first * bytes, 0, 0);
  return sum;
}

std::uint64_t ContentHash::of(const Package& package, core::BytesView array) const {
  core::expects(static_cast<Index>(array.size() / element_bytes_) >= part_.allocated,
                "ContentHash: expected an array with all elements of the part");
  switch (element_bytes_) {
    case 1:
      return total(package, array.data(), hash_of<std::uint8_t>);
    case 2:
      return total(package, array.data(), hash_of<std::uint16_t>);
    case 4:
      return total(package, array.data(), hash_of<std::uint32_t>);
    case 8:
      return total(package, array.data(), hash_of<std::uint64_t>);
    default:
      return total(package, array.data(), [this](std::uint64_t number, const std::byte* at) {
        return hash_of(number, at, element_bytes_);
      });
  }
}

std::uint64_t ContentHash::of(core::BytesView array) const {
  if (part_.elements == 0) return 0;
  std::array<Family, max_dimensions> whole{};
  Package all{.dimensions = part_.dimensions, .elements = part_.elements};
  for (std::size_t d = 0; d < part_.dimensions; ++d) {
    whole[d] = {.first = {.begin = {}, .peer_begin = {}, .length = part_.extent[d]}, .count = 1};
    all.along[d] = {.period = std::span(&whole[d], 1), .repeat = 1};
  }
  if (!is_list_) return of(all, array);
  // The places of a buffer are dimension 1 of its part. Listed places are hashed stretch by stretch.
  const auto& number = number_[0];
  std::uint64_t sum = 0;
  for (auto end = number.begin();;) {
    const auto begin = std::find_if(end, number.end(),
                                    [](std::uint64_t of_place) { return of_place != unlisted; });
    if (begin == number.end()) return sum;
    end = std::find(begin, number.end(), unlisted);
    whole[1].first.begin = {begin - number.begin()};
    whole[1].first.length = end - begin;
    sum += of(all, array);
  }
}

}  // namespace tremula::index_calc
