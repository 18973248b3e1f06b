// SPDX-License-Identifier: Apache-2.0
#pragma once
// A whole array: one distribution per dimension, how ranks number the grid, how a rank stores its
// part.
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "index_calc/layout/distribution.hpp"
#include "index_calc/skew/owned_blocks.hpp"
#include "index_calc/skew/skew.hpp"

namespace tremula::index_calc {

using core::Rank;

inline constexpr std::size_t max_dimensions = 8;

/// In which order the cells of something with several dimensions are numbered: `row` = last
/// dimension fastest (C), `column` = first dimension fastest (Fortran).
enum class Order { row, column };

/// The dimension that is numbered as the k-th fastest one, k = 0 .. dimensions - 1.
constexpr std::size_t kth_fastest(Order order, std::size_t dimensions, std::size_t k) noexcept {
  return order == Order::row ? dimensions - 1 - k : k;
}

/// `count` consecutive ranks from `first` on.
struct RankRange {
  Rank first = 0;
  Rank count = 0;
  friend bool operator==(const RankRange&, const RankRange&) = default;
};

/// A process grid whose axes need not be the dimensions of the array. Each axis splits one dimension,
/// several may split the same one, and an axis that splits none makes copies, or holds partial sums:
/// ranks that differ in it alone own the same elements.
///
/// The coordinate along dimension d, of which dims[d] says what it owns, is made of the places on the
/// axes that split d, the outermost slowest. With extents 2x3x4 and axes {{2, 0}, {}}, the rank at
/// (i, j, k) has the coordinates (k * 2 + i, 0) and is copy j of 3.
struct Mesh {
  std::vector<Index> extents;  ///< ranks along each axis, >= 1; shape: [axis]
  /// Numbers of the axes that split each dimension, outermost first; none: it is not split. The
  /// product of their extents is the dimension's grid. Shape: [dimension][axes]
  std::vector<std::vector<std::size_t>> axes;
  /// Numbers of the axes whose ranks hold partial sums: an element is the sum over the ranks that differ
  /// in these axes alone. A *layer* is all ranks at one place on them (view.hpp). Ascending.
  std::vector<std::size_t> sums{};
  friend bool operator==(const Mesh&, const Mesh&) = default;
};

inline constexpr std::size_t max_mesh_axes = 16;

class IndexList;

/// Of a layout that no formula gives: each rank lists what it owns.
struct Listing {
  bool is_partial = false;  ///< elements may be on no rank
  bool has_copies = false;  ///< elements may be on several ranks
  /// Of this rank; null where the layout came as a text. Equal if it is the same object.
  std::shared_ptr<const IndexList> mine{};
  Index elements = 0, allocated = 0;  ///< of `mine`
  friend bool operator==(const Listing&, const Listing&) = default;
};

/// Of an array whose extent along one dimension is another one in every step.
///
/// A sink may take rows by their keys, as particles are followed by their ids: a row is all that has one
/// index along the dimension, which is then the slowest one in memory, and the only one that is split.
struct Changing {
  std::size_t dimension = 0;
  /// The elements of a step in one block for each coordinate; else dims[dimension] tells the block.
  bool is_even = true;
  /// Name of the field of the stream that holds the keys, one 64-bit integer for each row; empty: none.
  std::string key{};
  /// Coordinate c takes the keys from ranges[c - 1] on that are below ranges[c]. Empty: a hash of the key
  /// tells the coordinate (coordinate_of). Ascending; shape: [coordinates - 1]
  std::vector<Index> ranges{};
  bool is_sorted =
      false;  ///< rows in ascending order of keys; else by ranks of the source, as they are there
  friend bool operator==(const Changing&, const Changing&) = default;
};

/// Which rank owns which element, and how each owner stores its part. A value: compare, copy, send.
/// It is valid where it comes from parse, from_scalapack, another layout (selected, permuted,
/// relabeled) or the wire; one that is filled in by hand goes through validate(). Everything else
/// takes valid ones.
///
/// Text form (CLI, config, logs, error messages), dimension 0 first:
///
///     shape=10000x10000 grid=4x4 block=30x50 [source=0x0] [cut=0x0] [ranks=row|column]
///                       [store=row|column] [ghost=1x1] [leading=N] [members=0-3/7]
///     shape=100x90 grid=3x2 splits0=0/10/55/100 owners0=0/2/1 block1=45
///     shape=4096x1024 mesh=2x4 axes0=1                 4 ranks share dimension 0, in 2 copies
///     shape=4096x1024 mesh=2x4x2 axes0=2/0 axes1=1     axis 2 splits dimension 0, axis 0 its parts
///     shape=900x700 mesh=4x4x2 axes0=0 axes1=1 block=32x32 sum=2     2 layers hold partial sums
///     shape=900x700 block=32x32 mesh=4x4x2 owner0=b0 owner1=b1 owner2=b0/4+b1/4    skewed: below
///     shape=180x360 lists=4 [partial=yes] [copies=yes] 4 ranks, each with a list (lists/index_list.hpp)
///     shape=*x3 grid=8                                 rows whose number changes (changing.hpp)
///     shape=*x3 grid=3x1 key=id [ranges=100/200] [sorted=yes]
///                                                      the same by keys, at a sink
///
/// Where axes of the mesh have owners the layout is skewed: the array is cut into blocks along each
/// dimension, by `block` (none: it is not cut) or by `equal` into so many that begin at floor(n * i / k),
/// and a block with the numbers b0, b1, ... belongs to the coordinate owner<axis> on each of these axes,
/// modulo their ranks; `b0/2` is b0 div 2, `b1*3` three times b1. All other axes make copies or sums. A rank stores
/// its blocks one after the other in ascending block number (the last number fastest), each dense in the
/// order of `store`; a rank with a single block has an ordinary part. No axes, splits, source, ghost or
/// leading beside them.
/// `lists` stands in the place of `grid`, too; the lists themselves are no part of the text.
/// `mesh` stands in the place of `grid`: extents of the axes, and for each dimension that is split
/// the axes that split it, outermost first. `sum` names axes whose ranks hold partial sums. Axes that
/// are named nowhere make copies.
/// `block` may be given for all dimensions or per dimension (block0=, block1=); a dimension without
/// block and without splits gets the plain block distribution ceil(shape / grid). `splits1=` takes
/// bounds, `owners1=` the owner of each interval; without owners, interval i belongs to coordinate
/// i. Equal neighbouring bounds make an empty interval, which is left out of the value: 0/5/5/9 says
/// that coordinate 1 of 3 has nothing. Keys may come in any order, each once.
struct Layout {
  std::vector<Distribution> dims;    ///< shape: [dimension], 1 to max_dimensions
  Mesh mesh{};                       ///< no extents: axis d of the process grid is dimension d
  Order rank_order = Order::row;     ///< how ranks number the process grid
  Order storage_order = Order::row;  ///< how one rank stores its local part
  std::vector<Index>
      ghost;  ///< cells around the local part on both sides; empty = none; shape: [dimension]
  Index leading = 0;  ///< allocated cells along the fastest dimension; 0 = as many as are needed
  std::vector<RankRange>
      members;  ///< group ranks that take part, in grid order; empty = 0 .. rank_count()-1
  /// Then `dims` tell the shape alone, and as many coordinates along the first as there are ranks.
  std::optional<Listing> listing{};
  /// Then that dimension has extent 0 here, and dims tell of it what sized() makes a step's from.
  std::optional<Changing> changing{};
  /// Then `dims` tell the shape and the cuts alone, one coordinate along each, and `mesh` its extents.
  std::optional<Skew> skew{};

  /// The inverse of to_string. The result is validated.
  /// @throws LayoutError with the position of the mistake, what was expected there and what was
  /// found; core::Error invalid_argument if the parts do not fit together
  static Layout parse(std::string_view text);

  /// From a ScaLAPACK descriptor of a dense matrix: desc = {1, ctxt, m, n, mb, nb, rsrc, csrc,
  /// lld}, on a `rows` x `columns` BLACS grid numbered in `rank_order`. Storage is column-major,
  /// leading = lld.
  /// @throws core::Error invalid_argument if desc[0] is not 1 or a value is out of range
  static Layout from_scalapack(std::span<const int, 9> desc, int rows, int columns,
                               Order rank_order = Order::row);

  friend bool operator==(const Layout&, const Layout&) = default;
};

/// Why a text is no layout. what() says it with the text around the mistake, in one line; the parts
/// are for callers that show the text themselves.
class LayoutError : public core::Error {
public:
  LayoutError(std::size_t position, const std::string& complaint, const std::string& around)
      : core::Error(core::Errc::invalid_argument, "layout, position " + std::to_string(position) +
                                                      ": " + complaint + " in " + around),
        position_(position),
        complaint_(complaint) {}
  /// 0-based character of the text.
  std::size_t position() const noexcept { return position_; }
  /// "expected ..., found ..."
  const std::string& complaint() const noexcept { return complaint_; }

private:
  std::size_t position_;
  std::string complaint_;
};

/// Shortest text that Layout::parse reads back to an equal value.
std::string to_string(const Layout& layout);

/// @throws core::Error invalid_argument naming the broken condition (also when the number of
/// elements or the grid exceeds 63 / 31 bits)
void validate(const Layout& layout);

/// That a group of `group_size` ranks fits: without `members` the grid has exactly group_size
/// cells, with `members` every member is a rank of the group.
/// @pre the layout is valid
/// @throws core::Error invalid_argument with both numbers and what to do
void validate_for_group(const Layout& layout, Rank group_size);

/// That both have one shape; of changing ones, that the same dimension changes; that none has partial sums,
/// which go by layers (layer()).
/// @throws core::Error mismatch naming both; unsupported naming the one with sums
void validate_pair(const Layout& mine, const Layout& theirs);

/// Bytes of the whole array.
/// @throws core::Error invalid_argument if they exceed 63 bits
Index bytes_of(const Layout& layout, std::size_t element_bytes);

/// What the value itself takes in memory: Splits and members can be long.
std::size_t memory_bytes(const Layout& layout) noexcept;

/// Cells of the process grid = ranks that take part.
Rank rank_count(const Layout& layout) noexcept;
/// Ranks that own the same elements, partial sums included; 1 where no axis makes copies or sums.
Rank copy_count(const Layout& layout) noexcept;
/// The process grid: the mesh or, where there is none, an axis for each dimension.
Mesh mesh_of(const Layout& layout);
/// Global extents, 0 of a dimension that changes. Shape: [dimension].
std::vector<Index> shape(const Layout& layout);
/// The same as in the text form, e.g. "*x3".
std::string shape_text(const Layout& layout);
/// The dimension whose extent changes with every step; max_dimensions if none does.
inline std::size_t changing_dimension(const Layout& layout) noexcept {
  return layout.changing ? layout.changing->dimension : max_dimensions;
}

/// The group ranks that take part, in grid order. Shape: [rank_count]
std::vector<Rank> ranks_of(const Layout& layout);

/// How one rank stores its part. Entries beyond the layout's dimensions are 0.
struct LocalPart {
  std::size_t dimensions = 0;
  std::array<Index, max_dimensions> extent{};  ///< owned elements along each dimension
  std::array<Index, max_dimensions> stride{};  ///< elements between neighbours along each dimension
  Index first = 0;      ///< element offset of the first owned element (ghost cells before it)
  Index elements = 0;   ///< owned elements
  Index allocated = 0;  ///< elements the buffer must have, ghost and leading included
};

/// The part of group rank `rank`; all zero for a rank that takes no part, strides and allocated
/// zero for one that owns no element. Where ranks list what they own, that of this rank: its buffer, in
/// one dimension. Where owners are skewed and it has several blocks, they are one dimension, too.
/// @throws core::Error invalid_argument if `leading` is smaller than the rank needs, or this rank's list
///         is missing; unsupported if a skewed layout has more than 2^24 blocks along a dimension
LocalPart local_part(const Layout& layout, Rank rank);

/// The buffer of a part, ghost cells and gaps included, as two dimensions of stride 1: a place in it is the sum
/// of two indices, as in the packages of make_listed_plan.
LocalPart flattened(const LocalPart& part);

/// The blocks of a skewed layout. Cells of its process grid have their owners' coordinates in the place
/// of those along the dimensions.
/// @pre layout.skew
/// @throws core::Error unsupported, and cost, as OwnedBlocks
OwnedBlocks owned_blocks(const Layout& layout);

/// That owners are an outer product of the dimensions, whose extents are known, as most functions of this room need.
/// @param what  cannot be done otherwise, e.g. "a selection"
/// @throws core::Error unsupported
void expect_computed(const Layout& layout, std::string_view what);

/// Of all that the other side must know: distributions, both orders, members; not ghost and
/// leading, which only the owner's memory knows. Equal layouts have equal fingerprints on every
/// machine.
std::uint64_t fingerprint(const Layout& layout);

}  // namespace tremula::index_calc
