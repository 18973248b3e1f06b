// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "index_calc/layout/layout.hpp"
#include "index_calc/lists/index_list.hpp"
#include "index_calc/plan/plan.hpp"

namespace tremula::index_calc {

/// Hashes one rank's elements of an array; the hash does not depend on how they are stored.
/// README.md states what equal hashes prove.
class ContentHash {
public:
  /// @param layout  layout of the whole array; its storage order and its ghost cells do not matter
  /// @param part    where the rank stores its elements
  /// @throws core::Error as expect_grid does: skewed layouts are hashed by their lists
  /// (IndexList::of_layout)
  /// Cost: time and memory are proportional to the owned elements along each dimension, not to
  /// their product.
  ContentHash(const Layout& layout, Rank me, const LocalPart& part, std::size_t element_bytes);

  /// Prepares to hash a buffer that is described by a list.
  /// @param part  the rank's part, as flattened() returns it
  /// Cost: time and memory are proportional to the places of the buffer.
  ContentHash(const IndexList& list, const LocalPart& part, std::size_t element_bytes);

  /// Returns the hash of the elements of one package. Allocates nothing.
  /// @pre the package belongs to a plan that was made with `layout`, and `array` has part.allocated
  /// elements
  std::uint64_t of(const Package& package, core::BytesView array) const;
  /// Returns the hash of all elements that the rank owns; places that no list names do not count.
  std::uint64_t of(core::BytesView array) const;

private:
  template <class Hash>
  std::uint64_t total(const Package& package, const std::byte* array, const Hash& hash) const;

  LocalPart part_;
  std::size_t element_bytes_;
  bool is_list_ = false;  ///< whether number_[0] has an entry for each place of the buffer
  /// The contribution of each owned index to the row-major number of an element, times a constant,
  /// modulo 2^64.
  std::array<std::vector<std::uint64_t>, max_dimensions>
      number_;  // shape: [dimension][local index]
};

}  // namespace tremula::index_calc
