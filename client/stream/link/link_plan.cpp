// SPDX-License-Identifier: Apache-2.0
#include "client/stream/link/link_plan.hpp"

#include <algorithm>

#include "index_calc/layout/view.hpp"
#include "proto/parts.hpp"

namespace tremula::client {

namespace {

/// What chunks on their way to all peers may take together, four of each.
constexpr std::size_t all_chunks_bytes = std::size_t{32} << 20, chunks_under_way = 4;
constexpr std::size_t longest_chunk = std::size_t{1} << 20, shortest_chunk = std::size_t{16} << 10;
/// Of a chunk through shared memory: so that the ring stays in the cache.
constexpr std::size_t near_chunk = std::size_t{128} << 10;

index_calc::Layout selected_of(const index_calc::Layout& layout, const proto::Box& box) {
  return box.extents == shape(layout) ? layout : selected(layout, box);
}

/// @param part  all that rank `me` owns
index_calc::LocalPart selected_of(const index_calc::LocalPart& part,
                                  const index_calc::Layout& layout, const proto::Box& box,
                                  Rank me) {
  return box.extents == shape(layout) ? part : selected_part(part, layout, box, me);
}

/// Every consumer rank hears from this producer rank, whether or not they share elements.
Rank teller_of(Rank consumer, Rank producers) { return consumer % producers; }

}  // namespace

Shared shared(const proto::Field& offered, const proto::Field& wanted) {
  const auto box = proto::shared_box(wanted, offered);
  return {.from = selected_of(offered.layout, box.of_offered),
          .to = selected_of(wanted.layout, box.of_wanted)};
}

ExchangePlan plan_exchange(std::span<const proto::Field> mine, std::span<const proto::Field> theirs,
                           transport::Side side, Rank me, Rank my_size, Rank peer_size,
                           index_calc::PlanCache& cache, const index_calc::PlanOptions& options,
                           std::span<const Target> targets, bool is_proved) {
  core::expects(mine.size() == theirs.size(), "plan_exchange: both sides name the same fields");
  const bool is_producer = side == transport::Side::producer;
  std::vector<Rank> listeners;
  if (is_producer) {
    for (Rank q = 0; q < peer_size; ++q)
      if (teller_of(q, my_size) == me) listeners.push_back(q);
  } else {
    listeners.push_back(teller_of(me, peer_size));
  }

  const auto start = core::Deadline::Clock::now();
  std::vector<ExchangePlan::Field> fields;
  for (std::size_t f = 0; f < mine.size(); ++f) {
    ExchangePlan::Field field;
    const proto::Field& offered = (is_producer ? mine : theirs)[f];
    const proto::Field& wanted = (is_producer ? theirs : mine)[f];
    const auto box = proto::shared_box(wanted, offered);
    const auto from = selected_of(offered.layout, box.of_offered);
    const auto to = selected_of(wanted.layout, box.of_wanted);
    field.plan = is_producer ? cache.get(from, to, me, options) : cache.get(to, from, me, options);
    field.transformation = targets.empty()
                               ? index_calc::Transformation{.from = offered.type, .to = wanted.type}
                               : targets[f].transformation;
    field.transformation.from = offered.type;
    validate(field.transformation);
    field.part = selected_of(targets.empty() ? local_part(mine[f].layout, me) : targets[f].part,
                             mine[f].layout, is_producer ? box.of_offered : box.of_wanted, me);
    const std::size_t dimensions = offered.layout.dims.size();
    field.wire_order = offered.layout.storage_order;
    field.write_order = wanted.layout.storage_order;
    field.closest = kth_fastest(wanted.layout.storage_order, dimensions, std::size_t{0});
    field.element_bytes = core::element_bytes(offered.type);
    if (is_proved && (is_producer || field.transformation.is_copy()))
      field.hash = std::make_shared<index_calc::ContentHash>(is_producer ? from : to, me,
                                                             field.part, field.element_bytes);
    fields.push_back(std::move(field));
  }
  // Both sides know how many peers the other one has at most.
  const auto peers = static_cast<std::size_t>(std::max(my_size, peer_size));
  const std::size_t far =
      std::clamp(all_chunks_bytes / (chunks_under_way * peers), shortest_chunk, longest_chunk);
  auto plan = plan_messages(std::move(fields), is_producer, me, my_size, peer_size, listeners,
                            {.near = std::min(near_chunk, far), .longest = far, .far = far});
  plan.inlined_bytes = inlined_bytes;
  plan.is_proved = is_proved;
  plan.seconds = core::Deadline::Seconds(core::Deadline::Clock::now() - start).count();
  return plan;
}

}  // namespace tremula::client
