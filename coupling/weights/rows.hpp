// SPDX-License-Identifier: Apache-2.0
#pragma once
// The rows of the sparse matrix that one rank needs, and their product with the source elements.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "coupling/weights/weight_file.hpp"

namespace tremula::weights {

/// The order in which the elements of an array are numbered in a file of weights.
enum class Order { row, column };

/// Converts the row-major number of an element to its number in the file, and back. Both count from 0.
class Numbering {
public:
  Numbering(std::span<const std::int64_t> shape, Order order);
  std::int64_t in_file(std::int64_t number) const { return turned(number, shape_, reversed_); }
  std::int64_t of_file(std::int64_t address) const { return turned(address, reversed_, shape_); }

private:
  std::int64_t turned(std::int64_t number, const std::vector<std::int64_t>& from,
                      const std::vector<std::int64_t>& to) const;
  bool is_same_;
  std::vector<std::int64_t> shape_, reversed_;
};

/// An element of the destination that this rank owns.
struct Owned {
  std::int64_t address = 0;  ///< in the file, from 0
  std::int64_t place = 0;    ///< in the rank's buffer
};

/// Reads, in pieces, the value that the file has for each element of `owned`, and calls
/// visit(index in `owned`, value).
/// @param owned  ascending by address
/// @param read   (begin, count) -> values of the elements begin, ..., begin + count - 1 of the grid
template <class Read, class Visit>
void for_each_owned(std::span<const Owned> owned, const Read& read, const Visit& visit) {
  for (std::size_t i = 0; i < owned.size();) {
    const std::int64_t begin = owned[i].address;
    std::size_t end = i;
    while (end < owned.size() && owned[end].address < begin + piece) ++end;
    const auto values = read(begin, owned[end - 1].address + 1 - begin);
    for (; i < end; ++i) visit(i, values[static_cast<std::size_t>(owned[i].address - begin)]);
  }
}

struct RowOptions {
  std::optional<double> missing;  ///< a NaN means any NaN
  std::optional<double> fill;
};

/// Compressed rows. The elements of a row are in ascending order of their source addresses, and elements of the
/// same address in the order of the file, so the sum of a row does not depend on which rank computes it. Links
/// with weight 0 are left out, and need no source element; a destination element that has no other links is 0.
class Rows {
public:
  /// Reads the rows of the owned elements. Costs a pass over the file, and memory for their links.
  /// @param owned   ascending by address, each once
  /// @param extra   additional source addresses to request
  /// @param points  result: row-major numbers of the source elements to request, ascending
  Rows(const WeightFile& file, std::span<const Owned> owned, Normalization wanted,
       const Numbering& source, std::span<const std::int64_t> extra, const RowOptions& options,
       std::vector<std::int64_t>& points);

  std::uint64_t rows() const noexcept { return places_.size(); }
  /// Returns the number of links of all rows, without those of weight 0.
  std::uint64_t links() const noexcept { return weights_.size(); }
  /// Returns a hash of all weights of the file.
  std::uint64_t hash_of_file() const noexcept { return hash_of_file_; }

  /// Computes the product.
  /// @param source       shape: [points]
  /// @param destination  this rank's buffer
  template <class T>
  void apply(std::span<const double> source, T* destination) const;

  /// Returns the place of an element of the destination that needs the source element at place `point` of
  /// `source`; nullopt if no element needs it.
  std::optional<std::int64_t> user_of(std::int64_t point) const;

private:
  template <class T>
  void apply_with_missing(std::span<const double> source, T* destination) const;
  RowOptions options_;
  std::uint64_t hash_of_file_ = 0;
  std::vector<std::int64_t> begins_;   // offsets into columns_ and weights_; shape: [rows + 1]
  std::vector<std::int32_t> columns_;  // places in `source`
  std::vector<double> weights_;
  std::vector<double> sums_;           // sum of the weights of each row; only with `missing`
  std::vector<std::int64_t> places_;   // place of each row in the buffer; shape: [rows]
  std::vector<std::int64_t> without_;  // places of elements without weights
};

}  // namespace tremula::weights
