// SPDX-License-Identifier: Apache-2.0
#pragma once
// The transformations of the values that a source puts between two coupling dates (LOCTRANS).
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tremula::oasis {

enum class Transformation {
  instant,     ///< the values of the coupling date
  accumulate,  ///< the sum
  average,     ///< the sum, divided by the number of puts
  minimum,
  maximum,
};

/// Returns the word for it in a namcouple, e.g. "AVERAGE".
std::string word_of(Transformation transformation);

/// The accumulated values of one field on one rank. Values are added in the order of the puts, so a
/// run that continues from a restart file gives the same bits as an uninterrupted run.
class Accumulation {
public:
  Accumulation(Transformation transformation, std::size_t size)
      : transformation_(transformation), values_(size) {}

  Transformation transformation() const { return transformation_; }
  /// Takes the values of a put.  @pre values.size() is the size of the field
  void take(std::span<const double> values);
  /// Returns the values to send at the coupling date; the next put starts over.
  /// @return  valid until the next put
  std::span<const double> finish();

  /// Return and restore, for the restart file, what was accumulated since the last coupling date.
  std::int64_t count() const { return count_; }
  std::span<const double> values() const { return values_; }
  void restore(std::int64_t count, std::span<const double> values);

private:
  Transformation transformation_;
  std::int64_t count_ = 0;  // puts since the last coupling date
  std::vector<double> values_;
};

}  // namespace tremula::oasis
