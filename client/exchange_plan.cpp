// SPDX-License-Identifier: Apache-2.0
#include "client/exchange_plan.hpp"

#include <algorithm>
#include <map>

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

/// Every consumer rank hears from this producer rank, whether or not they share elements.
Rank teller_of(Rank consumer, Rank producers) { return consumer % producers; }

}  // namespace

std::size_t Message::payload_bytes() const noexcept { return bytes - proto::package_header_bytes; }

ExchangePlan plan_exchange(std::span<const proto::Field> mine, std::span<const proto::Field> theirs,
                           transport::Side side, Rank me, Rank my_size, Rank peer_size,
                           index_calc::PlanCache& cache, const index_calc::PlanOptions& options) {
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
    field.plan = cache.get(mine[f].layout, theirs[f].layout, me, options);
    field.part = local_part(mine[f].layout, me);
    field.wire_order = (is_producer ? mine : theirs)[f].layout.storage_order;
    field.element_bytes = core::element_bytes(mine[f].type);
    for (std::size_t p = 0; p < field.plan->size(); ++p) {
      const auto package = (*field.plan)[p];
      by_peer[package.peer].parts.push_back(
          {.field = f,
           .package = p,
           .offset = 0,
           .bytes = static_cast<std::size_t>(package.elements) * field.element_bytes});
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
    out.staging_bytes += aligned(message.bytes);
    out.messages.push_back(std::move(message));
  }
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
