// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <unordered_map>

#include "core/element_type.hpp"

namespace tremula::index_calc {

/// Keeps the carries of sums of integers while summands are still missing. An element holds its sum modulo
/// the number of values of its type; its carry is how often that number must be added. Takes memory only
/// for elements whose sum does not fit.
class Carries {
public:
  __extension__ using Wide = __int128;
  /// Returns the element at an address.
  using Read = Wide (*)(const std::byte* at);

  /// @param from, to  types of the summands and of the sums
  Carries(core::ElementType from, core::ElementType to) noexcept : from_(from), to_(to) {}
  /// Records that the sum at an address is `carry` times `modulus` more than the element.
  void add(const std::byte* at, Wide carry, Wide modulus, Read read);
  /// Checks that all sums fit, and forgets all carries.
  /// @throws core::Error mismatch if a sum does not fit, stating how many sums do not fit and the sum at the
  ///         lowest address
  void settle();
  void clear() noexcept { carries_.clear(); }

private:
  core::ElementType from_, to_;
  Wide modulus_ = 0;
  Read read_ = nullptr;
  std::unordered_map<const std::byte*, Wide> carries_;
};

}  // namespace tremula::index_calc
