// SPDX-License-Identifier: Apache-2.0
#pragma once
// What one rank exchanges with every rank of the other side. Pure calculation: no memory is moved
// here.
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "index_calc/layout/process_grid.hpp"
#include "index_calc/overlap/overlap.hpp"

namespace tremula::index_calc {

/// All elements that go between this rank and one peer: the outer product of one segment list per
/// dimension. A view: valid as long as the plan it came from.
struct Package {
  Rank peer = 0;
  std::size_t dimensions = 0;
  std::array<SegmentList, max_dimensions> along{};  ///< shape: [dimension]
  Index elements = 0;                               ///< product of the lists' elements, >= 1
};

/// The packages of one rank for one field. Holds the segment lists of each dimension; the product
/// over the dimensions is never written out, packages are made on request.
class Plan {
public:
  /// Number of peers with elements in common.
  std::size_t size() const noexcept;
  /// Calls visit(Package) for each package, ordered by the grid coordinates of the peers, last
  /// dimension fastest. Each costs O(dimensions + log(ranges of members)).
  template <class Visit>
  void for_each_package(Visit&& visit) const {
    for (std::size_t i = 0, packages = size(); i < packages; ++i) visit((*this)[i]);
  }
  /// What is shared with `peer`, if anything. O(dimensions * log(peers) + log(ranges of members)).
  std::optional<Package> package_for(Rank peer) const;
  /// The package that for_each_package visits as number i, at the same cost.
  Package operator[](std::size_t i) const;
  /// Elements of all packages = elements of the rank's local part.
  Index elements() const noexcept { return elements_; }
  std::size_t memory_bytes() const noexcept;
  /// Of the pair of layouts, the same on both sides (symmetric in its arguments by wire direction).
  std::uint64_t fingerprint() const noexcept { return fingerprint_; }

private:
  friend Plan make_plan(const Layout&, const Layout&, Rank, Algorithm);
  explicit Plan(const Layout& theirs) : theirs_(theirs) {}
  ProcessGrid theirs_;
  std::vector<Overlaps> along_;  ///< empty when this rank takes no part
  Index elements_ = 0;
  std::uint64_t fingerprint_ = 0;
};

/// What group rank `me` of `mine` exchanges with every rank of `theirs`. The same call serves both
/// sides: the producer passes (its own, the consumer's), the consumer (its own, the producer's); my
/// package for a peer and the peer's package for me describe the same global elements in the same
/// order. No communication.
/// @pre both layouts are valid
/// @throws core::Error mismatch if the shapes differ (both are named), unsupported as overlaps()
/// Cost: the blocks and segments of one period along each dimension, never their product, the
/// extent or the ranks of the other side.
Plan make_plan(const Layout& mine, const Layout& theirs, Rank me,
               Algorithm algorithm = Algorithm::aspen);

/// Computes the plan with all three algorithms. The classical one walks all blocks of the extent,
/// for each coordinate of the other side: for tests and for doubts, not for large arrays.
/// @throws core::Error as make_plan, and internal naming rank, peer, dimension and the first
/// segment in which two of them differ
Plan make_validated_plan(const Layout& mine, const Layout& theirs, Rank me);

}  // namespace tremula::index_calc
