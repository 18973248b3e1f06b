// SPDX-License-Identifier: Apache-2.0
#pragma once
// The local part of one rank of `tremula bench`.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/buffer.hpp"
#include "index_calc/layout/layout.hpp"

namespace tremula::cli {

/// One rank's part of an array whose elements are determined by their global numbers and the step.
class BenchPart {
public:
  /// @param is_allocated  whether the part is in memory that peers can map
  BenchPart(const index_calc::Layout& layout, core::Rank rank, std::size_t element_bytes,
            bool is_allocated);
  ~BenchPart();
  BenchPart(const BenchPart&) = delete;

  std::span<std::byte> bytes() { return bytes_; }
  void fill(std::uint64_t step);
  /// @throws core::Error mismatch naming the first wrong element
  void verify(std::uint64_t step) const;

private:
  template <class Visit>
  void walk(std::size_t d, core::Index at, core::Index number, Visit&& visit) const;

  index_calc::LocalPart part_;
  std::size_t element_bytes_;
  core::Buffer own_;
  std::byte* allocated_ = nullptr;
  std::span<std::byte> bytes_;
  /// Contribution of a local index to the row-major number; shape: [dimension][local index].
  std::array<std::vector<core::Index>, index_calc::max_dimensions> numbers_;
};

}  // namespace tremula::cli
