// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "index_calc/layout/layout.hpp"
#include "index_calc/lists/index_list.hpp"
#include "index_calc/plan/plan.hpp"

namespace tremula::index_calc {

/// Hashes what one rank holds of an array, the same way whatever the layout. README.md tells what
/// equal hashes prove.
class ContentHash {
public:
  /// @param layout  of the whole array; its order of storage and its ghost cells do not count
  /// @param part    where the rank stores what it owns
  /// Cost: time and memory by the owned elements along each dimension, not by their product.
  ContentHash(const Layout& layout, Rank me, const LocalPart& part, std::size_t element_bytes);

  /// Of a buffer that is described by a list.
  /// @param part  flattened()
  /// Cost: time and memory by the places of the buffer.
  ContentHash(const IndexList& list, const LocalPart& part, std::size_t element_bytes);

  /// Of the elements of one package. Allocates nothing.
  /// @pre the package is of a plan from `layout`, and `array` has part.allocated elements
  std::uint64_t of(const Package& package, core::BytesView array) const;
  /// Of all that the rank owns.
  std::uint64_t of(core::BytesView array) const;

private:
  template <class Hash>
  std::uint64_t total(const Package& package, const std::byte* array, const Hash& hash) const;

  LocalPart part_;
  std::size_t element_bytes_;
  bool is_list_ = false;  ///< number_[0] has all places of the buffer
  /// What each owned index adds to the row-major number of an element, times a constant, modulo
  /// 2^64.
  std::array<std::vector<std::uint64_t>, max_dimensions>
      number_;  // shape: [dimension][local index]
};

}  // namespace tremula::index_calc
