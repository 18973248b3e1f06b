// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a producer and a consumer do together, made from a seed, so that two jobs that know nothing
// of each other agree on it; and where every element belongs, from the definition alone: blocks are
// dealt to the coordinates like cards, and every coordinate keeps what it was dealt in the order in
// which it came. Shares no code with index_calc.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tremula/tremula.h"

namespace tremula::coupled {

/// One dimension of one side's layout.
struct Dealing {
  std::int64_t extent = 0, block = 1, grid = 1, source = 0;
  std::vector<std::int64_t> bounds, owners;  ///< instead of blocks, if not empty

  /// The global indices that each coordinate holds, in the order in which it stores them. Shape:
  /// [grid].
  std::vector<std::vector<std::int64_t>> hands() const;
};

/// Sums of block numbers, one for each axis of the mesh that does not make copies.
struct Skewing {
  struct Term {
    std::size_t dimension = 0;
    std::int64_t divisor = 1, factor = 1;  ///< factor * (block number div divisor)
  };
  struct Owner {
    std::vector<Term> terms;  ///< empty: a copy for each rank along the axis
    std::int64_t constant = 0;
  };
  std::vector<Owner> owners;
  std::vector<std::int64_t>
      equal;  ///< blocks of each dimension, block i from extent * i div equal on
};

/// One side's layout of one field.
struct SideLayout {
  std::vector<Dealing> dimensions;
  std::vector<std::int64_t> mesh;      ///< ranks along its axes; empty: axis d is dimension d
  std::vector<std::vector<int>> axes;  ///< that split each dimension, outermost first
  bool is_rank_order_column = false, is_storage_column = false;
  std::vector<std::int64_t> ghost;  ///< empty: none
  std::int64_t leading = 0;         ///< 0: as many as are needed
  std::vector<int> members;         ///< ranks in grid order; empty: all
  std::optional<Skewing> skew{};    ///< then dimensions tell their extents and blocks alone

  /// Text form of the layout.
  std::string text() const;
  /// Ranks that own the same elements.
  std::int64_t copies() const;
};

/// A cell of a rank's buffer that holds an element.
struct Cell {
  std::int64_t offset;  ///< elements from the beginning of the buffer
  std::int64_t global;  ///< number of the element, in row-major order of the global array
};

/// One rank's part of a field.
struct Part {
  std::vector<std::int64_t> extents, strides;
  std::int64_t first = 0, allocated = 0;
  std::vector<Cell> cells;
};
/// @param rank  of the group
Part part_of(const SideLayout& layout, int rank);

struct FieldCase {
  std::string name;
  tremula_type type = TREMULA_F64;
  SideLayout producer, consumer;
};

struct Scenario {
  std::string stream;
  std::vector<FieldCase> fields;
  int steps = 1;
  int queue_depth = 1;
  bool producer_allocates = false, consumer_allocates = false;  ///< memory from tremula_allocate
  bool is_async = false;                                        ///< put_async instead of put
  bool has_metadata = false;  ///< attributes, and a time in every step
};

/// @param number  of the scenario, 0, 1, ...
Scenario make_scenario(std::uint64_t seed, int number, int producers, int consumers);

std::size_t element_bytes(tremula_type type);
/// Writes the value that element `global` of field `field` has in step `step`; one that neither
/// rounding nor a narrow type changes from run to run.
void write_value(std::byte* at, tremula_type type, std::int64_t global, std::uint64_t step,
                 std::size_t field);

}  // namespace tremula::coupled
