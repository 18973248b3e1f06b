// SPDX-License-Identifier: Apache-2.0
#pragma once
// Buffers of elements of any size, each of which carries a number.
#include <cstddef>
#include <vector>

#include "tests/index_calc/random.hpp"

namespace tremula::index_calc::testing {

/// Returns a shape of few elements, sometimes with a dimension longer than a tile of the
/// transposition.
inline std::vector<Index> random_shape(Random& random, std::size_t dimensions) {
  constexpr Index longest[] = {60, 14, 6, 5};
  std::vector<Index> shape;
  for (std::size_t d = 0; d < dimensions; ++d)
    shape.push_back(random.one_in(30) ? 0 : random.in(1, longest[dimensions - 1]));
  if (random.one_in(4))
    shape[static_cast<std::size_t>(random.in(0, static_cast<Index>(dimensions) - 1))] = 40;
  return shape;
}

/// Writes an element that carries a number, so that a move of only a part of the element is
/// detected.
inline void put_number(std::byte* at, std::size_t element_bytes, Index number) {
  for (std::size_t i = 0; i < element_bytes; ++i)
    at[i] = static_cast<std::byte>(static_cast<std::uint64_t>(number) >> (8 * (i % 8)) ^ (i / 8));
}

inline std::vector<std::byte> buffer_of(const std::vector<Index>& numbers,
                                        std::size_t element_bytes) {
  std::vector<std::byte> bytes(numbers.size() * element_bytes);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    put_number(bytes.data() + i * element_bytes, element_bytes, numbers[i]);
  return bytes;
}

}  // namespace tremula::index_calc::testing
