// SPDX-License-Identifier: Apache-2.0
// How the parts of a step get into the local buffers, each in the way that its place tells.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "client/exchange/in_exchange.hpp"

namespace tremula::client {

using proto::PackageKind, proto::PartPlace;
using transport::local::ChunkRing;

bool InExchange::fetch_some(std::size_t field, std::span<std::byte> local) {
  take_arrived();
  if (is_direct_ && target_ == nullptr)
    target_ = endpoint_.register_memory(local, transport::Access::own);
  bool is_all = true;
  for (std::size_t m = 0; m < plan_.messages.size(); ++m) {
    Incoming& in = slot().incoming[m];
    const auto& parts = plan_.messages[m].parts;
    for (std::size_t p = 0; p < parts.size(); ++p) {
      if (parts[p].field != field || in.is_fetched[p]) continue;
      in.is_fetched[p] = in.has_arrived && fetch(m, p, local);
      is_all = is_all && in.is_fetched[p];
    }
  }
  if (is_all) target_.reset();
  return is_all;
}

bool InExchange::fetch(std::size_t message, std::size_t part, std::span<std::byte> local) {
  const Incoming& in = slot().incoming[message];
  const auto& p = plan_.messages[message].parts[part];
  const auto& f = plan_.fields[p.field];
  const auto& package = p.package;
  const PartPlace& place = in.places[part];
  const bool is_sent_here = is_sent(message);
  if (is_sent_here || place.kind == PartPlace::Kind::packed) {
    const Stopwatch watch(peers_[message].traffic.copy_seconds);
    const core::BytesView wire = is_sent_here
                                     ? in.bytes.subspan(p.offset, p.bytes)
                                     : mappings_.find(place_from(place.memory), p.bytes, false);
    if (p.contiguous_at && p.bytes <= short_part_bytes)
      std::memcpy(local.data() + *p.contiguous_at, wire.data(), p.bytes);
    else
      mismatch_.keep([&] {
        threads_.run({0, package.elements}, f.element_bytes, [&](index_calc::Stretch some) {
          unpack(package, f.part, f.wire_order, f.transformation, some,
                 wire.subspan(static_cast<std::size_t>(some.first) * f.element_bytes,
                              static_cast<std::size_t>(some.count) * f.element_bytes),
                 local);
        });
      });
    peers_[message].traffic.copied_bytes += p.bytes;
    return true;
  }
  if (place.kind == PartPlace::Kind::local) {
    const Stopwatch watch(peers_[message].traffic.copy_seconds);
    const auto theirs = buffer_of(place, package.dimensions, f.element_bytes, mappings_, false);
    mismatch_.keep([&] {
      threads_.run({0, package.elements}, f.element_bytes, [&](index_calc::Stretch some) {
        copy_from_peer(package, f.part, theirs.part, f.wire_order, f.transformation, some,
                       theirs.bytes, local);
      });
    });
    peers_[message].traffic.copied_bytes += p.bytes;
    return true;
  }
  if (is_read(message, part, place, local)) return read(message, part, local);
  Peer& peer = peers_[message];
  if (!peer.asked.is_open && !ask_for(message, part, local)) return false;
  const Rank rank = plan_.messages[message].peer;
  const bool is_here = !peer.is_near ? take_pieces(message, p, local)
                       : peer.asked.loan || take_from_ring(message, p, place, local)
                           ? take_delivery(peer, rank)
                           : false;
  // What has failed at the peer is seen by its message, not by its ring.
  if (!is_here && peer.is_near) peer.delivered_request.test();
  if (is_here) peer.asked = {};
  return is_here;
}

bool InExchange::is_read(std::size_t message, std::size_t part, const PartPlace& place,
                         std::span<const std::byte> local) {
  if (place.kind != PartPlace::Kind::readable) return false;
  const auto& p = plan_.messages[message].parts[part];
  auto& known = peers_[message].is_read;
  known.resize(plan_.messages[message].parts.size());
  const auto& f = plan_.fields[p.field];
  if (!known[part])
    known[part] = f.transformation.is_copy() &&
                  PartReader::is_worth_it(p, f, place, local, endpoint_.shortest_read());
  return *known[part];
}

bool InExchange::read(std::size_t message, std::size_t part, std::span<std::byte> local) {
  Peer& peer = peers_[message];
  const auto& p = plan_.messages[message].parts[part];
  const PartPlace& place = slot().incoming[message].places[part];
  if (!peer.reader.is_open()) {
    if (!peer.ask_request.test()) return false;  // the last one is still on its way
    tell_wish(message, {.kind = PartPlace::Kind::readable, .part = part});
    peer.reader.begin();
  }
  const auto before = peer.reader.bytes();
  const bool is_here = peer.reader.advance(endpoint_, plan_.messages[message].peer, p,
                                           plan_.fields[p.field], place, local);
  moved_ += peer.reader.bytes() - before;
  if (!is_here || !peer.ask_request.test()) return false;
  tell_wish(message, {.kind = PartPlace::Kind::readable, .part = part, .first = 1});  // it is over
  peer.reader.reset();
  return true;
}

bool InExchange::ask_for(std::size_t message, std::size_t part, std::span<std::byte> local) {
  Peer& peer = peers_[message];
  if (!peer.ask_request.test()) return false;  // the last one is still on its way
  const Rank rank = plan_.messages[message].peer;
  peer.asked = {};
  peer.asked.is_open = true;
  const auto& f = plan_.fields[plan_.messages[message].parts[part].field];
  // A producer moves bytes: what is to be transformed is done here.
  if (peer.is_near && f.transformation.is_copy()) peer.asked.loan = transport::local::lend(local);
  const auto& memory = peer.asked.loan;
  PartPlace place{.part = part};
  if (memory) place = local_place(part, memory->place, f.part);
  if (peer.is_near)
    peer.delivered_request = endpoint_.receive(rank, tags::delivered, peer.delivered);
  tell_wish(message, place);
  return true;
}

void InExchange::tell_wish(std::size_t message, const PartPlace& place) {
  Peer& peer = peers_[message];
  const std::span<std::byte, std::tuple_size_v<AskBytes>> bytes(peer.ask);
  proto::encode({.kind = PackageKind::ask,
                 .link = link_,
                 .step = step_,
                 .payload_bytes = proto::part_place_bytes,
                 .fingerprint = plan_.fingerprint},
                bytes.first<proto::package_header_bytes>());
  proto::encode(place, bytes.last<proto::part_place_bytes>());
  peer.ask_request = endpoint_.send(plan_.messages[message].peer, tags::credit, peer.ask);
}

bool InExchange::take_delivery(Peer& peer, Rank rank) {
  if (!peer.delivered_request.test()) return false;
  const auto header = decode_from(
      rank, link_, std::span(std::as_const(peer.delivered)).first(peer.delivered_request.bytes()));
  if (header.kind != PackageKind::delivered || header.step != step_)
    throw protocol_error(
        rank, fmt::format("a part of step {}", step_),
        fmt::format("kind {} of step {}", static_cast<int>(header.kind), header.step));
  return true;
}

bool InExchange::take_from_ring(std::size_t message, const Message::Part& part,
                                const PartPlace& place, std::span<std::byte> local) {
  Peer& peer = peers_[message];
  const auto& f = plan_.fields[part.field];
  const auto& package = part.package;
  const auto memory = place_from(place.memory);
  if (!peer.ring || peer.ring_region != memory.region) {
    if (place.kind != PartPlace::Kind::ring || place.first < 1 || place.first > 1024 ||
        place.allocated < static_cast<Index>(f.element_bytes) || place.allocated > (1 << 30))
      throw protocol_error(plan_.messages[message].peer, "a ring in shared memory",
                           fmt::format("kind {}, {} slots of {} bytes",
                                       static_cast<int>(place.kind), place.first, place.allocated));
    const auto slots = static_cast<std::size_t>(place.first);
    const auto slot_bytes = static_cast<std::size_t>(place.allocated);
    peer.ring = ChunkRing::reader(
        mappings_.find(memory, ChunkRing::bytes_of(slots, slot_bytes), true), slots, slot_bytes);
    peer.ring_region = memory.region;
  }
  const auto per_piece = static_cast<Index>(peer.ring.slot_bytes() / f.element_bytes);
  while (peer.asked.done < package.elements) {
    const auto piece = briefly([&] { return peer.ring.front(); });
    if (piece.empty()) return false;
    const Stopwatch watch(peers_[message].traffic.copy_seconds);
    const Index count = std::min(per_piece, package.elements - peer.asked.done);
    const auto bytes = static_cast<std::size_t>(count) * f.element_bytes;
    mismatch_.keep([&] {
      unpack(package, f.part, f.wire_order, f.transformation, {peer.asked.done, count},
             piece.first(bytes), local);
    });
    peer.ring.pop();
    moved_ += bytes;
    peer.asked.done += count;
    peers_[message].traffic.copied_bytes += bytes;
  }
  return true;
}

bool InExchange::take_pieces(std::size_t message, const Message::Part& part,
                             std::span<std::byte> local) {
  Peer& peer = peers_[message];
  Asked& asked = peer.asked;
  const Rank rank = plan_.messages[message].peer;
  const auto& f = plan_.fields[part.field];
  const auto& package = part.package;
  const auto per_piece = static_cast<Index>(plan_.piece_bytes / f.element_bytes);
  const auto bytes_from = [&](Index first) {  // of the piece that begins there
    return static_cast<std::size_t>(std::min(per_piece, package.elements - first)) *
           f.element_bytes;
  };
  for (;;) {
    while (asked.posted < package.elements &&
           asked.pieces_posted - asked.pieces_done < pieces_under_way) {
      const std::size_t i = asked.pieces_posted % pieces_under_way,
                        bytes = bytes_from(asked.posted);
      const auto room =
          part.contiguous_at
              ? local.subspan(
                    *part.contiguous_at + static_cast<std::size_t>(asked.posted) * f.element_bytes,
                    bytes)
              : peer.bounce[i].first(bytes);
      peer.pieces[i] = endpoint_.receive(rank, tags::piece, room);
      asked.posted += std::min(per_piece, package.elements - asked.posted);
      ++asked.pieces_posted;
    }
    if (asked.done == package.elements) return true;
    const std::size_t i = asked.pieces_done % pieces_under_way, bytes = bytes_from(asked.done);
    if (!peer.pieces[i].test()) return false;
    if (peer.pieces[i].bytes() != bytes)
      throw protocol_error(rank, fmt::format("a piece of {} bytes", bytes),
                           fmt::format("{}", peer.pieces[i].bytes()));
    const Index count = std::min(per_piece, package.elements - asked.done);
    if (!part.contiguous_at) {
      const Stopwatch watch(peers_[message].traffic.copy_seconds);
      mismatch_.keep([&] {
        unpack(package, f.part, f.wire_order, f.transformation, {asked.done, count},
               peer.bounce[i].first(bytes), local);
      });
      peers_[message].traffic.copied_bytes += bytes;
    }
    moved_ += bytes;
    asked.done += count;
    ++asked.pieces_done;
  }
}

void InExchange::give_up_fetching() noexcept {
  for (Peer& peer : peers_) {
    for (auto& piece : peer.pieces) piece.reset();
    peer.reader.reset();
    try {
      if (peer.asked.loan) transport::local::take_back(*peer.asked.loan);
    } catch (const core::Error&) {  // no memory for a copy: the producer may still write
    }
    peer.asked = {};
  }
  target_.reset();
}

void InExchange::begin_again(std::size_t field) {
  for (std::size_t m = 0; m < plan_.messages.size(); ++m)
    for (std::size_t p = 0; p < plan_.messages[m].parts.size(); ++p)
      if (plan_.messages[m].parts[p].field == field) slot().incoming[m].is_fetched[p] = false;
}

}  // namespace tremula::client
