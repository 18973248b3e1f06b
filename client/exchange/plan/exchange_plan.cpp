// SPDX-License-Identifier: Apache-2.0
#include "client/exchange/plan/exchange_plan.hpp"

#include <algorithm>
#include <map>

#include "index_calc/plan/runs.hpp"
#include "index_calc/layout/view.hpp"
#include "proto/package_header.hpp"

namespace tremula::client {

namespace {

constexpr std::size_t part_alignment = 16;

constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + part_alignment - 1) / part_alignment * part_alignment;
}

std::uint64_t mix(std::uint64_t sum, std::uint64_t value) {
  return (sum ^ value) * 0x9E3779B97F4A7C15u + (sum >> 29);
}

/// What pieces on their way to all peers may take together.
constexpr std::size_t all_pieces_bytes = std::size_t{32} << 20;

/// In bytes.
std::optional<std::size_t> contiguous_at(const index_calc::Package& package,
                                         const ExchangePlan::Field& f) {
  const auto begin = begin_of_only_run(package, f.part, f.wire_order);
  if (!begin) return std::nullopt;
  return static_cast<std::size_t>(*begin) * f.element_bytes;
}

index_calc::Selection selection_of(const proto::Field& wanted) {
  return {.origin = wanted.origin, .extents = shape(wanted.layout)};
}

/// Every consumer rank hears from this producer rank, whether or not they share elements.
Rank teller_of(Rank consumer, Rank producers) { return consumer % producers; }

}  // namespace

index_calc::Layout wanted_part(const proto::Field& offered, const proto::Field& wanted) {
  return wanted.origin.empty() ? offered.layout : selected(offered.layout, selection_of(wanted));
}

std::size_t Message::payload_bytes() const noexcept { return bytes - proto::package_header_bytes; }

bool Message::is_contiguous() const noexcept {
  return std::all_of(parts.begin(), parts.end(),
                     [](const Part& part) { return part.contiguous_at.has_value(); });
}

ExchangePlan plan_exchange(std::span<const proto::Field> mine, std::span<const proto::Field> theirs,
                           transport::Side side, Rank me, Rank my_size, Rank peer_size,
                           index_calc::PlanCache& cache, const index_calc::PlanOptions& options,
                           std::span<const Target> targets) {
  core::expects(mine.size() == theirs.size(), "plan_exchange: both sides name the same fields");
  const auto start = core::Deadline::Clock::now();
  const bool is_producer = side == transport::Side::producer;

  ExchangePlan out;
  std::map<Rank, Message> by_peer;
  if (is_producer) {
    for (Rank q = 0; q < peer_size; ++q)
      if (teller_of(q, my_size) == me) by_peer[q];
  } else {
    by_peer[teller_of(me, peer_size)];
  }

  for (std::size_t f = 0; f < mine.size(); ++f) {
    ExchangePlan::Field field;
    const proto::Field& offered = (is_producer ? mine : theirs)[f];
    const proto::Field& wanted = (is_producer ? theirs : mine)[f];
    const auto from = wanted_part(offered, wanted);
    field.plan = is_producer ? cache.get(from, wanted.layout, me, options)
                             : cache.get(wanted.layout, from, me, options);
    field.transformation = targets.empty()
                               ? index_calc::Transformation{.from = offered.type, .to = wanted.type}
                               : targets[f].transformation;
    field.transformation.from = offered.type;
    validate(field.transformation);
    if (!targets.empty())
      field.part = targets[f].part;
    else if (is_producer && !wanted.origin.empty())
      field.part = selected_part(offered.layout, selection_of(wanted), me);
    else
      field.part = local_part(mine[f].layout, me);
    field.wire_order = offered.layout.storage_order;
    field.element_bytes = core::element_bytes(offered.type);
    field.is_transposed = mine[f].layout.dims.size() > 1 &&
                          mine[f].layout.storage_order != theirs[f].layout.storage_order;
    const bool is_moved_as_it_is = is_producer || field.transformation.is_copy();
    for (std::size_t p = 0; p < field.plan->size(); ++p) {
      const auto package = (*field.plan)[p];
      by_peer[package.peer].parts.push_back(
          {.field = f,
           .package = package,
           .offset = 0,
           .bytes = static_cast<std::size_t>(package.elements) * field.element_bytes,
           .contiguous_at = is_moved_as_it_is ? contiguous_at(package, field) : std::nullopt});
    }
    out.fingerprint = mix(out.fingerprint, field.plan->fingerprint());
    out.fields.push_back(std::move(field));
  }

  for (auto& [peer, message] : by_peer) {
    message.peer = peer;
    message.bytes = proto::package_header_bytes;
    for (auto& part : message.parts) {
      part.offset = aligned(message.bytes);
      message.bytes = part.offset + part.bytes;
      out.payload_bytes += part.bytes;
    }
    out.messages.push_back(std::move(message));
  }
  // Both sides know how many peers the other one has at most.
  const auto peers = static_cast<std::size_t>(std::max(my_size, peer_size));
  out.piece_bytes = std::clamp(all_pieces_bytes / (pieces_under_way * peers), std::size_t{16} << 10,
                               std::size_t{1} << 20) /
                    part_alignment * part_alignment;
  // Rank i of M begins opposite of itself, at peer i * N / M, so that not all ranks address the
  // same peer first.
  const Rank opposite = static_cast<Rank>(Index{me} * peer_size / my_size);
  std::rotate(out.messages.begin(),
              std::find_if(out.messages.begin(), out.messages.end(),
                           [&](const Message& m) { return m.peer >= opposite; }),
              out.messages.end());
  out.seconds = core::Deadline::Seconds(core::Deadline::Clock::now() - start).count();
  return out;
}

}  // namespace tremula::client
