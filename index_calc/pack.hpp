// SPDX-License-Identifier: Apache-2.0
#pragma once
// Gathers the elements of a package into contiguous bytes and scatters them back. Moves bytes
// inside one process, never across.
//
// Wire order: the elements of a package in ascending global index, numbered in `order` (row: last
// dimension fastest; column: first dimension fastest). Both sides use the producer's storage order.
#include <cstddef>
#include <span>

#include "index_calc/plan.hpp"

namespace tremula::index_calc {

/// Copies the elements of `package` out of the local buffer.
/// @param local  the rank's buffer, `part.allocated * element_bytes` bytes
/// @param wire   package.elements * element_bytes bytes
/// @pre element_bytes is 1, 2, 4, 8 or 16
void pack(const Package& package, const LocalPart& part, Order order, std::size_t element_bytes,
          std::span<const std::byte> local, std::span<std::byte> wire);

/// The inverse of pack.
void unpack(const Package& package, const LocalPart& part, Order order, std::size_t element_bytes,
            std::span<const std::byte> wire, std::span<std::byte> local);

}  // namespace tremula::index_calc
