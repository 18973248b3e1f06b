// SPDX-License-Identifier: Apache-2.0
// The part of Rendezvous for groups that come and go; streams are in streams.cpp, links in matching.cpp and links.cpp.
#include "server/rendezvous/rendezvous.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "server/state/known_part.hpp"

namespace tremula::server {

using core::Errc, core::Error;

namespace {
constexpr std::size_t most_gone_bytes = 1000;  // of the text why a group was lost
}  // namespace

Output Rendezvous::receive(ConnectionId from, const wire::ToServer& message, double now) {
  groups_.record_heard(from, now);
  const Call call{from, message.request(), now};
  try {
    dispatch(call, message);
  } catch (const Error& error) {
    refuse(call, error);
  }
  return std::exchange(output_, {});
}

void Rendezvous::dispatch(const Call& call, const wire::ToServer& message) {
  switch (message.body_case()) {
    case wire::ToServer::kHello:
      return hello(call, message.hello());
    case wire::ToServer::kAnnounce:
      return announce(call, message.announce());
    case wire::ToServer::kSubscribe:
      return subscribe(call, message.subscribe());
    case wire::ToServer::kUnsubscribe:
      return unsubscribe(call, message.unsubscribe());
    case wire::ToServer::kDescribe:
      return describe(call, message.describe());
    case wire::ToServer::kResume:
      return resume(call, message.resume());
    case wire::ToServer::kRedeclare:
      return redeclare(call, message.redeclare());
    case wire::ToServer::kRedeclareLink:
      return redeclare_link(call, message.redeclare_link());
    case wire::ToServer::kOfferChoices:
      return offer_choices(call, message.offer_choices());
    case wire::ToServer::kLinkAddresses:
      return link_addresses(call, message.link_addresses());
    case wire::ToServer::kShare:
      return share(call, message.share());
    case wire::ToServer::kCloseLink:
      return close_link(call, message.close_link());
    case wire::ToServer::kCloseStream:
      return close_stream(call, message.close_stream());
    case wire::ToServer::kPresence:
      return presence(call, message.presence());
    case wire::ToServer::kExplain:
      return explain(call, message.explain());
    case wire::ToServer::kHeartbeat:
      return heartbeat(call, message.heartbeat());
    case wire::ToServer::kGoodbye:
      return goodbye(call);
    case wire::ToServer::kStatus: {
      wire::ToClient page = status(call.now, message.status(), owner_of(call.from));
      reply(call).MergeFrom(page);
      return;
    }
    case wire::ToServer::BODY_NOT_SET:
      return;
  }
}

void Rendezvous::hello(const Call& call, const wire::Hello& hello) {
  if (waits_for_name_.contains(call.from) || groups_.seat(call.from) ||
      orphans_.contains(call.from))
    throw Error(Errc::refused, "Hello: expected once per connection, found a second one");
  if (hello.protocol() != proto::protocol_version)
    throw Error(Errc::refused, fmt::format("group '{}', rank {}: expected protocol {} of Tremula "
                                           "{}, found protocol {} of Tremula {}; "
                                           "install the same version on both sides",
                                           hello.group(), hello.rank(), proto::protocol_version,
                                           settings_.version, hello.protocol(), hello.version()));
  if (hello.left_server() != 0 && hello.left_server() == settings_.number)
    throw Error(Errc::peer_lost,
                fmt::format("rank {} of group '{}' was counted as lost when its connection to this "
                            "server broke; start its job again",
                            hello.rank(), hello.group()));
  const Owner owner = owner_of(call.from);
  const Group* const held = groups_.find(hello.group());
  const bool is_known = held != nullptr && held->owner == owner && held->shown >= hello.sealed_at();
  const std::uint64_t shown = is_known ? 0 : seals_.time_of(owner, hello);
  if (held != nullptr && held->owner != owner) take_name(*held, shown, call.now);
  if (has_to_wait(call.from, hello, call.now)) {
    waits_for_name_.emplace(call.from, hello.group());
    waiting_hellos_.insert_or_assign({hello.group(), call.from},
                                     WaitingHello{call, known_part_of(hello)});
    return;
  }
  Group& group = *groups_.join(call.from, hello, call.now, owner).group;
  group.shown = std::max(group.shown, shown);
  welcome(call, hello, group);
  for (const auto& missed : group.missed)
    output_.messages.push_back({.to = call.from, .message = {}, .common = missed.notice});
  if (static_cast<core::RankCount>(group.members.size()) == group.size)
    log(fmt::format("group_complete group={} ranks={} host={} pid={} version={}", hello.group(),
                    hello.size(), group.host, group.pid, hello.version()));
  if (!group.is_back || group.is_awaited()) return;
  group.missed.clear();
  match_present(group, call.now);
}

void Rendezvous::welcome(const Call& call, const wire::Hello& hello, Group& group) {
  wire::Welcome& welcome = *reply(call).mutable_welcome();
  welcome.set_version(settings_.version);
  welcome.set_server(settings_.number);
  welcome.set_heartbeat_seconds(
      hello.silence_seconds() > 0
          ? std::min(settings_.heartbeat_seconds, hello.silence_seconds() / silent_heartbeats)
          : settings_.heartbeat_seconds);
  welcome.set_outward_address(settings_.outward_address);
  const std::uint64_t sealed_at = newer_than(group.shown, clock(group.since));
  welcome.set_seal(seals_.of_group(group, sealed_at));
  if (!welcome.seal().empty()) welcome.set_sealed_at(sealed_at);
}

void Rendezvous::take_name(const Group& holder, std::uint64_t shown, double now) {
  if (shown <= holder.shown || now > come_back_seconds)
    throw Error(Errc::refused,
                fmt::format("group '{}': the name is held by a job with a different key; choose "
                            "another name",
                            holder.name));
  const core::Rank rank =
      holder.members.empty() ? holder.first_left : holder.members.begin()->first;
  // Ranks that wait for the name are refused at the next look, when it is held again.
  remove_lost_group(
      holder, rank,
      "has lost the name of its group to a job with a different key, which had it before "
      "the server was started again and has returned; choose another name",
      now);
}

void Rendezvous::share(const Call& call, const wire::Share& message) {
  const Seat seat = seat_of(call);
  Group& group = *seat.group;
  if (!group.left.empty())
    throw Error(
        Errc::cancelled,
        fmt::format("group '{}': rank {} has left, so its ranks can no longer agree on anything",
                    group.name, group.first_left.value));
  if (message.round() != group.rounds + 1 || group.shares.contains(seat.rank))
    throw Error(
        Errc::protocol,
        fmt::format("group '{}', rank {}: expected Share round {} once, found round {}{}; "
                    "{}",
                    group.name, seat.rank.value, group.rounds + 1, message.round(),
                    group.shares.contains(seat.rank) ? " again" : "",
                    group.is_back ? "the server was started again while the ranks of this "
                                    "job met; start the job again"
                                  : "all ranks must make the same calls in the same order"));
  constexpr std::size_t tag_and_length = 8, most_bytes = proto::max_message_bytes - 64;
  const std::size_t all_bytes = group.share_bytes + message.bytes().size() + tag_and_length;
  if (all_bytes <= most_bytes) {
    Hold held = hold(group, message.bytes().size() + sizeof(PendingShare));
    group.shares[seat.rank] = {call.request, message.bytes(), std::move(held)};
  } else {  // all will be refused when the last one has come
    for (auto& [rank, share] : group.shares) share = {share.request, {}, {}};
    group.shares[seat.rank] = {call.request, {}, {}};
  }
  group.share_bytes = all_bytes;
  if (static_cast<core::RankCount>(group.shares.size()) < group.size) return;

  ++group.rounds;
  const auto shares = std::exchange(group.shares, {});
  const std::size_t bytes = std::exchange(group.share_bytes, 0);
  const auto answer = std::make_shared<wire::ToClient>();
  for (const auto& [rank, share] : shares) answer->mutable_shared()->add_bytes(share.bytes);
  for (const auto& [rank, share] : shares) {
    const Call to{group.members.at(rank).connection, share.request, call.now};
    if (bytes <= most_bytes) {
      reply(to);
      output_.messages.back().common = answer;
      output_.messages.back().sharers = shares.size();
    } else {
      refuse(to, Error(Errc::invalid_argument,
                       fmt::format("group '{}': expected at most {} bytes from all ranks in one "
                                   "Share, found {}; share less at once",
                                   group.name, most_bytes, bytes)));
    }
  }
}

void Rendezvous::goodbye(const Call& call) {
  if (orphans_.contains(call.from)) {
    reply(call).mutable_done();
    return;
  }
  const Seat seat = seat_of(call);
  Group& group = *seat.group;
  reply(call).mutable_done();
  group.share_bytes = 0;
  for (const auto& [rank, share] : std::exchange(group.shares, {}))
    refuse(
        {group.members.at(rank).connection, share.request, call.now},
        Error(Errc::cancelled, fmt::format("group '{}': rank {} has left while others wait for it",
                                           group.name, seat.rank.value)));
  // Others still depend on this rank: to them it is lost although it has said goodbye.
  const std::string open = describe_open(seat);
  if (group.size > 1 && !open.empty())
    return lose_group(group, seat.rank, fmt::format("left before its group had closed {}", open),
                      call.now);
  if (!groups_.leave(call.from)) return;
  const auto is_empty = [](const auto& each) { return each.second.members.empty(); };
  if (!group.is_awaited() || std::ranges::count_if(groups_.all(), is_empty) > most_empty)
    return end_group(group, call.now);
  group.empty_since = call.now;
  orphans_[call.from] = "it has said goodbye";  // a connection keeps one group so
}

std::string Rendezvous::describe_open(const Seat& seat) const {
  const Group& group = *seat.group;
  for (const auto& [id, stream] : streams_)
    if (stream.is_produced_by(group) && !stream.closed && (group.is_present || stream.was_linked))
      return fmt::format("its stream '{}'", stream.name);
  for (const auto& [id, link] : links_)
    if (const Stream& stream = streams_.at(link.stream); is_consumed_by(link, group) &&
                                                         !link.is_missed && !stream.closed &&
                                                         !link.finished.contains(seat.rank))
      return fmt::format("its link to stream '{}'", stream.name);
  for (const Subscription& subscription : subscriptions_)
    if (subscription.consumer == group.name && group.is_present)
      return fmt::format("its subscription to stream '{}'", subscription.stream);
  return {};
}

Output Rendezvous::closed(ConnectionId connection, const std::string& why, double now) {
  if (const auto name = waits_for_name_.find(connection); name != waits_for_name_.end()) {
    waiting_hellos_.erase({name->second, connection});
    waits_for_name_.erase(name);
  }
  if (const auto seat = groups_.seat(connection))
    lose_group(*seat->group, seat->rank,
               fmt::format("closed its connection without goodbye ({})", why), now);
  std::erase_if(output_.messages, [&](const Outgoing& out) { return out.to == connection; });
  orphans_.erase(connection);
  owners_.erase(connection);
  return std::exchange(output_, {});
}

Output Rendezvous::check_silence(double now) {
  const double usual = usual_limit();
  for (const Seat& seat : groups_.find_silent(now, usual)) {
    const Member silent = seat.group->members.at(seat.rank);
    lose_group(*seat.group, seat.rank,
               fmt::format("has been silent for {:.1f} s, and is counted as lost after {:g} s: "
                           "'silence' among the options of its session sets how long",
                           now - silent.last_heard, silent.silence > 0 ? silent.silence : usual),
               now);
    for (Outgoing& out : output_.messages)
      if (out.to == silent.connection) out.is_last = true;
  }
  look_at_waiting_hellos(now);
  check_come_back(now);
  check_choices(now);
  if (are_waits_due_ && now >= next_look_at_waits_) {
    are_waits_due_ = false;
    next_look_at_waits_ = now + settings_.heartbeat_seconds;
    check_waits(now);
  }
  return std::exchange(output_, {});
}

void Rendezvous::end_group(const Group& group, double now) {
  log(fmt::format("group_ended group={}", group.name));
  std::vector<LinkId> over;
  for (const auto& [id, link] : links_) {
    const Stream& stream = streams_.at(link.stream);
    if (is_consumed_by(link, group))
      tell_link_closed(link, group, fmt::format("consumer '{}' has left", group.name));
    else if (stream.is_produced_by(group) && !stream.closed)
      tell_link_closed(link, group,
                       fmt::format("producer '{}' has left without closing stream '{}'", group.name,
                                   stream.name));
    else
      continue;
    over.push_back(id);
  }
  for (const auto& [id, stream] : streams_)
    if (stream.is_produced_by(group) && !stream.closed) claim_for_consumers(stream);
  for (const LinkId id : over) drop_link(id);
  for (auto& [id, stream] : streams_) {
    if (!stream.is_produced_by(group)) continue;
    if (!std::exchange(stream.closed, true)) end_part(stream, "has left");
    stream.producer_gone = true;
  }
  erase_streams([](const Stream& stream) { return stream.is_over(); });
  if (!group.was_linked) remember_gone(group, {}, now);
  const std::string name = group.name;
  remove_group(name);
  look_at_waiting_hellos(now, &name);
}

void Rendezvous::lose_group(const Group& group, core::Rank rank, const std::string& why,
                            double now) {
  const std::string name = group.name;
  remove_lost_group(group, rank, why, now);
  look_at_waiting_hellos(now, &name);
}

void Rendezvous::remove_lost_group(const Group& group, core::Rank rank, const std::string& why,
                                   double now) {
  const auto lost = group.members.find(rank);  // not there if it has not come back
  const std::string place =
      lost == group.members.end()
          ? ""
          : fmt::format(" on host {}, pid {},", lost->second.host, lost->second.pid);
  const std::string text =
      fmt::format("rank {} of group '{}'{} {}", rank.value, group.name, place, why);
  log(fmt::format("group_lost group={} rank={} why={}", group.name, rank.value, text));

  wire::ToClient notice;
  wire::GroupLost& message = *notice.mutable_group_lost();
  message.set_group(group.name);
  message.set_rank(rank.value);
  message.set_why(text);
  notify(group, notice);
  for (const auto& [member_rank, member] : group.members) orphans_[member.connection] = text;

  std::map<const Group*, std::vector<LinkId>> links_with;
  std::vector<LinkId> over;
  for (const auto& [id, link] : links_) {
    if (!is_consumed_by(link, group) && !streams_.at(link.stream).is_produced_by(group)) continue;
    over.push_back(id);
    if (const Group* other = other_side(link, group)) links_with[other].push_back(id);
    remember_gone_link(link, group, text);
  }
  for (const auto& [other, ids] : links_with) {
    message.mutable_links()->Assign(ids.begin(), ids.end());
    notify(*other, notice);
  }
  for (auto& [id, stream] : streams_) {
    if (!stream.is_produced_by(group) || std::exchange(stream.closed, true)) continue;
    claim_for_consumers(stream);
    end_part(stream, "was lost");
  }
  for (const LinkId id : over) drop_link(id);
  erase_streams([&](const Stream& stream) { return stream.is_produced_by(group); });
  remember_gone(group, text, now);
  remove_group(group.name);
}

void Rendezvous::remember_gone(const Group& group, const std::string& why, double now) {
  if (gone_.size() == most_gone) gone_.pop_front();
  gone_.push_back({group.name, group.owner, now, why.substr(0, most_gone_bytes)});
}

void Rendezvous::remove_group(std::string name) {
  groups_.remove(name);
  std::erase_if(subscriptions_, [&](const Subscription& s) { return s.consumer == name; });
  std::erase_if(awaited_, [&](const auto& entry) { return entry.second.consumer == name; });
  for (auto& [id, link] : links_)  // whoever comes back with the link has finished nothing yet
    if (link.is_missed && link.consumer == name) link.finished.clear();
  end_claims(name);
  for (auto& [id, stream] : streams_) stream.left.erase(name);  // another job may take the name
}

bool Rendezvous::has_to_wait(ConnectionId from, const wire::Hello& hello, double now) const {
  const auto held = groups_.all().find(hello.group());
  return held != groups_.all().end() && held->second.owner == owner_of(from) &&
         (groups_.is_leaving(hello) ||
          groups_.may_be_lost(hello, now, missed_heartbeats * settings_.heartbeat_seconds,
                              usual_limit()));
}

void Rendezvous::look_at_waiting_hellos(double now, const std::string* name) {
  auto next = name == nullptr ? waiting_hellos_.begin() : waiting_hellos_.lower_bound({*name, 0});
  while (next != waiting_hellos_.end() && (name == nullptr || next->first.first == *name)) {
    if (has_to_wait(next->second.call.from, next->second.hello, now)) {
      ++next;
      continue;
    }
    WaitingHello waiting = std::move(next->second);
    next = waiting_hellos_.erase(next);
    waits_for_name_.erase(waiting.call.from);
    waiting.call.now = now;
    try {
      hello(waiting.call, waiting.hello);
    } catch (const Error& error) {
      refuse(waiting.call, error);
    }
  }
}

Seat Rendezvous::seat_of(const Call& call) {
  if (const auto seat = groups_.seat(call.from)) return *seat;
  if (const auto lost = orphans_.find(call.from); lost != orphans_.end())
    throw Error(Errc::peer_lost, fmt::format("this rank's group is lost: {}", lost->second));
  throw Error(Errc::refused,
              "expected Hello as the first message of a connection, found a different one");
}

const Group& Rendezvous::whole_group_of(const Call& call, std::string_view what) {
  const Group& group = *rank_0_of(call, what).group;
  if (!group.left.empty())
    throw Error(Errc::peer_lost,
                fmt::format("{}: expected all ranks of group '{}', but rank {} has left", what,
                            group.name, group.first_left.value));
  return group;
}

Seat Rendezvous::rank_0_of(const Call& call, std::string_view what) {
  const Seat seat = seat_of(call);
  if (seat.rank != core::Rank{0})
    throw Error(Errc::refused,
                fmt::format("{}: expected it from rank 0 of group '{}', found rank {}", what,
                            seat.group->name, seat.rank.value));
  return seat;
}

Hold Rendezvous::hold(const Group& group, std::size_t bytes) const {
  const auto mib = [](std::size_t of) { return static_cast<double>(of) / (1 << 20); };
  const Limits& limits = settings_.limits;
  if (*group.held + bytes > limits.group_bytes)
    throw Error(Errc::refused,
                fmt::format("group '{}': expected its streams, links, subscriptions and shares to "
                            "take at most {:g} MiB of the server, found {:.3g} MiB; use fewer of "
                            "them or fewer fields, or give 'tremula serve' a larger --memory",
                            group.name, mib(limits.group_bytes), mib(*group.held + bytes)));
  if (*held_ + bytes > limits.held_bytes)
    throw Error(Errc::refused,
                fmt::format("group '{}': the server keeps {:.3g} MiB for streams, links, "
                            "subscriptions and shares of all groups, expected at most {:g} MiB; "
                            "end some, or give 'tremula serve' a larger --memory",
                            group.name, mib(*held_ + bytes), mib(limits.held_bytes)));
  return {group.held, held_, bytes};
}

wire::ToClient& Rendezvous::reply(const Call& call) {
  Outgoing& out = output_.messages.emplace_back();
  out.to = call.from;
  out.message.set_request(call.request);
  return out.message;
}

void Rendezvous::refuse(const Call& call, const Error& error) {
  *reply(call).mutable_refused() = proto::encode(error);
  log(fmt::format("refused connection={} code={} text={}", call.from, core::to_string(error.code()),
                  error.what()));
}

void Rendezvous::notify(const Group& group, wire::ToClient message) {
  const auto common = std::make_shared<const wire::ToClient>(std::move(message));
  for (const auto& [rank, member] : group.members)
    output_.messages.push_back({.to = member.connection,
                                .message = {},
                                .common = common,
                                .sharers = group.members.size()});
  keep_notice(group, common);
}

void Rendezvous::keep_notice(const Group& group,
                             const std::shared_ptr<const wire::ToClient>& notice) {
  if (!group.is_awaited()) return;
  Group& its = *groups_.find(group.name);
  const std::size_t bytes = notice->SpaceUsedLong();
  if (its.missed_bytes + bytes > most_missed_bytes)
    return log(fmt::format("notice_left_out group={} limit={}", group.name, most_missed_bytes));
  try {
    its.missed.push_back({notice, hold(its, bytes)});
    its.missed_bytes += bytes;
  } catch (const Error& error) {  // no memory for it
    log(fmt::format("notice_left_out group={} why={}", group.name, error.what()));
  }
}

void Rendezvous::notify_rank_0(const Group& group, wire::ToClient message) {
  if (const auto rank_0 = group.members.find(core::Rank{0}); rank_0 != group.members.end())
    output_.messages.push_back({rank_0->second.connection, std::move(message)});
}

}  // namespace tremula::server
