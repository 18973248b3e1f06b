// SPDX-License-Identifier: Apache-2.0
#include "client/redistribute/redistribution_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/deadline.hpp"
#include "core/error.hpp"
#include "index_calc/plan/runs.hpp"

namespace tremula::client::redistribute {

using index_calc::LocalPart, index_calc::Layout, index_calc::Order;

namespace {

/// What segments to and from all peers may take together, four of each.
constexpr std::size_t all_segments_bytes = std::size_t{32} << 20;
constexpr std::size_t longest_segment = std::size_t{1} << 20,
                      shortest_segment = std::size_t{16} << 10;

/// What goes at once to a peer on the same machine: as much as stays in the cache of the second
/// level, over all peers, until it is unpacked.
std::size_t cached_segment_bytes(Rank size) {
  constexpr std::size_t all = std::size_t{1} << 20;
  return std::max(all / static_cast<std::size_t>(size), shortest_segment);
}

/// Bytes of a package on the wire such that each stretch of them that is written in the consumer's
/// memory fills four lines of a cache, if its elements are as wide.
std::size_t bytes_that_fill_lines(const RedistributionPlan::Array& array,
                                  const index_calc::Package& package) {
  std::size_t bytes = 256;
  for (std::size_t k = 0; k < package.dimensions && bytes < longest_segment; ++k) {
    const std::size_t d = kth_fastest(array.wire_order, package.dimensions, k);
    if (d == array.closest) break;
    bytes *= static_cast<std::size_t>(package.along[d].elements());
  }
  return bytes;
}

Order closest_order(const LocalPart& part) {
  return part.stride[0] < part.stride[part.dimensions - 1] ? Order::column : Order::row;
}

}  // namespace

RedistributionPlan::RedistributionPlan(std::span<const Update> updates, Rank me, Rank size,
                                       const index_calc::PlanOptions& options) {
  const auto start = core::Deadline::Clock::now();
  arrays_.reserve(updates.size());
  for (std::size_t i = 0; i < updates.size(); ++i) try {
      validate_for_group(updates[i].from, size);
      validate_for_group(updates[i].to, size);
      add(updates[i], me, options);
    } catch (const core::Error& e) {
      if (updates.size() == 1) throw;
      throw core::Error(e.code(), fmt::format("array {}: {}", i, e.what()));
    }
  segment_bytes_ = segment_bytes(size);
  add_messages(me, size);
  seconds_ = core::Deadline::Seconds(core::Deadline::Clock::now() - start).count();
}

std::size_t RedistributionPlan::segment_bytes(Rank size) noexcept {
  return std::clamp(all_segments_bytes / (8 * static_cast<std::size_t>(size)), shortest_segment,
                    longest_segment);
}

void RedistributionPlan::add(const Update& update, Rank me,
                             const index_calc::PlanOptions& options) {
  validate(update.transformation);
  const auto [from, to] = moved(update);
  const auto [my_from, my_to] = moved_parts(update, me);
  const auto plan = [&](const Layout& mine, const Layout& theirs) {
    return options.validate ? make_validated_plan(mine, theirs, me)
                            : make_plan(mine, theirs, me, options.algorithm);
  };
  const std::size_t closest =
      kth_fastest(update.to.storage_order, update.to.dims.size(), std::size_t{0});
  arrays_.push_back({.transformation = update.transformation,
                     .outgoing = plan(from, to),
                     .incoming = plan(to, from),
                     .from = my_from,
                     .to = my_to,
                     .wire_order = update.from.storage_order,
                     .write_order = my_to.elements > 0 ? closest_order(my_to) : Order::row,
                     .closest = update.axes.empty() ? closest : update.axes[closest],
                     .from_width = core::element_bytes(update.transformation.from),
                     .to_width = core::element_bytes(update.transformation.to)});
  constexpr std::uint64_t odd = 0x9E3779B97F4A7C15u;
  fingerprint_ = (fingerprint_ ^ arrays_.back().outgoing.fingerprint()) * odd +
                 static_cast<std::uint64_t>(update.transformation.from);
}

void RedistributionPlan::add_messages(Rank me, Rank size) {
  const auto distance = [&](Rank peer) { return peer > me ? peer - me : peer - me + size; };
  std::map<Rank, Message> outgoing, incoming;  // by distance
  const auto put = [&](std::map<Rank, Message>& messages, Part part, std::size_t width) {
    Message& message = messages[distance(part.package.peer)];
    message.peer = part.package.peer;
    message.bytes += static_cast<std::size_t>(part.package.elements) * width;
    message.segment_bytes =
        std::clamp(bytes_that_fill_lines(arrays_[part.array], part.package),
                   std::max(message.segment_bytes, cached_segment_bytes(size)), segment_bytes_);
    message.parts.push_back(std::move(part));
  };
  const auto byte_of = [](std::optional<Index> element, std::size_t width) {
    return element ? std::optional(static_cast<std::size_t>(*element) * width) : std::nullopt;
  };
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    const Array& a = arrays_[i];
    if (a.transformation.alpha == 0.0) continue;  // nothing of `from` is needed
    for (std::size_t k = 0; k < a.outgoing.size(); ++k)
      if (const auto package = a.outgoing[k]; package.peer != me)
        put(outgoing,
            {i, package, byte_of(begin_of_only_run(package, a.from, a.wire_order), a.from_width)},
            a.from_width);
    for (std::size_t k = 0; k < a.incoming.size(); ++k) {
      const auto package = a.incoming[k];
      if (package.peer == me) {
        own_.push_back({i, package, std::nullopt});
        continue;
      }
      const auto begin = a.transformation.is_copy() ? begin_of_only_run(package, a.to, a.wire_order)
                                                    : std::nullopt;
      put(incoming, {i, package, byte_of(begin, a.to_width)}, a.from_width);
    }
  }
  for (auto& [_, message] : outgoing) sends_.push_back(std::move(message));
  for (auto& [_, message] : incoming) receives_.push_back(std::move(message));
}

std::size_t Segments::next(std::vector<Piece>& pieces) {
  pieces.clear();
  std::size_t bytes = 0;
  for (; part_ < message_.parts.size(); ++part_, first_ = 0) {
    const auto& part = message_.parts[part_];
    const std::size_t width = plan_.arrays()[part.array].from_width;
    const auto room = static_cast<Index>((bytes_ - bytes) / width);
    const Index count = std::min(part.package.elements - first_, room);
    if (count > 0) {
      pieces.push_back({.part = &part,
                        .stretch = {.first = first_, .count = count},
                        .at = bytes,
                        .bytes = static_cast<std::size_t>(count) * width});
      bytes += pieces.back().bytes;
      first_ += count;
    }
    if (first_ < part.package.elements) break;
  }
  return bytes;
}

}  // namespace tremula::client::redistribute
