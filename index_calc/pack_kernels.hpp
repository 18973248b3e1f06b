// SPDX-License-Identifier: Apache-2.0
#pragma once
// The copying itself: bytes from one buffer to the other, as a walk says.
#include <cstddef>

#include "index_calc/pack_bars.hpp"
#include "index_calc/pack_walk.hpp"

namespace tremula::index_calc {

/// Copies all elements of the walk.
void move_elements(const Walk& walk, const std::byte* from, std::byte* to, CacheUse use);

}  // namespace tremula::index_calc
