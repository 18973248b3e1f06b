// SPDX-License-Identifier: Apache-2.0
#include "client/exchange/in_exchange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace tremula::client {

using proto::PackageKind, proto::PartPlace;

InExchange::InExchange(ExchangePlan plan, transport::Endpoint& endpoint, std::uint64_t link,
                       int queue_depth, CopyThreads& threads)
    : plan_(std::move(plan)),
      endpoint_(endpoint),
      link_(link),
      threads_(threads),
      is_direct_(queue_depth == 0),
      peers_(plan_.messages.size()),
      slots_(static_cast<std::size_t>(std::max(queue_depth, 1))) {
  std::size_t staging = 0, bounce = 0;
  for (std::size_t m = 0; m < peers_.size(); ++m) {
    const Message& message = plan_.messages[m];
    peers_[m].is_near = endpoint_.is_near(message.peer);
    staging += line_aligned(is_sent(m) ? message.bytes : places_bytes(message));
    if (is_direct_ && !peers_[m].is_near && !message.is_contiguous())
      bounce += pieces_under_way * plan_.piece_bytes;
  }
  bounce_ = core::Buffer(bounce);
  bounce_region_ = endpoint_.register_memory(bounce_.span(), transport::Access::own);
  bounce = 0;
  for (std::size_t m = 0; m < peers_.size(); ++m) {
    if (!is_direct_ || peers_[m].is_near || plan_.messages[m].is_contiguous()) continue;
    for (std::size_t i = 0; i < pieces_under_way; ++i, bounce += plan_.piece_bytes)
      peers_[m].bounce.push_back(bounce_.span().subspan(bounce, plan_.piece_bytes));
  }
  for (Slot& slot : slots_) {
    slot.staging = core::Buffer(staging);
    slot.region = endpoint_.register_memory(slot.staging.span(), transport::Access::own);
    slot.incoming.resize(peers_.size());
    std::size_t at = 0;
    for (std::size_t m = 0; m < peers_.size(); ++m) {
      const Message& message = plan_.messages[m];
      const std::size_t bytes = is_sent(m) ? message.bytes : places_bytes(message);
      slot.incoming[m].bytes = slot.staging.span().subspan(at, bytes);
      slot.incoming[m].requests.resize(segments(bytes));
      slot.incoming[m].places.resize(message.parts.size());
      slot.incoming[m].is_fetched.resize(message.parts.size());
      at += line_aligned(bytes);
      receive(slot, m);
    }
  }
}

void InExchange::receive(Slot& slot, std::size_t message) {
  Incoming& in = slot.incoming[message];
  in.has_arrived = false;
  in.is_fetched.assign(in.is_fetched.size(), false);
  in.segments_here = 0;
  const std::size_t each = segment_bytes(in.bytes.size());
  for (std::size_t i = 0; i < in.requests.size(); ++i)
    in.requests[i] =
        endpoint_.receive(plan_.messages[message].peer, tags::package,
                          in.bytes.subspan(i * each, std::min(each, in.bytes.size() - i * each)));
}

bool InExchange::has_arrived(std::size_t message) {
  Incoming& in = slot().incoming[message];
  const std::size_t each = segment_bytes(in.bytes.size());
  for (; in.segments_here < in.requests.size(); ++in.segments_here) {
    const std::size_t i = in.segments_here;
    if (!in.requests[i].test()) return false;
    const std::size_t bytes = in.requests[i].bytes(),
                      expected = std::min(each, in.bytes.size() - i * each);
    if (i == 0 && !take_header(message, bytes)) return true;
    if (bytes != expected)
      throw protocol_error(
          plan_.messages[message].peer,
          fmt::format("{} bytes of payload", in.bytes.size() - proto::package_header_bytes),
          fmt::format("{}", i * each + bytes - proto::package_header_bytes));
  }
  return true;
}

bool InExchange::take_header(std::size_t message, std::size_t bytes) {
  Incoming& in = slot().incoming[message];
  const Rank peer = plan_.messages[message].peer;
  const auto header = decode_from(peer, link_, std::span(std::as_const(in.bytes)).first(bytes));
  const auto kind = is_sent(message) ? PackageKind::data : PackageKind::placed;
  const std::size_t payload = in.bytes.size() - proto::package_header_bytes;
  const bool is_end = header.kind == PackageKind::end_of_stream;
  if (is_end) {
    ++ended_;
  } else if (header.kind != kind) {
    throw protocol_error(peer,
                         fmt::format("kind {} or the end of the stream", static_cast<int>(kind)),
                         fmt::format("kind {}", static_cast<int>(header.kind)));
  } else if (header.payload_bytes != payload) {
    throw protocol_error(peer, fmt::format("{} bytes of payload", payload),
                         fmt::format("{}", header.payload_bytes));
  } else if (header.fingerprint != plan_.fingerprint) {
    throw protocol_error(peer, fmt::format("plan {:016x}", plan_.fingerprint),
                         fmt::format("plan {:016x}", header.fingerprint));
  }
  const bool is_first_ever =
      turn_ == 0 && begun_ == 0;  // a late consumer learns the number of its first step
  if (is_first_ever) step_ = header.step;
  if (header.step != step_)
    throw protocol_error(peer, fmt::format("step {}", step_), fmt::format("step {}", header.step));
  ++begun_;
  if (ended_ != 0 && ended_ != begun_)
    throw protocol_error(peer, "all producer ranks to end the stream after the same step",
                         fmt::format("rank {} to differ at step {}", peer, step_));
  return !is_end;
}

void InExchange::take_places(std::size_t message) {
  Incoming& in = slot().incoming[message];
  const auto& parts = plan_.messages[message].parts;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const PartPlace& place = in.places[p] = proto::decode_part_place(
        in.bytes.subspan(proto::package_header_bytes + p * proto::part_place_bytes));
    const bool is_far =
        place.kind == PartPlace::Kind::messages || place.kind == PartPlace::Kind::readable;
    if (place.part != p || is_far == peers_[message].is_near)
      throw protocol_error(
          plan_.messages[message].peer, fmt::format("the place of part {}", p),
          fmt::format("kind {} of part {}", static_cast<int>(place.kind), place.part));
    // Mapped at once, so that the step can be had even if its producer ends.
    if (place.kind == PartPlace::Kind::packed)
      mappings_.find(place_from(place.memory), parts[p].bytes, false);
    else if (place.kind == PartPlace::Kind::local)
      buffer_of(place, 1, plan_.fields[parts[p].field].element_bytes, mappings_, false);
  }
}

void InExchange::take_arrived() {
  if (is_ended() || arrived_ == plan_.messages.size()) return;
  endpoint_.progress();
  auto& incoming = slot().incoming;
  for (std::size_t m = 0; m < incoming.size(); ++m) {
    if (incoming[m].has_arrived || !has_arrived(m)) continue;
    incoming[m].has_arrived = true;
    ++arrived_;
    if (ended_ == 0 && !is_sent(m)) take_places(m);
  }
}

InExchange::State InExchange::poll() {
  take_arrived();
  if (is_ended()) return State::end;
  return begun_ > ended_ ? State::step : State::nothing;
}

Traffic InExchange::traffic() const noexcept {
  Traffic sum;
  for (const Peer& peer : peers_) sum += peer.traffic;
  return sum;
}

bool InExchange::is_complete() {
  take_arrived();
  return arrived_ == plan_.messages.size() && ended_ == 0;
}

void InExchange::tell(std::size_t message, PackageKind kind, std::uint64_t step) {
  Incoming& in = slot().incoming[message];
  in.credit = proto::encode(
      {.kind = kind, .link = link_, .step = step, .payload_bytes = 0, .fingerprint = 0});
  in.credit_request = endpoint_.send(plan_.messages[message].peer, tags::credit, in.credit);
}

bool InExchange::can_finish_step() {
  if (!is_complete()) return false;
  for (auto& in : slot().incoming)
    if (!in.credit_request.test()) return false;
  return true;
}

void InExchange::finish_step() {
  for (std::size_t m = 0; m < plan_.messages.size(); ++m) {
    receive(slot(), m);
    tell(m, PackageKind::credit, step_);
    if (!plan_.messages[m].parts.empty()) ++peers_[m].traffic.packages;
    for (const auto& part : plan_.messages[m].parts) peers_[m].traffic.bytes += part.bytes;
  }
  ++turn_;
  ++step_;
  begun_ = arrived_ = 0;
  if (mappings_.forget_abandoned())
    for (Peer& peer : peers_) peer.ring = {};  // perhaps in what is gone; mapped again when needed
}

void InExchange::leave() {
  for (std::size_t m = 0; m < plan_.messages.size(); ++m)
    tell(m, is_ended() ? PackageKind::credit : PackageKind::leaving, step_);
}

bool InExchange::is_idle() {
  take_arrived();
  const bool is_between_messages = begun_ == 0 || arrived_ == plan_.messages.size();
  return is_told() && is_between_messages;
}

bool InExchange::is_told() {
  endpoint_.progress();
  bool is_all = true;
  for (Slot& s : slots_)
    for (auto& in : s.incoming) is_all = in.credit_request.test() && is_all;
  return is_all;
}

}  // namespace tremula::client
