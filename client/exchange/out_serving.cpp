// SPDX-License-Identifier: Apache-2.0
// What peers ask for: parts of a step that the producer lends.
#include <fmt/format.h>

#include <algorithm>

#include "client/exchange/out_exchange.hpp"

namespace tremula::client {

using proto::PackageKind, proto::PartPlace;

void OutExchange::begin_to_serve(std::size_t message, const proto::PackageHeader& header,
                                 core::BytesView said) {
  Peer& peer = peers_[message];
  const Rank rank = plan_.messages[message].peer;
  const auto place = proto::decode_part_place(said.subspan(proto::package_header_bytes));
  Slot& s = slot(header.step);
  const auto& parts = plan_.messages[message].parts;
  if (!is_direct_ || peer.asked.is_open || header.step != peer.credited || s.step != header.step ||
      place.part >= parts.size() || s.lent[parts[place.part].field].empty())
    throw protocol_error(rank,
                         fmt::format("a credit, or the wish for a part of step {}", peer.credited),
                         fmt::format("the wish for part {} of step {}", place.part, header.step));
  if (place.kind == PartPlace::Kind::readable) {  // it tells that it reads, and needs nothing
    end_reading(peer);
    if (place.first == 0) peer.reads_since = core::Deadline::Clock::now();
    return;
  }
  if (place.kind != PartPlace::Kind::local || !peer.is_near) {
    peer.asked = {
        .is_open = true, .slot = &s, .part = place.part, .since = core::Deadline::Clock::now()};
    return;
  }
  const auto& part = parts[place.part];
  const auto& f = plan_.fields[part.field];
  const auto& package = part.package;
  const Stopwatch watch(peer.traffic.copy_seconds);
  const auto theirs =
      buffer_of(place, package.dimensions, f.element_bytes, mappings_, /*is_writable=*/true);
  threads_.run({0, package.elements}, f.element_bytes, [&](index_calc::Stretch some) {
    index_calc::copy_to_peer(package, f.part, theirs.part, f.wire_order, f.element_bytes, some,
                             s.lent[part.field], theirs.bytes);
  });
  peer.traffic.copied_bytes += part.bytes;
  tell_delivered(message, header.step);
}

void OutExchange::tell_delivered(std::size_t message, std::uint64_t step) {
  Peer& peer = peers_[message];
  peer.asked = {};
  peer.delivered = proto::encode({.kind = PackageKind::delivered,
                                  .link = link_,
                                  .step = step,
                                  .payload_bytes = 0,
                                  .fingerprint = plan_.fingerprint});
  peer.delivered_request =
      endpoint_.send(plan_.messages[message].peer, tags::delivered, peer.delivered);
}

void OutExchange::serve(std::size_t message) {
  Peer& peer = peers_[message];
  const auto& part = plan_.messages[message].parts[peer.asked.part];
  const auto since = peer.asked.since;
  const auto step = peer.asked.slot->step;
  const bool is_served = peer.is_near ? serve_by_ring(peer, part)
                                      : serve_by_messages(peer, plan_.messages[message].peer, part);
  if (!is_served) return;
  peer.traffic.wire_seconds += seconds_since(since);
  if (peer.is_near)
    tell_delivered(message, step);
  else
    peer.asked = {};  // the next wish may come before the last pieces are known to be sent
}

bool OutExchange::serve_by_ring(Peer& peer, const Message::Part& part) {
  const auto& f = plan_.fields[part.field];
  const auto& package = part.package;
  const auto per_piece = static_cast<Index>(peer.ring.slot_bytes() / f.element_bytes);
  while (peer.asked.done < package.elements) {
    const auto room = briefly([&] { return peer.ring.room(); });
    if (room.empty()) return false;
    const Stopwatch watch(peer.traffic.copy_seconds);
    const Index count = std::min(per_piece, package.elements - peer.asked.done);
    const auto bytes = static_cast<std::size_t>(count) * f.element_bytes;
    index_calc::pack(package, f.part, f.wire_order, f.element_bytes, {peer.asked.done, count},
                     peer.asked.slot->lent[part.field], room.first(bytes));
    peer.ring.push();
    moved_ += bytes;
    peer.asked.done += count;
    peer.traffic.copied_bytes += bytes;
  }
  return true;
}

bool OutExchange::serve_by_messages(Peer& peer, Rank rank, const Message::Part& part) {
  const auto& f = plan_.fields[part.field];
  const auto& package = part.package;
  const auto per_piece = static_cast<Index>(plan_.piece_bytes / f.element_bytes);
  const auto local = peer.asked.slot->lent[part.field];
  while (peer.asked.done < package.elements) {
    const std::size_t i = peer.asked.pieces % pieces_under_way;
    if (!peer.pieces[i].test()) return false;
    const Index count = std::min(per_piece, package.elements - peer.asked.done);
    const auto bytes = static_cast<std::size_t>(count) * f.element_bytes;
    core::BytesView piece;
    if (part.contiguous_at) {
      piece = local.subspan(
          *part.contiguous_at + static_cast<std::size_t>(peer.asked.done) * f.element_bytes, bytes);
    } else {
      const Stopwatch watch(peer.traffic.copy_seconds);
      index_calc::pack(package, f.part, f.wire_order, f.element_bytes, {peer.asked.done, count},
                       local, peer.bounce[i].first(bytes));
      piece = peer.bounce[i].first(bytes);
      peer.traffic.copied_bytes += bytes;
    }
    peer.pieces[i] = endpoint_.send(rank, tags::piece, piece);
    moved_ += bytes;
    peer.asked.done += count;
    ++peer.asked.pieces;
  }
  return true;
}

}  // namespace tremula::client
