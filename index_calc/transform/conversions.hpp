// SPDX-License-Identifier: Apache-2.0
#pragma once
// Plain conversions between floating types whose elements lie side by side, with the widest
// instructions that the processor has.
#include <cstring>

#include "core/element_type.hpp"
#include "core/types.hpp"

namespace tremula::index_calc {

/// Elements need no alignment.
template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

using Conversion = void (*)(std::byte* to, const std::byte* from, core::Index count);

/// Between two of f16, bf16, f32 and f64, if this processor has AVX2 and F16C; else null. The results
/// are those of small_floats.hpp.
Conversion vector_conversion(core::ElementType from, core::ElementType to) noexcept;

/// Writes whole lines past the cache, and prefetches as many bytes as it reads from `ahead` on.
/// @param to  the begin of a line
using LineConversion = void (*)(std::byte* to, const std::byte* from, core::Index lines,
                                const std::byte* ahead);

/// The same of f32 to f16 or bf16; of other types null.
LineConversion line_conversion(core::ElementType from, core::ElementType to) noexcept;

}  // namespace tremula::index_calc
