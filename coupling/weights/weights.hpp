// SPDX-License-Identifier: Apache-2.0
#pragma once
// Regrids a field in a consumer group with the rows of a weight file: requests source elements, and
// computes the destination from them.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coupling/weights/exact_sum.hpp"
#include "coupling/weights/failure.hpp"
#include "coupling/weights/rows.hpp"
#include "tremula/tremula.h"

namespace tremula::weights {

enum class Conserve { none, global, positive, balanced, balanced_positive };

struct Options {
  Order order = Order::row;
  std::vector<std::int64_t> source_shape = {};  ///< empty for the shape in the file
  Normalization normalize = Normalization::unknown;
  RowOptions rows = {};
  Conserve conserve = Conserve::none;
};
/// Reads options from YAML.
/// @throws Failure naming an unknown key or value
Options parse_options(const std::string& text);

class Weights {
public:
  /// Collective.
  /// @throws Failure, on all ranks
  Weights(tremula_session* session, const std::string& path, const std::string& options,
          const tremula_layout* destination);

  const tremula_layout* source() const noexcept { return source_.get(); }
  const Rows& rows() const noexcept { return *rows_; }
  std::uint64_t points() const noexcept { return points_.size(); }

  /// @throws Failure
  void get(tremula_in_stream* in, int field, tremula_type type, void* data, std::size_t bytes);

private:
  struct FreeLayout {
    void operator()(tremula_layout* layout) const noexcept { tremula_layout_free(layout); }
  };
  /// The area of an element of one of the grids, which is its weight in the integral over that
  /// grid.
  struct Area {
    std::int64_t place = 0;  ///< place of the element in the points or in the buffer
    double area = 0;
  };
  void read(const std::string& path, const tremula_layout* destination);
  /// The addresses begin, ..., begin + count - 1.
  struct Block {
    std::int64_t begin = 0, count = 0;
  };
  Block block_of(std::int64_t size) const;
  std::vector<std::int64_t> own_sources(const WeightFile& file) const;
  void read_source_areas(const WeightFile& file, std::span<const std::int64_t> own,
                         const Numbering& source);
  void read_destination_areas(const WeightFile& file, std::span<const Owned> owned);
  void check_areas(const std::string& path);
  void expect_buffer(tremula_type type, const void* data, std::size_t bytes) const;
  void expect_all_came() const;
  template <class T>
  void conserve(T* data, const std::optional<Failure>& failure) const;

  tremula_session* session_;
  Options options_;
  std::vector<std::int64_t> source_shape_;
  std::vector<std::int64_t> points_;  // row-major numbers, ascending
  std::optional<Rows> rows_;
  std::unique_ptr<tremula_layout, FreeLayout> source_;
  std::vector<double> values_;  // shape: [points], of the latest get
  std::int64_t allocated_ = 0;  // elements of the buffer
  // Only with `conserve`. Each element that takes part, of either grid, is on exactly one rank.
  std::vector<Area> source_areas_, destination_areas_;
  std::uint64_t hash_of_mask_ = 0;  // over this rank's elements of the destination that take part
  std::uint64_t hash_of_all_ = 0;   // over those in this rank's block of the destination's grid
  ExactSum area_of_block_;          // sum of the areas of the same elements
  double whole_area_ = 0;           // area of the destination
  double share_ = 1;                // converts the source's integral to the destination's
};

}  // namespace tremula::weights
