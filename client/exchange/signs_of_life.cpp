// SPDX-License-Identifier: Apache-2.0
#include "client/exchange/signs_of_life.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace tremula::client {

using core::Errc, core::Error;
using proto::MessageKind;

namespace {

using Seconds = core::Deadline::Seconds;

/// So many signs fit into the time for which a rank may be silent; at most one a second is sent.
constexpr double signs_within_silence = 5, longest_pause = 1;
/// A peer of which the server says that it lives may be silent so many times longer: its signs may
/// have to wait behind long messages.
constexpr double vouched = 3;

constexpr double forever = std::numeric_limits<double>::infinity();

std::uint64_t milliseconds(double seconds) {
  return static_cast<std::uint64_t>(std::ceil(1000 * seconds));
}

}  // namespace

SignsOfLife::SignsOfLife(const ExchangePlan& plan, transport::Endpoint& endpoint,
                         std::uint64_t link, double may_be_silent, bool sends_begin)
    : endpoint_(endpoint),
      link_(link),
      fingerprint_(plan.fingerprint),
      may_be_silent_(may_be_silent),
      peers_(plan.messages.size()) {
  const double pause = std::min(may_be_silent / signs_within_silence, longest_pause);
  send_every_ = std::chrono::duration_cast<Clock::duration>(Seconds(pause));
  look_every_ = send_every_ / 10;
  looked_ = sent_ = Clock::now();
  for (std::size_t m = 0; m < peers_.size(); ++m) {
    Peer& peer = peers_[m];
    peer.rank = plan.messages[m].peer;
    peer.heard = looked_;
    peer.is_near = endpoint_.is_near(peer.rank);
    peer.hears_more = std::isfinite(may_be_silent) && endpoint_.survives_lost_peers() &&
                      endpoint_.needs_calls(peer.rank);
    peer.receive = endpoint_.receive(peer.rank, tags::sign, peer.sign);
    peer.awaits_begin = sends_begin;
    send(peer);
  }
}

void SignsOfLife::send(Peer& peer) {
  const bool is_judged = peer.hears_more || (peer.is_near && std::isfinite(may_be_silent_));
  peer.own_sign = proto::encode(
      {.kind = peer.awaits_begin ? MessageKind::begins_later : MessageKind::sign_of_life,
       .link = link_,
       .step = is_judged ? milliseconds(may_be_silent_) : 0,
       .payload_bytes = 0,
       .fingerprint = fingerprint_});
  peer.send = endpoint_.send(peer.rank, tags::sign, peer.own_sign);
}

void SignsOfLife::begin(std::uint64_t first_step) {
  first_step_ = first_step;
  for (Peer& peer : peers_) {
    if (peer.has_ended || !peer.failure.empty()) continue;
    try {
      send_begin(peer);
    } catch (...) {
      peer.failure = core::current_error().what();
      peer.heard = looked_;
    }
  }
}

void SignsOfLife::send_begin(Peer& peer) {
  if (!peer.awaits_begin || !first_step_ || !peer.send.test()) return;
  peer.awaits_begin = false;
  peer.own_sign = proto::encode({.kind = MessageKind::begins,
                                 .link = link_,
                                 .step = *first_step_,
                                 .payload_bytes = 0,
                                 .fingerprint = fingerprint_});
  peer.send = endpoint_.send(peer.rank, tags::sign, peer.own_sign);
}

bool SignsOfLife::take_begin(Peer& peer, const proto::MessageHeader& sign) {
  if (sign.kind == MessageKind::begins_later && !peer.is_proved) {
    peer.begins_later = begins_later_ = true;
    ++awaited_;
  }
  if (sign.kind != MessageKind::begins) return true;
  if (!peer.begins_later || std::exchange(peer.has_begun, true))
    throw protocol_error(peer.rank, "the first step of a link at most once, and only if promised",
                         fmt::format("step {}", sign.step));
  --awaited_;
  if (first_step_.value_or(sign.step) != sign.step)
    throw protocol_error(peer.rank, fmt::format("a link that begins with step {}", *first_step_),
                         fmt::format("one that begins with step {}", sign.step));
  first_step_ = sign.step;
  return false;
}

void SignsOfLife::take(Peer& peer) {
  while (peer.receive.test()) {
    const auto sign =
        decode_from(peer.rank, link_, std::span(peer.sign).first(peer.receive.bytes()));
    if (sign.kind != MessageKind::sign_of_life && sign.kind != MessageKind::begins_later &&
        sign.kind != MessageKind::begins)
      throw protocol_error(peer.rank, "a sign of life",
                           fmt::format("kind {}", static_cast<int>(sign.kind)));
    if (sign.fingerprint != fingerprint_)
      throw protocol_error(peer.rank, fmt::format("plan {:016x}", fingerprint_),
                           fmt::format("plan {:016x}", sign.fingerprint));
    if (take_begin(peer, sign))
      peer.may_be_silent = sign.step == 0 ? forever : static_cast<double>(sign.step) / 1000;
    peer.heard = looked_;
    peer.is_proved = true;
    peer.receive = endpoint_.receive(peer.rank, tags::sign, peer.sign);
  }
}

void SignsOfLife::advance() {
  const auto now = Clock::now();
  const auto since_last = now - looked_;
  if (is_proved_ && !awaits_begin() && since_last < look_every_) return;
  looked_ = now;
  // While this rank did not look, e.g. because it was stopped itself, it could hear nothing.
  if (is_proved_ && since_last > send_every_)
    for (Peer& peer : peers_) peer.heard += since_last;
  const bool is_due = is_proved_ && now - sent_ >= send_every_;
  if (is_due) sent_ = now;
  for (Peer& peer : peers_) {
    if (peer.has_ended || !peer.failure.empty()) continue;
    if (peer.is_near && is_due && !endpoint_.is_stopped(peer.rank)) peer.heard = now;
    try {
      take(peer);
      send_begin(peer);
      // The one before may still wait for room: then there is no use in another one.
      if (peer.send.test() && is_due && peer.hears_more) send(peer);
    } catch (...) {
      if (!is_proved_) throw;
      peer.failure = core::current_error().what();
      peer.heard = now;
    }
  }
  is_proved_ = is_proved_ || !unproved();
}

std::optional<Rank> SignsOfLife::unproved() const {
  const auto found = std::ranges::find_if(
      peers_, [](const Peer& peer) { return !peer.is_proved || !peer.send.is_finished(); });
  if (found == peers_.end() || is_proved_) return std::nullopt;
  return found->rank;
}

void SignsOfLife::heard_all() noexcept {
  for (Peer& peer : peers_)
    if (peer.failure.empty()) peer.heard = looked_;
}

std::string SignsOfLife::complaint(std::size_t message, bool is_vouched) const {
  const Peer& peer = peers_[message];
  const double silent = Seconds(looked_ - peer.heard).count();
  if (peer.has_ended) return {};
  if (!peer.failure.empty()) return silent > explained_within_seconds ? peer.failure : "";
  if (silent <= peer.may_be_silent * (is_vouched ? vouched : 1)) return {};
  const char* const known =
      is_vouched ? "the server reports that it is alive" : "no server knows of it";
  if (peer.is_near)
    return fmt::format(
        "expected the process of rank {} to be stopped for at most {:.3g} s; found it stopped for "
        "{:.3g} s, while {}; is it in a debugger? the key 'silence' of its session sets how long "
        "it may be silent",
        peer.rank.value, peer.may_be_silent, silent, known);
  const std::string at = endpoint_.address_text(peer.rank);
  return fmt::format(
      "expected a sign of life from rank {}{} over the data path at least every {:.3g} s; found "
      "none for {:.3g} s, while {}; is its process stopped, or its port closed by a firewall? the "
      "key 'silence' of its session sets how long it may be silent",
      peer.rank.value, at.empty() ? "" : " at " + at, peer.may_be_silent, silent, known);
}

}  // namespace tremula::client
