// SPDX-License-Identifier: Apache-2.0
#pragma once
// Plain conversions between floating types of contiguous elements, with the widest instructions
// that the processor has.
#include <cstring>

#include "core/element_type.hpp"
#include "core/types.hpp"

namespace tremula::index_calc {

/// Reads an element, which need not be aligned.
template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

using Conversion = void (*)(std::byte* to, const std::byte* from, core::Index count);

/// Returns the conversion between two of f16, bf16, f32 and f64, at least one of which has 16 bits; null
/// for other pairs of types, or if this processor lacks AVX2 or F16C. The results are the same as with
/// small_floats.hpp.
Conversion vector_conversion(core::ElementType from, core::ElementType to) noexcept;

/// Writes whole lines past the cache, and prefetches as many bytes as it reads, beginning at
/// `ahead`.
/// @param to  the beginning of a line
using LineConversion = void (*)(std::byte* to, const std::byte* from, core::Index lines,
                                const std::byte* ahead);

/// Returns the conversion of whole lines from f32 to f16 or bf16; null for other types, or if this
/// processor lacks AVX2 or F16C.
LineConversion line_conversion(core::ElementType from, core::ElementType to) noexcept;

}  // namespace tremula::index_calc
