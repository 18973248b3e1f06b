// SPDX-License-Identifier: Apache-2.0
// The part of Rendezvous for groups that come back from an earlier server, whose streams and links
// go on meanwhile. Groups come in any order:
//
//     the producer first    its Resume restores streams and links; the consumers are missed
//     a consumer first      its links are awaited until the producer's Resume restores them
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "server/rendezvous/rendezvous.hpp"

namespace tremula::server {

namespace {
constexpr std::size_t link_bytes = 2048;  // without its fields

/// What the group has told for the set-up that is under way, or was the last.
std::optional<wire::LinkAddresses> told(const wire::Matched& link) {
  const bool is_newest = link.has_addresses_sent() && link.addresses_sent().again() == link.again();
  return is_newest ? std::optional(link.addresses_sent()) : std::nullopt;
}

void check_told(const wire::Matched& link, const Group& group) {
  if (!link.has_addresses_sent()) return;
  const wire::LinkAddresses& told = link.addresses_sent();
  if (told.link() != link.link() || told.again() == 0 || told.again() > link.again() ||
      told.addresses_size() != group.size)
    throw core::Error(
        core::Errc::refused,
        fmt::format("Resume: expected {} addresses of link {}, set up anew up to {} times; found "
                    "{} of link {}, set up anew {} times",
                    group.size, link.link(), link.again(), told.addresses_size(), told.link(),
                    told.again()));
}
}  // namespace

void Rendezvous::resume(const Call& call, const wire::Resume& message) {
  Group& group = *rank_0_of(call, "Resume").group;
  if (group.is_resumed)
    throw core::Error(core::Errc::refused,
                      fmt::format("group '{}': expected its presence only in the last Resume; "
                                  "found another Resume after it",
                                  group.name));
  for (const wire::Matched& link : message.links()) {
    if (link.link() >> 32 == settings_.number)
      throw core::Error(core::Errc::refused,
                        fmt::format("Resume: expected links numbered by an earlier server, found "
                                    "link {}, numbered by this one",
                                    link.link()));
    proto::decode(link.fields());  // a status shows them to sessions that would reject others
    proto::decode(link.redeclare().fields());
    check_told(link, group);
  }
  std::vector<const Stream*> streams;
  for (const wire::Announce& announced : message.streams())
    streams.push_back(resume_stream(group, announced, call.now));
  for (const wire::Matched& link : message.links()) resume_link(group, link, call.now);
  const wire::Done sealed = seal_names(group, streams, call.now);
  std::erase(streams, nullptr);
  std::vector<std::string> names;  // of streams that may be waited for after a loss
  names.reserve(streams.size());
  for (const Stream* const stream : streams) names.push_back(stream->name);
  for (const wire::Subscribe& subscription : message.subscriptions()) {
    names.push_back(subscription.stream());
    resume_subscription(group, subscription);
  }
  *reply(call).mutable_done() = sealed;
  log(fmt::format("group_back group={} streams={} links={}", group.name, message.streams_size(),
                  message.links_size()));
  for (const Stream* const stream : streams) refuse_waiting(*stream);
  for (const wire::Subscribe& subscription : message.subscriptions())
    for (const Stream* const stream : offered(subscription.stream())) refuse_waiting(*stream);
  for (const std::string& name : names) keep_epochs(name);
  if (message.has_presence())  // else more is to come
    complete_resume(group, message.presence(), call.now);
}

void Rendezvous::complete_resume(Group& group, const wire::Presence& presence, double now) {
  group.is_present = presence.is_present() && group.left.empty();
  group.begins = presence.incarnation();
  group.is_resumed = true;
  std::set<std::string> its;
  for (const auto& [id, each] : streams_)
    if (each.is_produced_by(group) && !each.closed) its.insert(each.name);
  for (const std::string& name : its) {
    Stream* const one = open_stream(name, group);
    if (one == nullptr) continue;
    if (const auto why = group.gave_up.find(one->incarnation); why != group.gave_up.end())
      give_up(*one, group, why->second.why, std::nullopt, now);
    // The ranks of a producer close a stream together, rank 0 among them; those of a copy do not.
    else if (!group.left.empty() && !one->is_copy && (one->was_linked || presence.is_present()))
      return lose_group(group, group.first_left,
                        fmt::format("left before its group had closed its stream '{}'", name), now);
  }
  group.gave_up.clear();
  match_present(group, now);
}

void Rendezvous::resume_link(Group& group, const wire::Matched& link, double now) {
  Stream* stream = open_stream(link.stream(), group);
  // A group that serves a copy consumes a stream of the same name.
  if (stream != nullptr && stream->is_copy && stream->incarnation != link.incarnation())
    stream = nullptr;
  if (stream != nullptr) stream->epoch = std::max(stream->epoch, link.epoch());
  free_link(group, link, stream);
  const auto why = group.gave_up.find(link.incarnation());
  if (stream == nullptr && why != group.gave_up.end()) {  // of a stream that could not be restored
    give_up_earlier_link(group, link.link(), why->second.why, now);
    if (const auto awaited = awaited_.find(link.link());
        awaited != awaited_.end() && awaited->second.is_of(group))
      awaited_.erase(awaited);
    return;
  }
  if (end_given_up(group, link, stream)) return;
  group.was_linked = true;
  if (stream != nullptr)
    resume_as_producer(group, *stream, link, now);
  else
    resume_as_consumer(group, link, now);
}

wire::Done Rendezvous::seal_names(const Group& group, std::span<const Stream* const> streams,
                                  double now) const {
  wire::Done done;
  std::uint64_t sealed_at = clock(now);  // one for all
  for (const Stream* const stream : streams)
    if (stream != nullptr) sealed_at = newer_than(stream->shown, sealed_at);
  for (const Stream* const stream : streams) {
    std::string& seal = *done.add_seals();
    if (stream == nullptr || stream->is_copy) continue;
    seal = seals_.of_stream(group, stream->name, sealed_at);
    if (!seal.empty()) done.set_sealed_at(sealed_at);
  }
  if (done.sealed_at() == 0) done.clear_seals();
  return done;
}

Rendezvous::Stream* Rendezvous::resume_stream(Group& group, const wire::Announce& message,
                                              double now) {
  try {
    free_name(group, message, now);
    Stream& stream = add_stream(group, message, now, true);
    // After its memory was counted.
    stream.shown = seals_.time_of(group, message);
    return &stream;
  } catch (const core::Error& error) {
    const std::string& name = message.stream();
    const auto is_of_others = [&](const Stream* other) { return other->owner != group.owner; };
    const auto claim = claims_.find(name);
    const bool is_taken = std::ranges::any_of(offered(name), is_of_others) ||
                          (claim != claims_.end() && claim->second.owner != group.owner);
    if (!is_taken || group.gave_up.size() >= most_gave_up) throw;
    // The rest of what the group has does not suffer.
    log(fmt::format("stream_not_restored stream={} producer={} text={}", name, group.name,
                    error.what()));
    try {
      group.gave_up.insert_or_assign(message.incarnation(), gave_up(group, error.what()));
    } catch (const core::Error&) {  // no memory for it
      group.gave_up.insert_or_assign(message.incarnation(), GaveUp{"its name was taken", {}});
    }
    wire::ToClient notice;
    notice.mutable_stream_given_up()->set_incarnation(message.incarnation());
    notice.mutable_stream_given_up()->set_why(error.what());
    notify(group, std::move(notice));
    return nullptr;
  }
}

void Rendezvous::free_name(const Group& group, const wire::Announce& message, double now) {
  // A group that comes later finds the name taken.
  if (now > come_back_seconds || message.is_copy()) return;
  const std::string& name = message.stream();
  std::vector<Stream*> others = offered(name);
  std::erase_if(others, [&](const Stream* other) { return other->owner == group.owner; });
  const auto is_newer = [&](const Stream* other) { return other->shown >= message.sealed_at(); };
  const auto claim = claims_.find(name);
  const bool is_claimed = claim != claims_.end() && claim->second.owner != group.owner;
  if ((others.empty() && !is_claimed) || std::ranges::any_of(others, is_newer)) return;
  if (is_claimed && claim->second.shown >= message.sealed_at()) return;
  // The seal is verified only where it matters.
  if (seals_.time_of(group, message) == 0) return;
  // A stream that cannot be announced must end none of another group.
  const std::vector<proto::Field> fields = proto::decode(message.fields());
  proto::check_fits_group(fields, group.size, name, group.name);
  const std::size_t bytes = memory_bytes(fields, message.fields()) + message.attributes().size() +
                            memory_bytes(texts(message.offers()));
  hold(group, bytes);  // and lets it go: the stream takes it
  for (Stream* const other : others)
    give_up(
        *other, *groups_.find(other->producer),
        fmt::format("stream '{}' belongs to a group that has a different key and has returned to "
                    "the restarted server; choose another name",
                    name),
        std::nullopt, now);
  // Giving it up may have claimed the name for the consumers of another key.
  if (const auto its = claims_.find(name); its != claims_.end() && its->second.owner != group.owner)
    claims_.erase(its);
}

void Rendezvous::free_link(const Group& group, const wire::Matched& link, const Stream* stream) {
  const LinkId id = link.link();
  const std::string& consumer = stream != nullptr ? link.peer_group() : group.name;
  const std::string& producer = stream != nullptr ? group.name : link.peer_group();
  const auto shows_seal = [&] { return seals_.is_sealed(group, link, stream != nullptr); };
  if (const auto awaited = awaited_.find(id); awaited != awaited_.end()) {
    const AwaitedLink& its = awaited->second;
    const bool is_as_shown =
        its.consumer == consumer && its.producer == producer &&
        (stream == nullptr ||
         (its.may_be_produced_by(group) && may_be_peer(its.consumer_owner, group, link, true)));
    if (its.is_sealed || is_as_shown) return;
    if (!shows_seal()) return;
    if (const Group* const other = groups_.find(its.consumer)) tell_not_its_own(*other, id);
    awaited_.erase(awaited);
  }
  const auto found = links_.find(id);
  if (found == links_.end() || found->second.is_sealed) return;
  const Link& its = found->second;
  const Stream& of = streams_.at(its.stream);
  const bool is_of_gone = stream != nullptr && of.producer_gone;  // though of the same name
  if (!is_of_gone && its.consumer == consumer && of.producer == producer &&
      of.name == link.stream() && (stream != nullptr || may_be_peer(of.owner, group, link, false)))
    return;
  if (!shows_seal()) return;
  const Group* const claimer = of.producer_gone ? nullptr : groups_.find(of.producer);
  if (claimer != nullptr) tell_not_its_own(*claimer, id);  // else it has closed the stream and left
  const Group* const other = its.is_missed ? nullptr : groups_.find(its.consumer);
  if (other != nullptr) tell_not_its_own(*other, id);
  drop_link(id);
}

void Rendezvous::resume_as_consumer(const Group& group, const wire::Matched& link, double now) {
  const auto restored = links_.find(link.link());
  if (restored == links_.end()) {
    if (awaited_.contains(link.link())) return tell_not_its_own(group, link.link());
    AwaitedLink awaited{group.name,
                        link.peer_group(),
                        group.owner,
                        link.incarnation(),
                        now,
                        hold(group, link_bytes + link.redeclare().SpaceUsedLong()),
                        link.has_redeclare() ? std::optional(link.redeclare()) : std::nullopt,
                        told(link),
                        hold(group, link.addresses_sent().SpaceUsedLong())};
    awaited.is_sealed = seals_.is_sealed(group, link, false);
    awaited.producer_owner = seals_.owner_of_peer(group, link, false);
    awaited_.emplace(link.link(), std::move(awaited));
    return;
  }
  Link& its = restored->second;
  const Stream& of = streams_.at(its.stream);
  if (!may_consume(its, group) || of.producer != link.peer_group() || of.name != link.stream())
    return tell_not_its_own(group, link.link());
  its.consumer_owner = group.owner;
  its.incarnation = link.incarnation(), its.is_missed = false;
  if (const Group* const producer = other_side(its, group))
    tell_again(its, *producer, group, told(link));
  if (link.has_redeclare()) pass_on(its, link.redeclare());
}

void Rendezvous::resume_as_producer(const Group& group, Stream& stream, const wire::Matched& link,
                                    double now) {
  if (link.again() > 0)  // its consumer is told its fields once more, as they are declared here
    proto::check_compatible(proto::decode(link.fields()), stream.fields, stream.name,
                            link.peer_group(), group.name);
  const auto awaited = awaited_.find(link.link());
  const bool is_back = awaited != awaited_.end();  // its consumer
  const bool is_of_others =
      is_back && (awaited->second.consumer != link.peer_group() ||
                  !awaited->second.may_be_produced_by(group) ||
                  !stream.is_readable_by(awaited->second.consumer_owner) ||
                  !may_be_peer(awaited->second.consumer_owner, group, link, true));
  if (is_of_others || links_.contains(link.link())) return tell_not_its_own(group, link.link());
  Link& restored =
      links_
          .emplace(link.link(),
                   Link{.id = link.link(),
                        .stream = stream.id,
                        .consumer = link.peer_group(),
                        .consumer_owner =
                            is_back ? std::optional(awaited->second.consumer_owner) : std::nullopt,
                        .incarnation = is_back ? awaited->second.incarnation : 0,
                        .offer = link.choice().empty() ? link.offer() : link.choice(),
                        .why = link.why(),
                        .fields = link.fields(),
                        .queue_depth = link.queue_depth(),
                        .when_full = link.when_full(),
                        .shares = link.shares(),
                        .wants_latest = link.wants_latest(),
                        .outlives = link.outlives(),
                        .serves = link.serves(),
                        .consumed = Account(link.peer_size(), now),
                        .is_answered = true,
                        .has_producer_told = told(link).has_value(),
                        .again = link.again(),
                        .number = link.number(),
                        .told = told(link),
                        .finished = is_back ? awaited->second.finished : std::set<core::Rank>{},
                        .since = now,
                        .is_missed = !is_back,
                        .held = hold(group, link_bytes + link.SpaceUsedLong()),
                        .told_held = hold(group, link.addresses_sent().SpaceUsedLong())})
          .first->second;
  // After its memory was counted.
  restored.is_sealed = seals_.is_sealed(group, link, true);
  if (!is_back) restored.consumer_owner = seals_.owner_of_peer(group, link, true);
  stream.links.insert(link.link());
  if (link.serves()) stream.serving.insert(link.peer_group());
  stream.was_linked = true;
  if (!is_back) return;
  if (awaited->second.redeclare) pass_on(restored, *awaited->second.redeclare);
  if (const Group* const consumer = other_side(restored, group))
    tell_again(restored, group, *consumer, awaited->second.told);
  awaited_.erase(awaited);
}

void Rendezvous::resume_subscription(const Group& group, const wire::Subscribe& subscription) {
  try {
    if (subscription.least_epoch() > 0) owner_of_lost(group, subscription);
  } catch (const core::Error& error) {  // the rest of what the group has does not suffer
    log(fmt::format("refused stream={} consumer={} text={}", subscription.stream(), group.name,
                    error.what()));
    wire::ToClient notice;
    notice.mutable_stream_refused()->set_incarnation(subscription.incarnation());
    *notice.mutable_stream_refused()->mutable_refused() = proto::encode(error);
    notify_rank_0(group, std::move(notice));
    return;
  }
  add_subscription(group, subscription);
}

void Rendezvous::give_up_earlier_link(const Group& by, LinkId id, const std::string& why,
                                      double now) {
  if (id >> 32 == settings_.number) return;  // it was closed before
  wire::ToClient notice;
  notice.mutable_link_closed()->set_link(id);
  notice.mutable_link_closed()->set_why(why);
  notice.mutable_link_closed()->set_lost(true);
  const auto awaited = awaited_.find(id);
  const bool is_awaited = awaited != awaited_.end();
  if (is_awaited && !awaited->second.is_of(by)) return;
  remember_given_up(by, id, why, now);
  if (is_awaited && awaited->second.consumer != by.name)
    if (const Group* const consumer = groups_.find(awaited->second.consumer))
      notify(*consumer, notice);
  const auto link = links_.find(id);
  if (link == links_.end() || !is_end_of(link->second, by)) notify(by, notice);
}

void Rendezvous::remember_given_up(const Group& by, LinkId id, const std::string& why, double now) {
  const auto is_of_owner = [&](const auto& each) {
    return std::get<Owner>(each.first) == by.owner;
  };
  if (std::cmp_greater_equal(std::ranges::count_if(given_up_, is_of_owner), most_given_up)) return;
  const auto awaited = awaited_.find(id);
  const auto link = links_.find(id);
  const bool is_sealed =
      (awaited != awaited_.end() && awaited->second.is_sealed &&
       awaited->second.consumer == by.name && awaited->second.consumer_owner == by.owner) ||
      (link != links_.end() && link->second.is_sealed &&
       streams_.at(link->second.stream).owner == by.owner &&
       streams_.at(link->second.stream).is_produced_by(by));
  try {
    GivenUpLink given_up{why, now, hold(by, link_bytes + why.size()), is_sealed};
    if (is_sealed)
      given_up_.insert_or_assign({id, by.name, by.owner}, std::move(given_up));
    else
      given_up_.try_emplace({id, by.name, by.owner}, std::move(given_up));
  } catch (const core::Error& error) {  // no memory for it
    log(fmt::format("given_up_left_out link={} group={} why={}", id, by.name, error.what()));
  }
}

void Rendezvous::tell_not_its_own(const Group& group, LinkId link) {
  const std::string why = fmt::format(
      "link {} cannot be restored on the restarted server: another group has reported "
      "a link of that number",
      link);
  log(fmt::format("link_refused link={} group={} why={}", link, group.name, why));
  wire::ToClient notice;
  notice.mutable_link_closed()->set_link(link);
  notice.mutable_link_closed()->set_why(why);
  notice.mutable_link_closed()->set_lost(true);
  notify(group, notice);
}

bool Rendezvous::end_given_up(const Group& group, const wire::Matched& link, Stream* stream) {
  const GivenUpLink* const given_up = find_given_up(group, link, stream != nullptr);
  if (given_up == nullptr) return false;
  wire::ToClient notice;
  notice.mutable_link_closed()->set_link(link.link());
  notice.mutable_link_closed()->set_why(given_up->why);
  notice.mutable_link_closed()->set_lost(true);
  notify(group, notice);
  if (stream != nullptr) stream->left.insert(link.peer_group());
  const auto restored = links_.find(link.link());
  if (stream != nullptr || restored == links_.end() || !may_consume(restored->second, group))
    return true;
  if (const Group* const producer = other_side(restored->second, group)) notify(*producer, notice);
  drop_link(link.link());
  return true;
}

const Rendezvous::GivenUpLink* Rendezvous::find_given_up(const Group& group,
                                                         const wire::Matched& link,
                                                         bool is_producer) const {
  // A group that has taken the name of either one since the restart can say that it gives the link up.
  std::vector<const decltype(given_up_)::value_type*> doubtful;
  for (auto each = given_up_.lower_bound({link.link(), {}, {}});
       each != given_up_.end() && std::get<LinkId>(each->first) == link.link(); ++each) {
    const auto& [id, name, owner] = each->first;
    if (name != group.name && name != link.peer_group()) continue;
    if (each->second.is_sealed || owner == group.owner) return &each->second;
    doubtful.push_back(&*each);
  }
  if (doubtful.empty()) return nullptr;
  const auto peer = seals_.owner_of_peer(group, link, is_producer);
  if (!peer && !seals_.is_sealed(group, link, is_producer)) return &doubtful.front()->second;
  const auto is_by_peer = [&](const auto* each) {
    return std::get<std::string>(each->first) == link.peer_group() &&
           std::get<Owner>(each->first) == peer;
  };
  const auto by_peer = std::ranges::find_if(doubtful, is_by_peer);
  return by_peer == doubtful.end() ? nullptr : &(*by_peer)->second;
}

void Rendezvous::check_come_back(double now) {
  const double then = now - come_back_seconds;
  std::erase_if(given_up_, [&](const auto& link) { return link.second.since < then; });
  const std::string why =
      fmt::format("has not returned to the restarted server within {:g} s", come_back_seconds);
  std::vector<std::string> missing, left;
  for (const auto& [name, group] : groups_.all()) {
    if (!group.is_awaited()) continue;
    if (group.members.empty() && group.empty_since < now - empty_seconds) left.push_back(name);
    if (!group.members.empty() && group.since < then) missing.push_back(name);
  }
  for (const std::string& name : left) end_group(*groups_.find(name), now);
  for (const std::string& name : missing) {
    const Group& group = *groups_.find(name);
    if (!group.is_awaited()) continue;  // the last Hello waited for the end of another
    core::Rank rank{};
    while (group.members.contains(rank) || group.left.contains(rank)) ++rank;
    lose_group(group, rank, why, now);
  }

  std::vector<LinkId> over;
  for (const auto& [id, awaited] : awaited_) {
    if (awaited.since >= then) continue;
    tell_not_back(awaited.consumer, id, awaited.producer, why);
    over.push_back(id);
  }
  for (const LinkId id : over) awaited_.erase(id);
  over.clear();
  for (const auto& [id, link] : links_) {
    if (!link.is_missed || link.since >= then) continue;
    tell_not_back(streams_.at(link.stream).producer, id, link.consumer, why);
    over.push_back(id);
  }
  for (const LinkId id : over) {
    const auto [of, consumer] = std::pair(links_.at(id).stream, links_.at(id).consumer);
    drop_link(id);
    // It has not left: a new job of that name is a new consumer.
    if (const auto stream = streams_.find(of); stream != streams_.end())
      stream->second.left.erase(consumer);
  }
}

void Rendezvous::tell_not_back(const std::string& group, LinkId link, const std::string& other,
                               const std::string& why) {
  log(fmt::format("link_lost link={} group={} why={}", link, other, why));
  wire::ToClient notice;
  wire::GroupLost& lost = *notice.mutable_group_lost();
  lost.set_group(other);
  lost.add_links(link);
  lost.set_why(fmt::format("group '{}' {}", other, why));
  if (const Group* const told = groups_.find(group)) notify(*told, notice);
}

}  // namespace tremula::server
