// SPDX-License-Identifier: Apache-2.0
#include "cli/plan/redistribution.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "client/stream/link/link_plan.hpp"
#include "core/error.hpp"
#include "index_calc/layout/blocks.hpp"
#include "index_calc/plan/skewed_plan.hpp"

namespace tremula::cli {

namespace {

using index_calc::Layout;

/// Mean length of runs above which a remote read over TCP is worthwhile. Networks whose hardware
/// reads remote memory need less.
constexpr Index shortest_read_bytes = Index{512} << 10;

/// Returns the ranks that take part, e.g. "0 to 5" or "0 to 3, 7".
std::string ranks_text(const Layout& layout) {
  const auto range = [](Rank first, RankCount count) {
    return count == 1 ? fmt::format("{}", first.value)
                      : fmt::format("{} to {}", first.value, Index{first.value} + count - 1);
  };
  const auto& members = layout.ranks().members;
  if (members.empty()) return range(Rank{0}, index_calc::rank_count(layout));
  constexpr std::size_t most = 8;
  std::vector<std::string> texts;
  for (const auto& member : members) {
    if (texts.size() == most) {
      texts.emplace_back("...");
      break;
    }
    texts.push_back(range(member.first, member.count));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

const RanksOfSide& of_side(const Redistribution& redistribution, Side side) {
  return side == Side::producer ? redistribution.lists->producers : redistribution.lists->consumers;
}

}  // namespace

void validate(const Redistribution& redistribution) {
  const auto& [from, to, side, algorithm, element_bytes, stream, lists] = redistribution;
  if (index_calc::shape(from) != index_calc::shape(to))
    throw core::Error(core::Errc::mismatch,
                      fmt::format("expected the same shape in --from and --to, found shape={} in "
                                  "--from and shape={} in --to; give both the same shape",
                                  shape_text(from), shape_text(to)));
  index_calc::bytes_of(from, static_cast<std::size_t>(element_bytes));
}

Rank expect_rank(const Redistribution& redistribution, Side side, Index rank,
                 std::string_view option) {
  const Layout& layout = redistribution.layout_of(side);
  if (rank >= 0 && rank <= std::numeric_limits<RankCount>::max())
    if (const Rank found{static_cast<RankCount>(rank)}; index_calc::coords_of(layout, found))
      return found;
  throw core::Error(core::Errc::invalid_argument,
                    fmt::format("{}: expected the rank of a {}, {}, found {}; give one of these{}",
                                option, to_string(side), ranks_text(layout), rank,
                                option == "--rank" ? ", or --all, or the other --side" : ""));
}

index_calc::GridCoords coords_of_member(const Layout& layout, Rank rank) {
  if (const auto coords = index_calc::coords_of(layout, rank)) return *coords;
  throw core::Error(core::Errc::invalid_argument,
                    fmt::format("expected a rank that takes part, {}, found {}; give one of these",
                                ranks_text(layout), rank.value));
}

bool has_flat_plans(const Redistribution& redistribution) noexcept {
  return redistribution.lists || is_skewed_pair(redistribution.from, redistribution.to);
}

index_calc::Plan make_plan(const Redistribution& redistribution, Side side, Rank rank) {
  const Layout &mine = redistribution.layout_of(side),
               &theirs = redistribution.layout_of(other(side));
  if (redistribution.lists)
    return index_calc::make_listed_plan(mine, theirs,
                                        of_side(redistribution, side).segments[at(rank)]);
  const auto role = side == Side::producer ? index_calc::Role::source : index_calc::Role::sink;
  return index_calc::make_plan(mine, theirs, rank, role, redistribution.algorithm);
}

index_calc::LocalPart planned_part(const Redistribution& redistribution, Side side, Rank rank) {
  if (redistribution.lists) {
    const index_calc::IndexList& list = of_side(redistribution, side).lists[at(rank)];
    index_calc::LocalPart part;
    part.allocated = list.allocated();
    part.elements = list.elements();
    return flattened(part);
  }
  const Layout& mine = redistribution.layout_of(side);
  const index_calc::LocalPart part = index_calc::local_part(mine, rank);
  return has_flat_plans(redistribution) ? dense_part(part, mine.storage().order) : part;
}

index_calc::IndexList owned_list(const Redistribution& redistribution, Side side, Rank rank) {
  if (redistribution.lists) return of_side(redistribution, side).lists[at(rank)];
  const Layout& mine = redistribution.layout_of(side);
  return index_calc::IndexList::of_layout(mine, rank, local_part(mine, rank));
}

std::string_view planned_by(const Redistribution& redistribution) noexcept {
  return redistribution.lists ? "lists" : to_string(redistribution.algorithm);
}

PackageFacts facts(const Redistribution& redistribution, const RankPlan& plan,
                   const index_calc::Package& package) {
  const Index bytes = package.elements * redistribution.element_bytes;
  const auto order =
      has_flat_plans(redistribution) ? index_calc::Order::row : redistribution.from.storage().order;
  const auto runs = index_calc::runs(package, plan.part, order);
  const client::Prospect& stream = redistribution.stream;
  const bool is_short = bytes <= static_cast<Index>(client::inlined_bytes);
  const client::Path& path =
      client::foresee(client::all_paths(), stream, is_short,
                      runs.count <= std::max<Index>(bytes / shortest_read_bytes, 1));
  const bool is_producer = redistribution.side == Side::producer;
  return {.peer = package.peer,
          .elements = package.elements,
          .bytes = bytes,
          .runs = runs,
          .path = path.name(),
          .kept_bytes = stream.is_queued() && path.is_staged_at(is_producer) ? bytes : 0};
}

Index queue_bytes(const Redistribution& redistribution, Index kept_bytes) noexcept {
  return index_calc::saturating_product(kept_bytes, redistribution.stream.queue_depth);
}

Index elements(const Layout& layout) noexcept {
  Index product = 1;
  for (std::size_t d = 0; d < dimensions(layout); ++d)
    product = index_calc::saturating_product(product, extent(layout, d));
  return product;
}

}  // namespace tremula::cli
