// SPDX-License-Identifier: Apache-2.0
#pragma once
// The subject of `tremula plan`: two layouts of one array, seen from the ranks of one side.
#include <optional>
#include <string_view>

#include "cli/plan/listed_ranks.hpp"
#include "client/exchange/path/paths.hpp"
#include "index_calc/layout/process_grid.hpp"
#include "index_calc/plan/plan.hpp"
#include "index_calc/plan/runs.hpp"

namespace tremula::cli {

using core::Index, core::Rank, core::RankCount;

/// The side for which a plan is made.
enum class Side { producer, consumer };

constexpr std::string_view to_string(Side side) noexcept {
  return side == Side::producer ? "producer" : "consumer";
}
constexpr Side other(Side side) noexcept {
  return side == Side::producer ? Side::consumer : Side::producer;
}

struct Redistribution {
  index_calc::Layout from, to;
  Side side = Side::producer;
  index_calc::Algorithm algorithm = index_calc::Algorithm::aspen;
  Index element_bytes = 8;
  client::Prospect stream{};           ///< the stream that would carry the array
  std::optional<ListedRanks> lists{};  ///< nullopt unless a side lists what its ranks own

  const index_calc::Layout& layout_of(Side which) const noexcept {
    return which == Side::producer ? from : to;
  }
  const index_calc::Layout& mine() const noexcept { return layout_of(side); }
  const index_calc::Layout& theirs() const noexcept { return layout_of(other(side)); }
};

/// One rank's plan, and how long it took to make.
struct RankPlan {
  Rank rank{};
  index_calc::Plan plan;
  index_calc::LocalPart part;
  double seconds = 0;
};

/// Facts about a package.
struct PackageFacts {
  Rank peer{};
  Index elements = 0, bytes = 0;
  index_calc::Runs runs;
  /// Returns whether the package is one contiguous run in the rank's local buffer, so that nothing
  /// has to be gathered or scattered.
  bool is_direct() const noexcept { return runs.count == 1; }
  std::string_view packing() const noexcept { return is_direct() ? "direct" : "packed"; }
  std::string_view path{};  ///< the path over which the stream would send it
  Index kept_bytes = 0;     ///< per step, in memory that the engine allocates on this side
};

/// Returns the total bytes of all steps in flight if the engine keeps `kept_bytes` of each;
/// saturates instead of overflowing.
Index queue_bytes(const Redistribution& redistribution, Index kept_bytes) noexcept;

/// @throws core::Error mismatch if the shapes differ, invalid_argument if the size of the array in
/// bytes exceeds 63 bits
void validate(const Redistribution& redistribution);

/// Returns the rank with the number `rank`.
/// @throws core::Error invalid_argument if it takes no part on that side; the error names `option`
/// and the ranks that do
Rank expect_rank(const Redistribution& redistribution, Side side, Index rank,
                 std::string_view option);

/// Returns the grid coordinates of a rank that takes part.
/// @throws core::Error invalid_argument if it takes no part
index_calc::GridCoords coords_of_member(const index_calc::Layout& layout, Rank rank);

/// Returns whether packages are described by positions in the buffers of both ranks rather than by
/// dimension. This is so if a side is skewed or lists what its ranks own.
bool has_flat_plans(const Redistribution& redistribution) noexcept;

/// Return what `rank` of a side exchanges with all ranks on the other side, and the local part to
/// which these packages refer.
/// @throws core::Error as index_calc::make_plan and dense_part do
/// Cost: that of index_calc::make_plan; with lists, proportional to the segments of the rank
index_calc::Plan make_plan(const Redistribution& redistribution, Side side, Rank rank);
index_calc::LocalPart planned_part(const Redistribution& redistribution, Side side, Rank rank);

/// Returns what `rank` of a side owns, for flat plans. Cost: proportional to the runs.
index_calc::IndexList owned_list(const Redistribution& redistribution, Side side, Rank rank);

/// Returns how packages are found: "lists", or the algorithm.
std::string_view planned_by(const Redistribution& redistribution) noexcept;

PackageFacts facts(const Redistribution& redistribution, const RankPlan& plan,
                   const index_calc::Package& package);

Index elements(const index_calc::Layout& layout) noexcept;

}  // namespace tremula::cli
