// SPDX-License-Identifier: Apache-2.0
#pragma once
// Scenarios of a producer and a consumer, derived from a seed, so that two jobs agree on them
// without communicating. The place of every element is computed from the definition alone: blocks
// are dealt to the coordinates in turn, like cards, and each coordinate keeps its blocks in the
// order in which they were dealt. Shares no code with index_calc.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tremula/tremula.h"

namespace tremula::coupled {

/// One dimension of the layout of one side.
struct Dealing {
  std::int64_t extent = 0, block = 1, grid = 1, source = 0;
  std::vector<std::int64_t> bounds, owners;  ///< used instead of blocks if not empty

  /// Returns the global indices that each coordinate holds, in the order in which it stores them.
  /// Shape: [grid].
  std::vector<std::vector<std::int64_t>> hands() const;
};

/// Sums of block numbers or tables, one for each axis of the mesh. Ranks along an axis without terms
/// and table hold copies.
struct Skewing {
  struct Term {
    std::size_t dimension = 0;
    std::int64_t divisor = 1, factor = 1;  ///< factor * (block number div divisor)
  };
  struct Owner {
    std::vector<Term> terms;
    std::int64_t constant = 0;
    std::vector<std::int64_t> period, table;  ///< table: last dimension fastest; empty if a sum
    bool has_copies() const { return terms.empty() && table.empty(); }
  };
  std::vector<Owner> owners;
  std::vector<std::int64_t>
      equal;  ///< blocks per dimension; block i begins at extent * i div equal
  /// Ends of the blocks of each dimension; empty if they are equal or of one size
  std::vector<std::vector<std::int64_t>> ends;
};

/// The layout of one field on one side.
struct SideLayout {
  std::vector<Dealing> dimensions;
  std::vector<std::int64_t> mesh;      ///< ranks along its axes; empty if axis d is dimension d
  std::vector<std::vector<int>> axes;  ///< axes that split each dimension, outermost first
  bool is_rank_order_column = false, is_storage_column = false;
  std::vector<std::int64_t> ghost;  ///< ghost cells per dimension; empty if there are none
  std::int64_t leading = 0;         ///< leading dimension; 0 if it is as small as possible
  std::vector<int> members;         ///< ranks in grid order; empty for all ranks
  std::optional<Skewing> skew{};    ///< if set, only extent and block of `dimensions` count

  /// Returns the text form of the layout.
  std::string text() const;
  /// Returns how many ranks own the same elements.
  std::int64_t copies() const;
};

/// A cell of a rank's buffer that holds an element.
struct Cell {
  std::int64_t offset;  ///< elements from the beginning of the buffer
  std::int64_t global;  ///< number of the element, in row-major order of the global array
};

/// The part of a field that one rank holds.
struct Part {
  std::vector<std::int64_t> extents, strides;
  std::int64_t first = 0, allocated = 0;
  std::vector<Cell> cells;
};
/// Returns the part that `rank` of the group holds.
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

/// Returns scenario `number` (0, 1, ...) of `seed`.
Scenario make_scenario(std::uint64_t seed, int number, int producers, int consumers);

std::size_t element_bytes(tremula_type type);
/// Writes the value of element `global` of field `field` in step `step`. The value is the same in
/// every run, even in a narrow type, in which it wraps around or is rounded.
void write_value(std::byte* at, tremula_type type, std::int64_t global, std::uint64_t step,
                 std::size_t field);

}  // namespace tremula::coupled
