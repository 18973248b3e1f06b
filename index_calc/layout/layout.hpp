// SPDX-License-Identifier: Apache-2.0
#pragma once
// A whole array: which rank owns which element, how ranks are numbered, and how a rank stores its
// part.
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "index_calc/layout/kinds.hpp"
#include "index_calc/skew/owned_blocks.hpp"

namespace tremula::index_calc {

inline constexpr std::size_t max_dimensions = 8;

/// `count` consecutive ranks, beginning with `first`.
struct RankRange {
  Rank first{};
  RankCount count = 0;
  friend bool operator==(const RankRange&, const RankRange&) = default;
};

/// The ranks of a group that take part, and how they are numbered in the process grid.
struct Ranks {
  Order order = Order::row;  ///< order of the cells of the process grid
  /// Group ranks in the order of their cells; empty = 0 .. rank_count() - 1
  std::vector<RankRange> members{};
  friend bool operator==(const Ranks&, const Ranks&) = default;
};

/// States which rank owns which element, and how each owner stores its part. It is a value: it can
/// be compared, copied and sent, and it is always valid, because its constructor refuses invalid
/// parts. Its kind states how owners are found.
///
/// Text form (CLI, config, logs, error messages), dimension 0 first:
///
///     shape=10000x10000 grid=4x4 block=30x50 [source=0x0] [cut=0x0] [ranks=row|column]
///                       [store=row|column] [ghost=1x1] [leading=N] [members=0-3/7]
///     shape=100x90 grid=3x2 splits0=0/10/55/100 owners0=0/2/1 block1=45
///     shape=4096x1024 mesh=2x4 axes0=1                 axis 1 splits dimension 0; 2 copies
///     shape=4096x1024 mesh=2x4x2 axes0=2/0 axes1=1     axis 2 splits dimension 0, axis 0 its parts
///     shape=900x700 mesh=4x4x2 axes0=0 axes1=1 block=32x32 sum=2     2 layers hold partial sums
///     shape=900x700 block=32x32 mesh=4x4x2 owner0=b0 owner1=b1 owner2=b0/4+b1/4    skewed: below
///     shape=900x700 block=32x32 mesh=6 owner0=2x3:0/1/2/3/4/5     owners from a table: below
///     shape=180x360 lists=4 [partial=yes] [copies=yes] 4 ranks, each with a list (lists/index_list.hpp)
///     shape=*x3 grid=8                                 rows whose number changes (changing.hpp)
///     shape=*x3 grid=3x1 key=id [ranges=100/200] [sorted=yes]
///                                                      the same rows, taken by keys at a sink
///
/// If axes of the mesh have owners, the layout is skewed. Each dimension is cut by `block`, or by
/// `equal` into k blocks that begin at floor(n * i / k), or by `splits` at given bounds, or is a single
/// block. A block with the numbers b0, b1, ... belongs to the coordinate owner<axis> on each of these
/// axes, modulo the number of ranks along the axis; `b0/2` is b0 div 2, `b1*3` three times b1. A table
/// of 2 x 3 coordinates, the last dimension fastest, gives the entry b0 mod 2, b1 mod 3. All other axes
/// make copies or sums. A rank stores its blocks one after another in ascending block number (the last
/// number fastest), each dense in the order of `store`; a rank with a single block has an ordinary
/// part. Axes, owners, source, ghost and leading cannot be given together with owner.
/// `lists` replaces `grid`; the lists themselves are not part of the text.
/// `mesh` also replaces `grid`: it gives the extents of the axes, and for each dimension that is
/// split the axes that split it, outermost first. `sum` names axes whose ranks hold partial sums.
/// Axes that are not named make copies. A mesh whose axis d splits dimension d, and that has no
/// other axes, is the same value as a grid.
/// `block` may be given for all dimensions or per dimension (block0=, block1=); a dimension without
/// block and without splits gets the plain block distribution ceil(shape / grid). `splits1=` takes
/// bounds, `owners1=` the owner of each interval; without owners, interval i belongs to coordinate
/// i. Equal neighbouring bounds make an empty interval, which is left out of the value: with 0/5/5/9,
/// coordinate 1 of 3 owns nothing. Keys may appear in any order, each once.
class Layout {
public:
  /// Makes a layout of one dimension without elements, on rank 0.
  Layout();
  /// Makes a layout of these parts.
  /// @throws core::Error invalid_argument naming the broken condition (also when the number of
  /// elements or of ranks exceeds 63 / 31 bits)
  explicit Layout(LayoutKind kind, Ranks ranks = {}, Storage storage = {});

  /// Reads the text form.
  /// @throws LayoutError with the position of the mistake (0 if no key is at fault), what was expected
  /// there and what was found
  static Layout parse(std::string_view text);

  /// Makes the layout from a ScaLAPACK descriptor of a dense matrix: desc = {1, ctxt, m, n, mb, nb,
  /// rsrc, csrc, lld}, on a `rows` x `columns` BLACS grid numbered in `rank_order`. Storage is
  /// column-major, leading = lld.
  /// @throws core::Error invalid_argument if desc[0] is not 1 or a value is out of range
  static Layout from_scalapack(std::span<const int, 9> desc, int rows, int columns,
                               Order rank_order = Order::row);

  const LayoutKind& kind() const noexcept { return kind_; }
  const Ranks& ranks() const noexcept { return ranks_; }
  const Storage& storage() const noexcept { return storage_; }
  /// Return the layout as one kind; null if it is of another kind.
  const Grid* grid() const noexcept { return std::get_if<Grid>(&kind_); }
  const Skewed* skewed() const noexcept { return std::get_if<Skewed>(&kind_); }
  const Listed* listed() const noexcept { return std::get_if<Listed>(&kind_); }
  const Changing* changing() const noexcept { return std::get_if<Changing>(&kind_); }

  /// Return the layout with other ranks or another storage.
  /// @throws core::Error as the constructor does
  Layout with(Ranks ranks) const { return Layout(kind_, std::move(ranks), storage_); }
  Layout with(Storage storage) const { return Layout(kind_, ranks_, std::move(storage)); }
  Layout with_members(std::vector<RankRange> members) const {
    return with(Ranks{ranks_.order, std::move(members)});
  }
  /// Returns the layout without ghost and leading.
  Layout dense() const { return with(Storage{.order = storage_.order}); }

  friend bool operator==(const Layout&, const Layout&) = default;

private:
  LayoutKind kind_;
  Ranks ranks_;
  Storage storage_;
};

/// The reason why a text is not a layout. what() returns it with the text around the mistake, in
/// one line; the other functions return its parts, for callers that show the text themselves.
class LayoutError : public core::Error {
public:
  LayoutError(std::size_t position, const std::string& complaint, const std::string& around)
      : core::Error(core::Errc::invalid_argument, "layout, position " + std::to_string(position) +
                                                      ": " + complaint + " in " + around),
        position_(position),
        complaint_(complaint) {}
  /// Returns the 0-based position of the mistake in the text.
  std::size_t position() const noexcept { return position_; }
  /// Returns "expected ..., found ...".
  const std::string& complaint() const noexcept { return complaint_; }

private:
  std::size_t position_;
  std::string complaint_;
};

/// Returns the shortest text that Layout::parse reads back to an equal value.
std::string to_string(const Layout& layout);

/// Checks that a group of `group_size` ranks fits: without `members`, the grid has exactly
/// group_size cells; with `members`, every member is a rank of the group.
/// @throws core::Error invalid_argument with both numbers and what to do
void validate_for_group(const Layout& layout, RankCount group_size);

/// Checks that both layouts have the same shape, that the same dimension changes in both or in
/// neither, and that neither has partial sums, which are exchanged layer by layer (layer()).
/// @throws core::Error mismatch naming both; unsupported naming the layout with sums
void validate_pair(const Layout& mine, const Layout& theirs);

/// Returns the size of the whole array in bytes.
/// @throws core::Error invalid_argument if it exceeds 63 bits
Index bytes_of(const Layout& layout, std::size_t element_bytes);

/// Returns about how many bytes of memory the value itself takes: Splits and members can be long.
std::size_t memory_bytes(const Layout& layout);

/// Returns the number of cells of the process grid, which is the number of ranks that take part.
RankCount rank_count(const Layout& layout) noexcept;
/// Returns how many ranks own the same elements, including partial sums; 1 if no axis makes copies
/// or sums.
RankCount copy_count(const Layout& layout) noexcept;
/// Returns the axes of the process grid; none if ranks list what they own. Valid as long as the
/// layout.
std::span<const MeshAxis> axes_of(const Layout& layout) noexcept;
/// Returns whether ranks hold partial sums.
bool has_sums(const Layout& layout) noexcept;
/// Returns whether elements may be on no rank.
bool is_partial(const Layout& layout) noexcept;
/// Returns whether elements may be on several ranks.
bool has_copies(const Layout& layout) noexcept;

/// Returns the number of dimensions, 1 to max_dimensions.
std::size_t dimensions(const Layout& layout) noexcept;
/// Returns the extent along a dimension, 0 if it changes.
/// @pre dimension < dimensions(layout)
Index extent(const Layout& layout, std::size_t dimension) noexcept;
/// Returns whether the array has no elements.
bool is_empty(const Layout& layout) noexcept;
/// Returns the global extents, 0 for a dimension that changes. Shape: [dimension].
std::vector<Index> shape(const Layout& layout);
/// Returns the shape as it appears in the text form, e.g. "*x3".
std::string shape_text(const Layout& layout);
/// Returns the dimension whose extent changes with every step; max_dimensions if none does.
inline std::size_t changing_dimension(const Layout& layout) noexcept {
  const Changing* const changing = layout.changing();
  return changing != nullptr ? changing->dimension : max_dimensions;
}

/// Returns the group ranks that take part, in grid order. Shape: [rank_count]
std::vector<Rank> ranks_of(const Layout& layout);

/// How one rank stores its part. Entries beyond the layout's dimensions are 0.
struct LocalPart {
  std::size_t dimensions = 0;
  std::array<Index, max_dimensions> extent{};  ///< owned elements along each dimension
  std::array<Index, max_dimensions> stride{};  ///< elements between neighbours along each dimension
  Index first = 0;      ///< element offset of the first owned element (ghost cells before it)
  Index elements = 0;   ///< owned elements
  Index allocated = 0;  ///< elements the buffer must have, including ghost and leading
};

/// Returns the part of group rank `rank`. For a rank that takes no part, all members are 0; for one
/// that owns no element, strides and `allocated` are 0. If ranks list what they own, the part is
/// this rank's buffer, as one dimension, whose extent includes places without an element. If owners
/// are skewed and the rank has several blocks, these also form one dimension.
/// @throws core::Error invalid_argument if `leading` is smaller than the rank needs, or this rank's list
///         is missing; unsupported where the constructor of OwnedBlocks throws it
LocalPart local_part(const Layout& layout, Rank rank);

/// Returns the buffer of a part, including ghost cells and gaps, as two dimensions of stride 1: a
/// position in it is the sum of two indices, as in the packages of make_listed_plan.
LocalPart flattened(const LocalPart& part);

/// Returns the blocks of a skewed layout. The coordinates of a cell of its process grid are
/// coordinates on the axes with owners, not along the dimensions.
/// Cost and errors: those of the constructor of OwnedBlocks.
OwnedBlocks owned_blocks(const Skewed& skewed);

/// Returns the layout as a grid, whose owners are an outer product of the dimensions.
/// @param what  what requires this, as the error names it, e.g. "selection"
/// @throws core::Error unsupported if the layout is of another kind
const Grid& expect_grid(const Layout& layout, std::string_view what);

/// Returns a fingerprint of everything that the other side must know: all of the layout except this
/// rank's list, and except ghost and leading, which concern only the owner's memory. Equal layouts
/// have equal fingerprints on every machine.
std::uint64_t fingerprint(const Layout& layout);

}  // namespace tremula::index_calc
