// SPDX-License-Identifier: Apache-2.0
// Compiled without contraction to fused operations, so that a sum has the same bits on every machine.
#include "coupling/weights/rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "coupling/weights/failure.hpp"

namespace tremula::weights {

Numbering::Numbering(std::span<const std::int64_t> shape, Order order)
    : is_same_(order == Order::row || shape.size() < 2),
      shape_(shape.begin(), shape.end()),
      reversed_(shape.rbegin(), shape.rend()) {}

/// Converts a number to the other order: `number` is row-major in `from`, and the result is row-major
/// in `to`, with the indices reversed.
std::int64_t Numbering::turned(std::int64_t number, const std::vector<std::int64_t>& from,
                               const std::vector<std::int64_t>& to) const {
  if (is_same_) return number;
  std::array<std::int64_t, TREMULA_MAX_DIMENSIONS> index{};
  for (std::size_t d = from.size(); d-- > 0; number /= from[d]) index[d] = number % from[d];
  std::int64_t result = 0;
  for (std::size_t d = 0; d < to.size(); ++d) result = result * to[d] + index[to.size() - 1 - d];
  return result;
}

namespace {

/// A weight of an owned row.
struct Entry {
  std::int64_t row = 0;  // index in `owned`
  std::int64_t column = 0;
  double weight = 0;
};

/// Returns the value rounded to single precision; the value itself if it is outside that type's
/// normal range.
double in_single_precision(double value) {
  using Single = std::numeric_limits<float>;
  const bool is_normal = std::abs(value) >= static_cast<double>(Single::min()) &&
                         std::abs(value) <= static_cast<double>(Single::max());
  return is_normal ? static_cast<double>(static_cast<float>(value)) : value;
}

/// Returns, for each owned element, the factor that gives its weights the wanted normalization.
std::vector<double> scales(const WeightFile& file, std::span<const Owned> owned,
                           Normalization wanted) {
  const Normalization found = file.normalization();
  std::vector<double> scale(owned.size(), 1);
  if (wanted == Normalization::unknown || wanted == found || owned.empty()) return scale;
  if (found == Normalization::unknown)
    throw Failure(
        TREMULA_UNSUPPORTED,
        "normalize: expected a file of weights with the attribute normalization (none, "
        "fracarea, destarea); found none: take its weights as they are, without normalize");
  using Of = WeightFile::Of;
  const auto with_each = [&](auto values, const auto& change) {
    for_each_owned(
        owned,
        [&](std::int64_t begin, std::int64_t count) {
          return (file.*values)(Of::destination, begin, count);
        },
        change);
  };
  const auto divide = [&](std::size_t i, double value) {
    scale[i] = value != 0 ? scale[i] / value : 0;
  };
  const auto multiply = [&](std::size_t i, double value) { scale[i] *= value; };
  if (found == Normalization::none) with_each(&WeightFile::areas, divide);
  if (wanted == Normalization::fracarea)
    with_each(&WeightFile::fractions, divide);
  else if (found == Normalization::fracarea)
    with_each(&WeightFile::fractions, multiply);
  return scale;
}

}  // namespace

Rows::Rows(const WeightFile& file, std::span<const Owned> owned, Normalization wanted,
           const Numbering& source, std::span<const std::int64_t> extra, const RowOptions& options,
           std::vector<std::int64_t>& points)
    : options_(options) {
  std::vector<Entry> entries;
  std::vector<bool> has_links(owned.size());
  hash_of_file_ = file.for_each_link([&](const Link& link) {
    const auto found = std::ranges::lower_bound(owned, link.row, {}, &Owned::address);
    if (found == owned.end() || found->address != link.row) return;
    has_links[static_cast<std::size_t>(found - owned.begin())] = true;
    if (link.weight != 0) entries.push_back({found - owned.begin(), link.column, link.weight});
  });
  std::ranges::stable_sort(entries, {}, [](const Entry& e) { return std::pair(e.row, e.column); });

  points.clear();
  points.reserve(entries.size() + extra.size());
  for (const Entry& e : entries) points.push_back(source.of_file(e.column));
  for (const std::int64_t address : extra) points.push_back(source.of_file(address));
  std::ranges::sort(points);
  points.erase(std::unique(points.begin(), points.end()), points.end());
  points.shrink_to_fit();
  if (points.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
    throw Failure(
        TREMULA_UNSUPPORTED,
        fmt::format("expected at most {} source elements for a rank; found {}: use more ranks",
                    std::numeric_limits<std::int32_t>::max(), points.size()));

  const auto scale = scales(file, owned, wanted);
  columns_.reserve(entries.size());
  weights_.reserve(entries.size());
  auto entry = entries.begin();
  for (std::size_t row = 0; row < owned.size(); ++row) {
    if (!has_links[row]) {
      without_.push_back(owned[row].place);
      continue;
    }
    begins_.push_back(static_cast<std::int64_t>(columns_.size()));
    places_.push_back(owned[row].place);
    double sum = 0;
    for (; entry != entries.end() && entry->row == static_cast<std::int64_t>(row); ++entry) {
      const auto point = std::ranges::lower_bound(points, source.of_file(entry->column));
      columns_.push_back(static_cast<std::int32_t>(point - points.begin()));
      weights_.push_back(entry->weight * scale[row]);
      sum += weights_.back();
    }
    if (options_.missing) sums_.push_back(sum);
  }
  begins_.push_back(static_cast<std::int64_t>(columns_.size()));
}

template <class T>
void Rows::apply(std::span<const double> source, T* destination) const {
  if (options_.fill)
    for (const std::int64_t place : without_) destination[place] = static_cast<T>(*options_.fill);
  if (options_.missing) return apply_with_missing(source, destination);
  const double* const from = source.data();
  std::int64_t at = 0;
  for (std::size_t row = 0; row < places_.size(); ++row) {
    double sum = 0;
    for (const std::int64_t end = begins_[row + 1]; at < end; ++at)
      sum += weights_[static_cast<std::size_t>(at)] * from[columns_[static_cast<std::size_t>(at)]];
    destination[places_[row]] = static_cast<T>(sum);
  }
}

template <class T>
void Rows::apply_with_missing(std::span<const double> source, T* destination) const {
  // A producer in single precision sends the value rounded to single precision.
  const double missing = *options_.missing, rounded = in_single_precision(missing);
  const auto is_missing = [missing, rounded, is_nan = std::isnan(missing)](double value) {
    return is_nan ? std::isnan(value) : value == missing || value == rounded;
  };
  auto at = static_cast<std::size_t>(0);
  for (std::size_t row = 0; row < places_.size(); ++row) {
    double sum = 0, weight = 0;
    bool is_whole = true;
    for (const auto end = static_cast<std::size_t>(begins_[row + 1]); at < end; ++at) {
      const double value = source[static_cast<std::size_t>(columns_[at])];
      if (is_missing(value)) {
        is_whole = false;
        continue;
      }
      sum += weights_[at] * value;
      weight += weights_[at];
    }
    if (is_whole)
      destination[places_[row]] = static_cast<T>(sum);
    else if (weight != 0)
      destination[places_[row]] = static_cast<T>(sum * (sums_[row] / weight));
    else if (options_.fill)
      destination[places_[row]] = static_cast<T>(*options_.fill);
  }
}

template void Rows::apply(std::span<const double>, double*) const;
template void Rows::apply(std::span<const double>, float*) const;

std::optional<std::int64_t> Rows::user_of(std::int64_t point) const {
  const auto found = std::ranges::find(columns_, static_cast<std::int32_t>(point));
  if (found == columns_.end()) return std::nullopt;
  const auto row =
      std::ranges::upper_bound(begins_, found - columns_.begin()) - begins_.begin() - 1;
  return places_[static_cast<std::size_t>(row)];
}

}  // namespace tremula::weights
