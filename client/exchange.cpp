// SPDX-License-Identifier: Apache-2.0
#include "client/exchange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.hpp"

namespace tremula::client {

namespace {

using proto::PackageKind;

constexpr transport::Tag package_tag = 1;  // producer to consumer
constexpr transport::Tag credit_tag = 2;   // consumer to producer

/// Cuts one slot's staging into the messages of a plan.
std::vector<std::span<std::byte>> cut(const ExchangePlan& plan, std::span<std::byte> staging) {
  std::vector<std::span<std::byte>> cuts;
  std::size_t at = 0;
  for (const Message& message : plan.messages) {
    cuts.push_back(staging.subspan(at, message.bytes));
    at += (message.bytes + 15) / 16 * 16;
  }
  return cuts;
}

proto::PackageHeader decode_from(Rank peer, std::uint64_t link, core::BytesView bytes) {
  const auto header = proto::decode_package_header(bytes);
  if (header.link != link)
    throw core::Error(core::Errc::protocol,
                      fmt::format("package from rank {}: expected link {}, found link {}", peer,
                                  link, header.link));
  return header;
}

}  // namespace

OutExchange::OutExchange(ExchangePlan plan, transport::Endpoint& endpoint, std::uint64_t link,
                         std::uint64_t first_step, int queue_depth)
    : plan_(std::move(plan)),
      endpoint_(endpoint),
      link_(link),
      credits_(plan_.messages.size()),
      slots_(static_cast<std::size_t>(queue_depth)) {
  for (Slot& slot : slots_) {
    slot.staging = core::Buffer(plan_.staging_bytes);
    slot.bytes = cut(plan_, slot.staging.span());
    slot.requests.resize(plan_.messages.size());
  }
  for (std::size_t m = 0; m < credits_.size(); ++m) {
    credits_[m].credited = first_step;
    credits_[m].request = endpoint_.receive(plan_.messages[m].peer, credit_tag, credits_[m].bytes);
  }
}

void OutExchange::take_credits() {
  endpoint_.progress();
  for (std::size_t m = 0; m < credits_.size(); ++m) {
    Credit& credit = credits_[m];
    while (!credit.request.is_finished() && credit.request.test()) {
      const Rank peer = plan_.messages[m].peer;
      const auto header = decode_from(peer, link_, credit.bytes);
      if (header.kind == PackageKind::leaving) {
        credit.has_left = true;  // it takes nothing more of what is on its way to it
        for (Slot& s : slots_) s.requests[m].reset();
        break;  // nothing follows: no further receive
      }
      if (header.kind != PackageKind::credit || header.step != credit.credited)
        throw core::Error(
            core::Errc::protocol,
            fmt::format("package from consumer rank {}: expected the credit of step {}, found kind "
                        "{} of step {}",
                        peer, credit.credited, static_cast<int>(header.kind), header.step));
      ++credit.credited;
      credit.request = endpoint_.receive(peer, credit_tag, credit.bytes);
    }
  }
}

bool OutExchange::has_left() const noexcept {
  return !credits_.empty() &&
         std::all_of(credits_.begin(), credits_.end(), [](const Credit& c) { return c.has_left; });
}

bool OutExchange::is_free(Slot& slot) {
  bool is_all = true;
  for (auto& request : slot.requests) is_all = request.test() && is_all;
  return is_all;
}

bool OutExchange::is_idle() {
  take_credits();
  bool is_all = true;
  for (Slot& s : slots_) is_all = is_free(s) && is_all;
  return is_all;
}

bool OutExchange::is_ready(std::uint64_t step) {
  take_credits();
  // A send that has failed is never credited: all of them are asked.
  for (Slot& s : slots_) is_free(s);
  for (const Credit& credit : credits_)
    if (!credit.has_left && step >= credit.credited + slots_.size()) return false;
  return is_free(slot(step));
}

bool OutExchange::is_credited(std::uint64_t step) {
  bool is_all = is_idle();
  for (const Credit& credit : credits_)
    is_all = is_all && (credit.has_left || credit.credited >= step);
  return is_all;
}

void OutExchange::pack(std::uint64_t step, std::size_t field, std::span<const std::byte> local) {
  const auto& f = plan_.fields[field];
  for (std::size_t m = 0; m < plan_.messages.size(); ++m)
    for (const auto& part : plan_.messages[m].parts)
      if (part.field == field)
        index_calc::pack((*f.plan)[part.package], f.part, f.wire_order, f.element_bytes, local,
                         slot(step).bytes[m].subspan(part.offset, part.bytes));
}

void OutExchange::post(Slot& slot, std::size_t message, const proto::PackageHeader& header,
                       std::size_t bytes) {
  proto::encode(header, slot.bytes[message].first<proto::package_header_bytes>());
  slot.requests[message] =
      endpoint_.send(plan_.messages[message].peer, package_tag, slot.bytes[message].first(bytes));
}

void OutExchange::send(std::uint64_t step) {
  for (std::size_t m = 0; m < plan_.messages.size(); ++m) {
    if (credits_[m].has_left) continue;
    const Message& message = plan_.messages[m];
    post(slot(step), m,
         {.kind = PackageKind::data,
          .link = link_,
          .step = step,
          .payload_bytes = message.payload_bytes(),
          .fingerprint = plan_.fingerprint},
         message.bytes);
    if (!message.parts.empty()) ++counters_.packages;
    for (const auto& part : message.parts) counters_.bytes += part.bytes;
  }
  ++counters_.steps;
}

void OutExchange::send_end(std::uint64_t step) {
  for (std::size_t m = 0; m < plan_.messages.size(); ++m)
    if (!credits_[m].has_left)
      post(slot(step), m,
           {.kind = PackageKind::end_of_stream,
            .link = link_,
            .step = step,
            .payload_bytes = 0,
            .fingerprint = 0},
           proto::package_header_bytes);
}

InExchange::InExchange(ExchangePlan plan, transport::Endpoint& endpoint, std::uint64_t link,
                       int queue_depth)
    : plan_(std::move(plan)),
      endpoint_(endpoint),
      link_(link),
      slots_(static_cast<std::size_t>(queue_depth)) {
  for (Slot& slot : slots_) {
    slot.staging = core::Buffer(plan_.staging_bytes);
    slot.incoming.resize(plan_.messages.size());
    const auto cuts = cut(plan_, slot.staging.span());
    for (std::size_t m = 0; m < plan_.messages.size(); ++m) {
      slot.incoming[m].bytes = cuts[m];
      slot.incoming[m].is_unpacked.resize(plan_.messages[m].parts.size());
      receive(slot, m);
    }
  }
}

void InExchange::receive(Slot& slot, std::size_t message) {
  Incoming& in = slot.incoming[message];
  in.has_arrived = false;
  in.is_unpacked.assign(in.is_unpacked.size(), false);
  in.request = endpoint_.receive(plan_.messages[message].peer, package_tag, in.bytes);
}

void InExchange::take(std::size_t message, std::size_t bytes) {
  Incoming& in = slot().incoming[message];
  const Rank peer = plan_.messages[message].peer;
  const auto header = decode_from(peer, link_, in.bytes.first(bytes));
  const auto wrong = [&](const std::string& expected, const std::string& found) {
    return core::Error(
        core::Errc::protocol,
        fmt::format("package from producer rank {}: expected {}, found {}", peer, expected, found));
  };
  if (header.kind == PackageKind::end_of_stream) {
    ++ended_;
  } else if (header.kind != PackageKind::data) {
    throw wrong("a step or the end of the stream",
                fmt::format("kind {}", static_cast<int>(header.kind)));
  } else if (bytes != plan_.messages[message].bytes ||
             header.payload_bytes != plan_.messages[message].payload_bytes()) {
    throw wrong(fmt::format("{} bytes of payload", plan_.messages[message].payload_bytes()),
                fmt::format("{}", header.payload_bytes));
  } else if (header.fingerprint != plan_.fingerprint) {
    throw wrong(fmt::format("plan {:016x}", plan_.fingerprint),
                fmt::format("plan {:016x}", header.fingerprint));
  }
  const bool is_first_ever =
      turn_ == 0 && arrived_ == 0;  // a late consumer learns the number of its first step
  if (is_first_ever) step_ = header.step;
  if (header.step != step_)
    throw wrong(fmt::format("step {}", step_), fmt::format("step {}", header.step));
  in.has_arrived = true;
  ++arrived_;
  if (ended_ != 0 && ended_ != arrived_)
    throw wrong("all producer ranks to end the stream after the same step",
                fmt::format("rank {} to differ at step {}", peer, step_));
}

void InExchange::take_arrived() {
  if (is_ended()) return;
  endpoint_.progress();
  auto& incoming = slot().incoming;
  for (std::size_t m = 0; m < incoming.size(); ++m)
    if (!incoming[m].has_arrived && incoming[m].request.test())
      take(m, incoming[m].request.bytes());
}

InExchange::State InExchange::poll() {
  take_arrived();
  if (is_ended()) return State::end;
  return arrived_ > ended_ ? State::step : State::nothing;
}

bool InExchange::is_complete() {
  take_arrived();
  return arrived_ == plan_.messages.size() && ended_ == 0;
}

bool InExchange::unpack_some(std::size_t field, std::span<std::byte> local) {
  take_arrived();
  bool is_all = true;
  const auto& f = plan_.fields[field];
  for (std::size_t m = 0; m < plan_.messages.size(); ++m) {
    Incoming& in = slot().incoming[m];
    const auto& parts = plan_.messages[m].parts;
    for (std::size_t p = 0; p < parts.size(); ++p) {
      if (parts[p].field != field || in.is_unpacked[p]) continue;
      if (!in.has_arrived) {
        is_all = false;
        continue;
      }
      index_calc::unpack((*f.plan)[parts[p].package], f.part, f.wire_order, f.element_bytes,
                         in.bytes.subspan(parts[p].offset, parts[p].bytes), local);
      in.is_unpacked[p] = true;
    }
  }
  return is_all;
}

void InExchange::begin_again(std::size_t field) {
  for (std::size_t m = 0; m < plan_.messages.size(); ++m)
    for (std::size_t p = 0; p < plan_.messages[m].parts.size(); ++p)
      if (plan_.messages[m].parts[p].field == field) slot().incoming[m].is_unpacked[p] = false;
}

void InExchange::tell(std::size_t message, PackageKind kind, std::uint64_t step) {
  Incoming& in = slot().incoming[message];
  in.credit = proto::encode(
      {.kind = kind, .link = link_, .step = step, .payload_bytes = 0, .fingerprint = 0});
  in.credit_request = endpoint_.send(plan_.messages[message].peer, credit_tag, in.credit);
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
    if (!plan_.messages[m].parts.empty()) ++counters_.packages;
  }
  counters_.bytes += plan_.payload_bytes;
  ++counters_.steps;
  ++turn_;
  ++step_;
  arrived_ = 0;
}

void InExchange::leave() {
  for (std::size_t m = 0; m < plan_.messages.size(); ++m)
    tell(m, is_ended() ? PackageKind::credit : PackageKind::leaving, step_);
}

bool InExchange::is_told() {
  endpoint_.progress();
  bool is_all = true;
  for (Slot& s : slots_)
    for (auto& in : s.incoming) is_all = in.credit_request.test() && is_all;
  return is_all;
}

}  // namespace tremula::client
