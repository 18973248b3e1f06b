// SPDX-License-Identifier: Apache-2.0
#include "coupling/oasis/transformation.hpp"

#include <algorithm>

namespace tremula::oasis {

std::string word_of(Transformation transformation) {
  switch (transformation) {
    case Transformation::instant:
      return "INSTANT";
    case Transformation::accumulate:
      return "ACCUMUL";
    case Transformation::average:
      return "AVERAGE";
    case Transformation::minimum:
      return "T_MIN";
    case Transformation::maximum:
      return "T_MAX";
  }
  return "";
}

void Accumulation::take(std::span<const double> values) {
  const bool is_first = count_++ == 0;
  if (is_first || transformation_ == Transformation::instant) {
    std::ranges::copy(values, values_.begin());
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    double& kept = values_[i];
    switch (transformation_) {
      case Transformation::accumulate:
      case Transformation::average:
        kept += values[i];
        break;
      case Transformation::minimum:
        kept = std::min(kept, values[i]);
        break;
      case Transformation::maximum:
        kept = std::max(kept, values[i]);
        break;
      case Transformation::instant:
        break;
    }
  }
}

std::span<const double> Accumulation::finish() {
  if (transformation_ == Transformation::average && count_ > 1)
    for (double& value : values_) value /= static_cast<double>(count_);
  count_ = 0;
  return values_;
}

void Accumulation::restore(std::int64_t count, std::span<const double> values) {
  count_ = count;
  std::ranges::copy(values, values_.begin());
}

}  // namespace tremula::oasis
