// SPDX-License-Identifier: Apache-2.0
#pragma once
// The plan of one rank: everything that it exchanges with every rank on the other side. Pure
// calculation: no memory is moved here.
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "index_calc/layout/process_grid.hpp"
#include "index_calc/lists/match.hpp"
#include "index_calc/overlap/overlap.hpp"

namespace tremula::index_calc {

/// The side of the exchange that the planning rank is on.
enum class Role { source, sink };

/// The host of each group rank, as an arbitrary number; empty if not known. Shape: [rank]
struct Hosts {
  std::span<const std::uint32_t> of_mine, of_theirs;
  bool is_one_job = false;  ///< whether both sides consist of the same ranks
};

/// All elements that this rank exchanges with one peer: the outer product of one segment list per
/// dimension. A view, which is valid during the lifetime of its plan.
struct Package {
  Rank peer{};
  std::size_t dimensions = 0;
  std::array<SegmentList, max_dimensions> along{};  ///< shape: [dimension]
  Index elements = 0;                               ///< product of the lists' elements, >= 1
};

/// Calls visit(Segment) for each segment of a package of make_listed_plan, in ascending global order, with
/// its places in both buffers.
template <class Visit>
void for_each_listed_segment(const Package& package, Visit&& visit) {
  package.along[0].for_each([&](const Segment& row) {
    for (Index i = 0; i < row.length; ++i)
      package.along[1].for_each([&](const Segment& s) {
        visit(Segment{{row.begin.value + i + s.begin.value},
                      {row.peer_begin.value + i + s.peer_begin.value},
                      s.length});
      });
  });
}

/// The packages of one rank for one field. Holds the segment lists of each dimension; the product
/// over the dimensions is never written out, and packages are made on request.
///
/// If the sink has copies, each copy receives all its elements. If the source has copies, they
/// share the work of sending. Each of R copies sends 1/R of the elements that one cell owes to all
/// copies of another, rounded to whole lines, and serves copies on its own host first. A line
/// consists of all elements at one index along the dimension in which the cells share the most. In
/// one job, a rank that holds a copy of both cells keeps its own elements. With copies on either
/// side, the shares of each pair of cells are written out.
class Plan {
public:
  /// Returns the number of packages: one per peer with which this rank exchanges elements.
  std::size_t size() const noexcept;
  /// Calls visit(Package) for each package, ordered by the grid coordinates of the peers, last
  /// dimension fastest. The cost of each is O(dimensions + log(ranges of members)), and with copies
  /// also O(segments of one period along each dimension).
  template <class Visit>
  void for_each_package(Visit&& visit) const {
    for (std::size_t i = 0, packages = size(); i < packages; ++i) visit((*this)[i]);
  }
  /// Returns the package for `peer`; nullopt if the two exchange nothing.
  /// O(dimensions * log(peers) + log(ranges of members)), and with copies also O(packages).
  std::optional<Package> package_for(Rank peer) const;
  /// Returns the package that for_each_package visits as number i, at the same cost.
  Package operator[](std::size_t i) const;
  /// Returns the number of elements of all packages: the elements of the rank's local part. A
  /// source sends them once to each copy of the sink, and copies of the source share this work.
  /// Saturates at 2^63 - 1.
  Index elements() const noexcept { return elements_; }
  std::size_t memory_bytes() const noexcept;
  /// Returns whether packages are rows of a pattern of segments (make_listed_plan), which each side
  /// finds independently.
  bool is_listed() const noexcept { return is_listed_; }
  /// Returns the fingerprint of the pair of layouts, and of the match if there was one. It is the
  /// same on both sides, because the order of the two layouts does not matter.
  std::uint64_t fingerprint() const noexcept { return fingerprint_; }

private:
  /// The elements that this rank exchanges with one copy of a cell of theirs.
  struct Share {
    std::size_t cell = 0;  ///< number in the product of along_
    RankCount copy = 0;
    Index first = 0, count = 0;  ///< elements along the longest dimension
  };
  /// Segments in any order of local indices.
  struct Run {
    std::vector<Family> families;
    Index family_stride = 0, family_peer_stride = 0;
    FamilyIndex index;

    static Run of(std::span<const Segment> segments);
    SegmentList list() const;
    Index elements() const { return index.before.back(); }
    std::size_t memory_bytes() const noexcept;
  };
  /// The package for one peer of a listed plan: rows of one pattern, each anywhere in the buffers;
  /// a single row at 0 if there is no such pattern.
  struct Listed {
    Rank peer{};
    Run rows, pattern;
  };
  friend Plan make_plan(const Layout&, const Layout&, Rank, Role, Algorithm, const Hosts&);
  friend Plan make_listed_plan(const Layout&, const Layout&, std::vector<PeerSegments>,
                               std::uint64_t);
  Plan(const Layout& mine, const Layout& theirs);
  std::size_t cells() const noexcept;
  Package package_of(std::size_t cell, GridCoords& coords) const;
  void deal(const ProcessGrid& mine, Rank me, Role role, const Hosts& hosts);
  void list(Rank peer, std::span<const Segment> segments);
  void list_skewed(const Layout& mine, const Layout& theirs, Rank me, Role role,
                   const Hosts& hosts);
  ProcessGrid theirs_;
  std::vector<Overlaps> along_;  ///< empty when this rank takes no part
  bool has_shares_ = false;      ///< either side has copies
  std::vector<Share> shares_;
  bool is_listed_ = false;
  std::vector<Listed> listed_;  ///< ascending peers
  Index elements_ = 0;
  std::uint64_t fingerprint_ = 0;
};

/// Plans what group rank `me` of `mine` exchanges with every rank of `theirs`. Both sides make the
/// same call, each with its own layout first. My package for a peer and the peer's package for me
/// describe the same global elements in the same order. No communication is needed.
/// @pre both layouts are valid
/// @param role   matters only if a side has copies
/// @param hosts  matter only if both sides have copies; both sides must use the same numbers
/// @throws core::Error mismatch if the shapes differ (both are named), unsupported as overlaps()
/// does
///
/// If a side is skewed, packages have the form of make_listed_plan's and refer to the places of
/// dense_part(). Only ASPEN plans them, at the cost of skewed_overlaps() and two walks over the
/// runs of all packages; copies share elements, not lines.
///
/// Cost: proportional to the blocks and segments of one period along each dimension, never to their
/// product, the extent or the ranks on the other side. With copies, also to the pairs of cells that
/// overlap, times the copies of both sides.
Plan make_plan(const Layout& mine, const Layout& theirs, Rank me, Role role = Role::source,
               Algorithm algorithm = Algorithm::aspen, const Hosts& hosts = {});

/// Makes a plan if a side lists what its ranks own. A package has two dimensions, whatever the
/// shape of the array: the place of an element in a buffer is the sum of both local indices, as in
/// flattened(). Its wire order is the row-major order of the array. A pattern of segments that rows
/// have in common, such as the rows of blocks that are given as points, is stored once; segments
/// and rows that are equally spaced in both buffers are stored as families.
/// @param segments  this rank's segments, as matched
/// @param match     number of the match, the same on all ranks, which is part of the fingerprint
/// Cost: O(segments) in time and, if there is no pattern, in memory.
Plan make_listed_plan(const Layout& mine, const Layout& theirs, std::vector<PeerSegments> segments,
                      std::uint64_t match = 0);

/// Computes the plan with all three algorithms and compares the results. The classical algorithm
/// walks all blocks of the extent for each coordinate of the other side: use this function in tests
/// or when in doubt, not for large arrays.
/// @throws core::Error as make_plan does, unsupported for skewed layouts, and internal naming rank,
/// peer, dimension and the first segment in which two of the results differ
Plan make_validated_plan(const Layout& mine, const Layout& theirs, Rank me,
                         Role role = Role::source, const Hosts& hosts = {});

}  // namespace tremula::index_calc
