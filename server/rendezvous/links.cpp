// SPDX-License-Identifier: Apache-2.0
// The part of Rendezvous for links that are there: addresses, counters, their end.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/name.hpp"
#include "proto/convert.hpp"
#include "server/rendezvous/rendezvous.hpp"

namespace tremula::server {

using core::Errc, core::Error;

void Rendezvous::link_addresses(const Call& call, const wire::LinkAddresses& message) {
  const Group& group = *rank_0_of(call, "LinkAddresses").group;
  if (message.addresses_size() != group.size)
    throw Error(Errc::invalid_argument,
                fmt::format("link {}: expected {} addresses, one for each rank of group '{}', "
                            "found {}",
                            message.link(), group.size, group.name, message.addresses_size()));
  Link* link = link_of(group, message.link());
  if (const auto awaited = awaited_.find(message.link());
      link == nullptr && awaited != awaited_.end() && awaited->second.consumer == group.name &&
      message.again() > 0) {
    awaited->second.told_held = hold(group, message.SpaceUsedLong());
    awaited->second.told = message;
    reply(call).mutable_done();
    return;
  }
  if (link == nullptr) throw error_of_gone_link(group, message.link());
  if (message.again() != link->again)
    throw Error(Errc::refused,
                fmt::format("link {}: expected addresses for a link that was set up anew {} times, "
                            "found them for {} times",
                            message.link(), link->again, message.again()));
  const bool is_producer = link->consumer != group.name;
  bool& has_told = is_producer ? link->has_producer_told : link->has_consumer_told;
  if (has_told)
    throw Error(
        Errc::refused,
        fmt::format("link {}: expected the addresses of group '{}' once, found them a second time",
                    message.link(), group.name));
  const bool is_kept = is_producer && link->is_missed && link->again > 0;  // until it has come back
  if (is_kept) link->told_held = hold(group, message.SpaceUsedLong()), link->told = message;
  has_told = true;
  link->is_answered = link->is_answered || is_producer;
  reply(call).mutable_done();
  if (is_kept) return;
  wire::ToClient notice;
  *notice.mutable_link_addresses() = message;
  const Group* const other = other_side(*link, group);
  if (other == nullptr) return;
  // The ranks of a producer may set the link up beside their stream, each for itself.
  if (!is_producer && std::int64_t{other->size} * group.size <= proto::max_addresses_to_all)
    notify(*other, std::move(notice));
  else
    notify_rank_0(*other, std::move(notice));
}

void Rendezvous::close_link(const Call& call, const wire::CloseLink& message) {
  const bool is_of_rank = message.of_rank() || message.gave_up();
  const Seat seat = is_of_rank ? seat_of(call) : rank_0_of(call, "CloseLink");
  const Group& group = *seat.group;
  // A consumer whose key is not known has to come back first.
  const auto restored = links_.find(message.link());
  const bool is_early = restored != links_.end() && !is_end_of(restored->second, group) &&
                        may_consume(restored->second, group);
  Link* link = is_early ? nullptr : link_of(group, message.link());
  if (link != nullptr && is_of_rank && !message.gave_up() && link->consumer != group.name)
    throw Error(
        Errc::refused,
        fmt::format("CloseLink of one rank: expected it from a rank of consumer '{}', found "
                    "one of producer '{}'",
                    link->consumer, group.name));
  reply(call).mutable_done();
  if (is_early && message.of_rank() && !message.gave_up())
    restored->second.finished.insert(seat.rank);
  if (message.gave_up() && (link == nullptr || link->is_missed))
    give_up_earlier_link(group, message.link(), core::printable(message.why()), call.now);
  const auto is_finished = [&](std::set<core::Rank>& ranks) {
    if (!message.of_rank() || message.gave_up()) return true;
    ranks.insert(seat.rank);
    return ranks.size() == static_cast<std::size_t>(group.size);
  };
  if (const auto awaited = awaited_.find(message.link()); awaited != awaited_.end() &&
                                                          awaited->second.is_of(group) &&
                                                          is_finished(awaited->second.finished))
    awaited_.erase(awaited);
  if (link == nullptr || !is_finished(link->finished)) return;
  const std::string why = message.why().empty()
                              ? fmt::format("group '{}' closed the link", group.name)
                              : core::printable(message.why());
  tell_link_closed(*link, group, why, message.gave_up());
  drop_link(message.link());
}

void Rendezvous::heartbeat(const Call& call, const wire::Heartbeat& message) {
  const auto seat = groups_.seat(call.from);
  if (!seat) return;  // the group is lost
  seat->group->members.at(seat->rank).agreement = message.agreement();
  record_wait(*seat, message, call.now);
  for (const wire::Counters& counters : message.counters()) {
    if (counters.link() == 0) {
      Stream* const stream = newest_stream(counters.stream(), *seat->group);
      if (stream == nullptr) continue;
      record(*seat, stream->produced, counters, call.now);
      for (const wire::Lag& lag : counters.lags()) {
        if (!stream->links.contains(lag.link())) continue;
        Link& link = links_.at(lag.link());
        link.max_lag = std::max(link.max_lag, lag.steps());
        link.held_up_seconds = std::max(link.held_up_seconds, lag.waited_seconds());
      }
    } else if (const auto link = links_.find(counters.link());
               link != links_.end() && is_consumed_by(link->second, *seat->group)) {
      record(*seat, link->second.consumed, counters, call.now);
    }
  }
}

void Rendezvous::record(const Seat& seat, Account& account, const wire::Counters& counters,
                        double now) {
  constexpr std::size_t bytes = 512;
  if (!account.has_report(seat.rank)) {
    // What only a status needs leaves room for what a job cannot do without.
    Group& group = *seat.group;
    const Limits& limits = settings_.limits;
    if (*group.held + bytes > limits.group_bytes / 2 || *held_ + bytes > limits.held_bytes / 2) {
      if (!std::exchange(group.lacks_counters, true))
        log(
            fmt::format("counters_left_out group={} rank={} why=\"half of the server's memory for "
                        "groups is taken; a larger --memory has room for them\"",
                        group.name, seat.rank.value));
      return;
    }
    account.keep(seat.rank, hold(group, bytes));
  }
  account.record(seat.rank, counters, now);
}

Rendezvous::Link* Rendezvous::link_of(const Group& group, LinkId id) {
  const auto it = links_.find(id);
  const bool is_of_earlier_server = id >> 32 != settings_.number;
  const bool was_closed = it == links_.end() && (id <= last_link_ || is_of_earlier_server);
  if (was_closed) return nullptr;
  if (it == links_.end() || !is_end_of(it->second, group))
    throw Error(Errc::refused,
                fmt::format("link {}: expected a link of group '{}', found none", id, group.name));
  return &it->second;
}

const Group* Rendezvous::other_side(const Link& link, const Group& group) {
  if (link.consumer != group.name) {
    const Group* const consumer = groups_.find(link.consumer);
    return consumer != nullptr && is_consumed_by(link, *consumer) ? consumer : nullptr;
  }
  const Stream& stream = streams_.at(link.stream);
  return stream.producer_gone ? nullptr : groups_.find(stream.producer);
}

void Rendezvous::tell_link_closed(const Link& link, const Group& by, const std::string& why,
                                  bool is_lost) {
  log(fmt::format("link_closed link={} by={} why={}", link.id, by.name, why));
  wire::ToClient notice;
  notice.mutable_link_closed()->set_link(link.id);
  notice.mutable_link_closed()->set_why(why);
  notice.mutable_link_closed()->set_lost(is_lost);
  if (const Group* other = other_side(link, by)) notify(*other, notice);
  if (is_lost) notify(by, notice);  // its other ranks wait for a rank that has given up
  remember_gone_link(link, by, why);
}

void Rendezvous::remember_gone_link(const Link& link, const Group& by, const std::string& why) {
  const Group* const other = other_side(link, by);
  if (other == nullptr) return;
  if (gone_links_.size() == most_gone_links) gone_links_.pop_front();
  gone_links_.push_back(
      {link.id, {by.name, by.owner}, {other->name, other->owner}, proto::cut(why)});
}

Error Rendezvous::error_of_gone_link(const Group& group, LinkId id) const {
  const auto gone = std::ranges::find(gone_links_, id, &GoneLink::id);
  if (gone != gone_links_.end() && gone->other.is(group))
    return Error(Errc::peer_lost,
                 fmt::format("link {} was closed by the other side: {}", id, gone->why));
  if (gone != gone_links_.end() && gone->closed_by.is(group))
    return Error(Errc::peer_lost, fmt::format("link {} was closed: {}", id, gone->why));
  return Error(Errc::peer_lost, fmt::format("link {} was closed by the other side", id));
}

void Rendezvous::drop_link(LinkId id) {
  const auto link = links_.find(id);
  const auto stream = streams_.find(link->second.stream);
  stream->second.left.insert(link->second.consumer);
  if (link->second.serves)
    stream->second.serving.erase(stream->second.serving.find(link->second.consumer));
  links_.erase(link);
  stream->second.links.erase(id);
  if (stream->second.is_over()) erase_stream(stream);
}

}  // namespace tremula::server
