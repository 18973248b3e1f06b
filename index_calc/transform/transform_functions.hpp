// SPDX-License-Identifier: Apache-2.0
#pragma once
// The functions that transform equally spaced elements: one for each pair of types and each kind of
// formula.
#include <cstddef>
#include <string>

#include "index_calc/transform/carries.hpp"
#include "index_calc/transform/conversions.hpp"
#include "index_calc/transform/transform.hpp"

namespace tremula::index_calc {

/// Results that do not fit in `to`.
struct Unfit {
  Index count = 0;
  std::string first;
  Carries* carries = nullptr;  ///< takes results that it can hold, which are then not counted
};

struct TransformFunction {
  /// Transforms equally spaced elements. Steps are in bytes. With alpha 0, `from` is not read and
  /// may be `to`; otherwise the two sides must not overlap.
  /// @param transformation  the transformation for which the function was returned
  using Function = void (*)(std::byte* to, std::ptrdiff_t to_step, const std::byte* from,
                            std::ptrdiff_t from_step, Index count,
                            const Transformation& transformation, Unfit& unfit);
  Function function = nullptr;
  bool reads_to = false;
  LineConversion lines = nullptr;  ///< for contiguous elements; null if there is none
};

/// Returns the function of a transformation.
/// @pre validate(transformation) throws nothing
TransformFunction transform_function(const Transformation& transformation);

}  // namespace tremula::index_calc
