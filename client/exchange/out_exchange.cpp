// SPDX-License-Identifier: Apache-2.0
#include "client/exchange/out_exchange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace tremula::client {

using proto::PackageKind, proto::PartPlace;

OutExchange::OutExchange(ExchangePlan plan, transport::Endpoint& endpoint, std::uint64_t link,
                         std::uint64_t first_step, int queue_depth, CopyThreads& threads)
    : plan_(std::move(plan)),
      endpoint_(endpoint),
      link_(link),
      threads_(threads),
      is_direct_(queue_depth == 0),
      readable_(plan_.fields.size()),
      peers_(plan_.messages.size()),
      slots_(static_cast<std::size_t>(std::max(queue_depth, 1))) {
  for (std::size_t m = 0; m < peers_.size(); ++m) {
    const Rank rank = plan_.messages[m].peer;
    peers_[m].is_near = endpoint_.is_near(rank);
    peers_[m].credited = first_step;
    peers_[m].request = endpoint_.receive(rank, tags::credit, peers_[m].said);
  }
  make_staging();
  if (is_direct_) make_rings();
}

void OutExchange::take_back() noexcept {
  bool is_read = false;  // perhaps: a peer that has been told where to read does not ask
  for (const Slot& slot : slots_)
    for (std::size_t m = 0; m < peers_.size(); ++m)
      is_read = is_read || (slot.is_readable && !peers_[m].is_near && !peers_[m].has_left &&
                            peers_[m].credited <= slot.step);
  if (is_read) endpoint_.give_up();
  for (Peer& peer : peers_) {  // what is read from the application's arrays at this moment
    peer.asked = {};
    for (auto& piece : peer.pieces) piece.reset();
  }
  for (Readable& field : readable_) field.forget();
  for (Slot& slot : slots_) {
    if (!std::exchange(slot.is_mapped, false) || !may_be_read(slot)) continue;
    for (const auto& loan : slot.loans) {
      try {
        if (loan) transport::local::take_back(*loan);
      } catch (const core::Error&) {  // no memory for a copy: a peer may see what is written next
      }
    }
  }
}

bool OutExchange::may_be_read(const Slot& slot) const {
  for (std::size_t m = 0; m < peers_.size(); ++m)
    if (peers_[m].is_near && !peers_[m].has_left && peers_[m].credited <= slot.step &&
        !endpoint_.has_ended(plan_.messages[m].peer))
      return true;
  return false;
}

void OutExchange::take_credits() {
  endpoint_.progress();
  for (std::size_t m = 0; m < peers_.size(); ++m) {
    Peer& peer = peers_[m];
    while (!peer.request.is_finished() && peer.request.test()) {
      const Rank rank = plan_.messages[m].peer;
      const auto said = std::span(std::as_const(peer.said)).first(peer.request.bytes());
      const auto header = decode_from(rank, link_, said);
      if (header.kind == PackageKind::leaving) {
        peer.has_left = true;  // it takes nothing more of what is on its way to it
        peer.asked = {};
        end_reading(peer);
        for (Slot& s : slots_) {
          for (auto& request : s.outgoing[m].requests) request.reset();
          s.outgoing[m].is_on_wire = false;
        }
        for (auto& piece : peer.pieces) piece.reset();
        peer.delivered_request.reset();
        break;  // nothing follows: no further receive
      }
      if (header.kind == PackageKind::ask)
        begin_to_serve(m, header, said);
      else if (header.kind == PackageKind::credit && header.step == peer.credited) {
        ++peer.credited;
        end_reading(peer);
      } else
        throw protocol_error(
            rank, fmt::format("the credit of step {}", peer.credited),
            fmt::format("kind {} of step {}", static_cast<int>(header.kind), header.step));
      peer.request = endpoint_.receive(rank, tags::credit, peer.said);
    }
    if (peer.asked.is_open) serve(m);
    if (peer.reads_since) ++moved_;  // how much, only the reader knows
  }
}

void OutExchange::end_reading(Peer& peer) {
  if (peer.reads_since) peer.traffic.wire_seconds += seconds_since(*peer.reads_since);
  peer.reads_since.reset();
}

bool OutExchange::has_left() const noexcept {
  return !peers_.empty() &&
         std::all_of(peers_.begin(), peers_.end(), [](const Peer& p) { return p.has_left; });
}

Traffic OutExchange::traffic() const noexcept {
  Traffic sum;
  for (const Peer& peer : peers_) sum += peer.traffic;
  return sum;
}

bool OutExchange::is_free(Slot& slot) {
  bool is_all = true;
  for (std::size_t m = 0; m < peers_.size(); ++m) {
    Outgoing& out = slot.outgoing[m];
    if (!out.is_on_wire) continue;
    bool is_sent = true;
    for (auto& request : out.requests) is_sent = request.test() && is_sent;
    is_all = is_all && is_sent;
    if (!is_sent || out.posted < out.bytes.size()) continue;
    out.is_on_wire = false;
    peers_[m].traffic.wire_seconds += seconds_since(out.sent_at);
  }
  return is_all;
}

bool OutExchange::is_idle() {
  take_credits();
  bool is_all = true;
  for (Slot& s : slots_) is_all = is_free(s) && is_all;
  for (Peer& peer : peers_) {
    is_all = peer.delivered_request.test() && !peer.asked.is_open && is_all;
    for (auto& piece : peer.pieces) is_all = piece.test() && is_all;
  }
  return is_all;
}

bool OutExchange::is_ready(std::uint64_t step) {
  take_credits();
  // A send that has failed is never credited: all of them are asked.
  for (Slot& s : slots_) is_free(s);
  for (const Peer& peer : peers_)
    if (!peer.has_left && step >= peer.credited + slots_.size()) return false;
  return is_free(slot(step));
}

bool OutExchange::is_credited(std::uint64_t step) {
  if (!is_idle() || !has_credited(step)) return false;
  for (Readable& field : readable_) field.end_step();
  return true;
}

bool OutExchange::has_credited(std::uint64_t step) const noexcept {
  return std::all_of(peers_.begin(), peers_.end(),
                     [&](const Peer& p) { return p.has_left || p.credited >= step; });
}

PartPlace OutExchange::place_of(Slot& slot, std::size_t message, std::size_t part,
                                const std::optional<transport::local::Loan>& memory,
                                const transport::MemoryRegion* region) {
  const Peer& peer = peers_[message];
  const auto& local = plan_.fields[plan_.messages[message].parts[part].field].part;
  if (!peer.is_near)
    return region == nullptr ? PartPlace{.kind = PartPlace::Kind::messages, .part = part}
                             : readable_place(part, region->key(), local);
  if (memory) return local_place(part, memory->place, local);
  const auto in_shared = [&](const void* at) {
    auto place = shared_->place();
    place.offset =
        static_cast<std::size_t>(static_cast<const std::byte*>(at) - shared_->bytes().data());
    return words_of(place);
  };
  if (!is_direct_)
    return {.kind = PartPlace::Kind::packed,
            .part = part,
            .memory = in_shared(slot.outgoing[message].packed.data() +
                                plan_.messages[message].parts[part].offset)};
  return {.kind = PartPlace::Kind::ring,
          .part = part,
          .memory = in_shared(peer.ring.memory()),
          .first = static_cast<Index>(ring_slots),
          .allocated = static_cast<Index>(peer.ring.slot_bytes())};
}

void OutExchange::pack_stretch(const Message::Part& part, index_calc::Stretch stretch,
                               std::span<const std::byte> local, std::span<std::byte> wire) {
  const auto& f = plan_.fields[part.field];
  threads_.run(stretch, f.element_bytes, [&](index_calc::Stretch some) {
    const auto at = static_cast<std::size_t>(some.first - stretch.first) * f.element_bytes;
    const auto bytes = static_cast<std::size_t>(some.count) * f.element_bytes;
    index_calc::pack(part.package, f.part, f.wire_order, f.element_bytes, some, local,
                     wire.subspan(at, bytes));
  });
}

void OutExchange::pack(Slot& slot, std::size_t message, std::size_t part,
                       std::span<const std::byte> local) {
  const auto& p = plan_.messages[message].parts[part];
  const auto wire = slot.outgoing[message].packed.subspan(p.offset, p.bytes);
  if (p.contiguous_at && p.bytes <= short_part_bytes)
    std::memcpy(wire.data(), local.data() + *p.contiguous_at, p.bytes);
  else
    pack_stretch(p, {0, p.package.elements}, local, wire);
  peers_[message].traffic.copied_bytes += p.bytes;
}

void OutExchange::pack_and_post(Slot& slot, std::size_t message, std::size_t part,
                                std::span<const std::byte> local) {
  Outgoing& out = slot.outgoing[message];
  const auto& parts = plan_.messages[message].parts;
  const auto& p = parts[part];
  const auto& f = plan_.fields[p.field];
  const std::size_t segment = segment_bytes(out.bytes.size());
  const bool is_next = std::find(out.is_put.begin(), out.is_put.end(), false) ==
                       out.is_put.begin() + static_cast<std::ptrdiff_t>(part);
  if (p.offset / segment == (p.offset + p.bytes - 1) / segment) {
    pack(slot, message, part, local);
  } else {
    for (std::size_t at = p.offset, end = p.offset + p.bytes; at < end;) {
      const std::size_t next = std::min(end, (at / segment + 1) * segment);
      const index_calc::Stretch stretch{static_cast<Index>((at - p.offset) / f.element_bytes),
                                        static_cast<Index>((next - at) / f.element_bytes)};
      pack_stretch(p, stretch, local, out.packed.subspan(at, next - at));
      at = next;
      if (is_next) post(slot, message, at);
    }
    peers_[message].traffic.copied_bytes += p.bytes;
  }
  out.is_put[part] = true;
  if (!is_next) return;
  std::size_t ready = 0;
  for (std::size_t i = 0; i < parts.size() && out.is_put[i]; ++i)
    ready = parts[i].offset + parts[i].bytes;
  post(slot, message, ready);
}

void OutExchange::put(std::uint64_t step, std::size_t field, std::span<const std::byte> local,
                      bool may_lend) {
  Slot& s = slot(step);
  if (s.step != step) begin(s, step);
  s.loans[field] = is_direct_ || may_lend ? transport::local::lend(local) : std::nullopt;
  const auto& memory = s.loans[field];
  const auto* const region =
      is_direct_ ? readable_[field].offer(endpoint_, local, memory) : nullptr;
  s.is_readable = s.is_readable || region != nullptr;
  s.lent[field] = is_direct_ || memory ? local : std::span<const std::byte>{};
  for (std::size_t m = 0; m < plan_.messages.size(); ++m) {
    for (std::size_t p = 0; p < plan_.messages[m].parts.size(); ++p) {
      if (plan_.messages[m].parts[p].field != field || peers_[m].has_left) continue;
      const bool is_mapped = memory && peers_[m].is_near;
      const Stopwatch watch(peers_[m].traffic.copy_seconds);
      if (is_sent(m))
        pack_and_post(s, m, p, local);
      else if (!is_direct_ && !is_mapped)
        pack(s, m, p, local);
      s.is_mapped = s.is_mapped || is_mapped;
      if (is_sent(m)) continue;
      s.outgoing[m].is_put[p] = true;
      constexpr std::size_t header = proto::package_header_bytes, size = proto::part_place_bytes;
      proto::encode(place_of(s, m, p, memory, region),
                    s.outgoing[m].bytes.subspan(header + p * size).first<size>());
    }
  }
}

void OutExchange::begin(Slot& slot, std::uint64_t step) {
  slot.step = step;
  slot.is_mapped = slot.is_readable = false;
  for (Outgoing& out : slot.outgoing) {
    out.posted = 0;
    out.is_put.assign(out.is_put.size(), false);
  }
}

proto::PackageHeader OutExchange::header_of(const Slot& slot, std::size_t message) const {
  return {.kind = is_sent(message) ? PackageKind::data : PackageKind::placed,
          .link = link_,
          .step = slot.step,
          .payload_bytes = slot.outgoing[message].bytes.size() - proto::package_header_bytes,
          .fingerprint = plan_.fingerprint};
}

void OutExchange::post(Slot& slot, std::size_t message, std::size_t bytes) {
  Outgoing& out = slot.outgoing[message];
  const std::size_t whole = out.bytes.size(), segment = segment_bytes(whole);
  while (out.posted < whole && std::min(out.posted + segment, whole) <= bytes) {
    if (out.posted == 0) {
      proto::encode(header_of(slot, message), out.bytes.first<proto::package_header_bytes>());
      out.sent_at = core::Deadline::Clock::now();
    }
    const auto next = out.bytes.subspan(out.posted, std::min(segment, whole - out.posted));
    out.is_on_wire = true;
    out.requests[out.posted / segment] =
        endpoint_.send(plan_.messages[message].peer, tags::package, next);
    out.posted += next.size();
    if (out.posted < whole) endpoint_.progress();
  }
}

void OutExchange::send(std::uint64_t step) {
  mappings_.forget_abandoned();
  Slot& s = slot(step);
  if (s.step != step) begin(s, step);
  for (std::size_t m = 0; m < plan_.messages.size(); ++m) {
    if (peers_[m].has_left) continue;
    core::expects(std::ranges::count(s.outgoing[m].is_put, false) == 0,
                  "a step is sent when every field of it was put");
    post(s, m, s.outgoing[m].bytes.size());
    const Message& message = plan_.messages[m];
    if (!message.parts.empty()) ++peers_[m].traffic.packages;
    for (const auto& part : message.parts) peers_[m].traffic.bytes += part.bytes;
  }
}

void OutExchange::send_end(std::uint64_t step) {
  for (std::size_t m = 0; m < plan_.messages.size(); ++m) {
    if (peers_[m].has_left) continue;
    Outgoing& out = slot(step).outgoing[m];
    proto::encode({.kind = PackageKind::end_of_stream,
                   .link = link_,
                   .step = step,
                   .payload_bytes = 0,
                   .fingerprint = 0},
                  out.bytes.first<proto::package_header_bytes>());
    out.requests[0] = endpoint_.send(plan_.messages[m].peer, tags::package,
                                     out.bytes.first(proto::package_header_bytes));
    out.posted = out.bytes.size();
    out.is_on_wire = true;
    out.sent_at = core::Deadline::Clock::now();
  }
}

}  // namespace tremula::client
