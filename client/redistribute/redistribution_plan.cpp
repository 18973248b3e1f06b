// SPDX-License-Identifier: Apache-2.0
#include "client/redistribute/redistribution_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/deadline.hpp"
#include "core/error.hpp"
#include "index_calc/lists/index_list.hpp"
#include "index_calc/plan/skewed_plan.hpp"

namespace tremula::client::redistribute {

using index_calc::LocalPart, index_calc::Layout, index_calc::Order;

namespace {

/// What chunks to and from all peers may take together, four of each.
constexpr std::size_t all_chunks_bytes = std::size_t{32} << 20;
constexpr std::size_t longest_chunk = std::size_t{1} << 20, shortest_chunk = std::size_t{16} << 10;

/// What goes at once to a peer on the same machine: as much as stays in the cache of the second
/// level, over all peers, until it is unpacked.
std::size_t cached_chunk_bytes(RankCount near_ranks) {
  constexpr std::size_t all = std::size_t{1} << 20;
  return std::max(all / static_cast<std::size_t>(near_ranks), shortest_chunk);
}

Order closest_order(const LocalPart& part) {
  return part.elements > 0 && part.stride[0] < part.stride[part.dimensions - 1] ? Order::column
                                                                                : Order::row;
}

/// Runs of places in ascending order, none of which touches the one before.
std::vector<std::pair<Index, Index>> places_of(const index_calc::IndexList& list) {
  std::vector<std::pair<Index, Index>> runs, joined;
  runs.reserve(list.runs().size());
  for (const index_calc::ListRun& run : list.runs()) runs.emplace_back(run.local, run.length);
  std::ranges::sort(runs);
  for (const auto& [first, length] : runs)
    if (!joined.empty() && joined.back().first + joined.back().second == first)
      joined.back().second += length;
    else
      joined.emplace_back(first, length);
  return joined;
}

/// Returns whether elements of `from` have to come: even with alpha 0, those of a partial source say which
/// elements of `to` there is something for, while the others stay as they are.
bool needs_elements(const Update& update, RankCount pass) {
  return update.transformation.alpha != 0.0 || (pass == 0 && is_partial(update.from));
}

}  // namespace

std::size_t RedistributionPlan::longest_chunk_bytes(RankCount ranks) noexcept {
  return std::clamp(all_chunks_bytes / (8 * static_cast<std::size_t>(ranks)), shortest_chunk,
                    longest_chunk);
}

RedistributionPlan::RedistributionPlan(std::span<const Update> updates, RankCount pass, Rank me,
                                       RankCount size, const index_calc::PlanOptions& options,
                                       RankCount near_ranks,
                                       std::span<const std::uint32_t> machines,
                                       std::span<const ListedUpdate> listed) {
  const auto start = core::Deadline::Clock::now();
  std::vector<ExchangePlan::Field> sources, sinks;
  const index_calc::Hosts hosts{.of_mine = machines, .of_theirs = machines, .is_one_job = true};
  index_calc::PlanCache plans(hosts);  // arrays with the same layouts share them
  const auto plan = [&](const Layout& mine, const Layout& theirs, index_calc::Role role) {
    index_calc::PlanOptions of_role = options;
    of_role.role = role;
    return plans.get(mine, theirs, me, of_role);
  };
  const auto add = [&](const Update& whole, const ListedUpdate& of_lists) {
    validate_for_group(whole.from, size);
    validate_for_group(whole.to, size);
    validate(whole.transformation);
    validate_sums(whole);
    const Update update = in_pass(whole, pass);
    const auto [from, to] = moved(update);
    if (needs_elements(update, pass)) expect_dense(from, to);
    const auto [my_from, my_to] = moved_parts(update, me);
    const std::size_t closest =
        kth_fastest(update.to.storage().order, dimensions(update.to), std::size_t{0});
    const auto& transformation = update.transformation;
    ExchangePlan::Field field{.wire_order = update.from.storage().order,
                              .write_order = closest_order(my_to),
                              .closest = update.axes.empty() ? closest : update.axes[closest],
                              .element_bytes = core::element_bytes(transformation.from),
                              .transformation = transformation,
                              .is_needed = needs_elements(update, pass)};
    const bool is_listed = of_lists.as_source != nullptr, is_skewed = is_skewed_pair(from, to);
    if (is_listed || is_skewed) {  // their plans know the buffers alone
      field.wire_order = field.write_order = Order::row;
      field.closest = 1;
    }
    const auto part_in = [&](const LocalPart& part, const Layout& layout) {
      return !field.is_needed ? part
             : is_listed      ? flattened(part)
             : is_skewed      ? dense_part(part, layout.storage().order)
                              : part;
    };
    field.plan = is_listed ? of_lists.as_source : plan(from, to, index_calc::Role::source);
    field.part = part_in(my_from, from);
    sources.push_back(field);
    field.plan = is_listed ? of_lists.as_sink : plan(to, from, index_calc::Role::sink);
    field.part = part_in(my_to, to);
    sinks.push_back(field);
    const bool is_of_other_layer = layer_count(whole.to) > 1 && !coords_of(update.to, me);
    const auto [all_from, all_to] = moved_parts(whole, me);
    arrays_.push_back({.from = all_from,
                       .to = all_to,
                       .from_width = core::element_bytes(transformation.from),
                       .to_width = core::element_bytes(transformation.to)});
    Array& array = arrays_.back();
    array.is_scaled = pass == 0 && (!field.is_needed || is_of_other_layer);
    const index_calc::Listed* const gaps = to.listed();
    if (array.is_scaled && gaps != nullptr && gaps->elements < gaps->allocated) {
      array.scaled = places_of(*gaps->mine);
      array.is_scaled = !array.scaled.empty();
    }
  };
  for (std::size_t i = 0; i < updates.size(); ++i) try {
      add(updates[i], listed.empty() ? ListedUpdate{} : listed[i]);
    } catch (const core::Error& e) {
      if (updates.size() == 1) throw;
      throw core::Error(e.code(), fmt::format("array {}: {}", i, e.what()));
    }
  const RankCount near = near_ranks == 0 ? size : near_ranks;
  const std::size_t longest = longest_chunk_bytes(near);
  const ChunkSizes chunks{.near = std::min(cached_chunk_bytes(near), longest),
                          .longest = longest,
                          .far = longest_chunk_bytes(size)};
  source_ = plan_messages(std::move(sources), true, me, size, size, {}, chunks);
  sink_ = plan_messages(std::move(sinks), false, me, size, size, {}, chunks);
  seconds_ = core::Deadline::Seconds(core::Deadline::Clock::now() - start).count();
}

}  // namespace tremula::client::redistribute
