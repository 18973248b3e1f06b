// SPDX-License-Identifier: Apache-2.0
// The part of Rendezvous for streams that are wanted: subscriptions, whether they fit, links.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "core/error.hpp"
#include "core/name.hpp"
#include "proto/offers.hpp"
#include "server/rendezvous/rendezvous.hpp"

namespace tremula::server {

using core::Errc, core::Error;

std::vector<std::string> Rendezvous::texts(
    const google::protobuf::RepeatedPtrField<wire::Offer>& offers) {
  std::vector<std::string> out;
  for (const wire::Offer& offer : offers) out.push_back(offer.offer());
  return out;
}

std::set<std::string> Rendezvous::choosing(
    const google::protobuf::RepeatedPtrField<wire::Offer>& offers) {
  std::set<std::string> out;
  for (const wire::Offer& offer : offers)
    if (offer.has_choices()) out.insert(offer.offer());
  return out;
}

proto::WireFields Rendezvous::in_order_of(const proto::WireFields& wanted,
                                          const proto::WireFields& offered) {
  std::map<std::string_view, const wire::Field*> by_name;
  for (const wire::Field& field : offered) by_name.emplace(field.name(), &field);
  proto::WireFields out;
  for (const wire::Field& want : wanted) *out.Add() = *by_name.at(want.name());
  return out;
}

void Rendezvous::refuse_waiting(const Stream& stream) {
  if (stream.is_copy) return;  // the original tells
  // A consumer that has left the stream may have seen its end, and wait for the next one of that name: it is
  // refused if the producer begins another step of this one.
  std::erase_if(subscriptions_, [&](const Subscription& s) {
    return s.stream == stream.name && !was_linked(s.consumer, stream) && is_refused(s, stream);
  });
}

void Rendezvous::subscribe(const Call& call, const wire::Subscribe& message) {
  const Group& group = whole_group_of(call, "Subscribe");
  add_subscription(group, message);
  reply(call).mutable_done();
  for (const Stream* const stream : offered(message.stream())) refuse_waiting(*stream);
  keep_epochs(message.stream());
  match_present(group, call.now);
}

void Rendezvous::add_subscription(const Group& group, const wire::Subscribe& message) {
  const bool waits_already = std::ranges::any_of(subscriptions_, [&](const Subscription& s) {
    return s.consumer == group.name && s.stream == message.stream();
  });
  if (waits_already)
    throw Error(Errc::refused,
                fmt::format("group '{}' already waits for stream '{}'; one subscription at a time",
                            group.name, message.stream()));
  const Owner owner = message.least_epoch() > 0 ? owner_of_lost(group, message) : 0;
  Subscription subscription{
      .consumer = group.name,
      .stream = message.stream(),
      .incarnation = message.incarnation(),
      .fields = proto::decode(message.fields()),
      .wanted = message.fields(),
      .offers = texts(message.offers()),
      .held = {},
      .wants_latest = message.wants_latest(),
      .start = message.start(),
      .shares = message.shares(),
      .outlives = message.outlives(),
      .least_epoch = message.least_epoch(),
      .owner = owner,
      .lost_streams = {message.lost_streams().begin(), message.lost_streams().end()},
      .serves = message.serves()};
  proto::check_fits_group(subscription.fields, group.size, message.stream(), group.name);
  subscription.held = hold(group, memory_bytes(subscription.fields, subscription.wanted) +
                                      memory_bytes(subscription.offers) +
                                      subscription.lost_streams.size() * sizeof(std::uint64_t));
  if (offered(message.stream()).empty())
    log(fmt::format("consumer_waits stream={} consumer={}", message.stream(), group.name));
  subscriptions_.push_back(std::move(subscription));
}

void Rendezvous::unsubscribe(const Call& call, const wire::Unsubscribe& message) {
  const Group& group = *rank_0_of(call, "Unsubscribe").group;
  std::erase_if(subscriptions_, [&](const Subscription& s) {
    return s.consumer == group.name && s.stream == message.stream();
  });
  end_claim(message.stream(), group.name);
  reply(call).mutable_done();
}

void Rendezvous::presence(const Call& call, const wire::Presence& message) {
  Group& group = *rank_0_of(call, "Presence").group;
  if (message.is_present()) whole_group_of(call, "Presence");
  if (message.unless_choosing() && is_choosing(group, call.now))
    return reply(call).mutable_done()->set_is_choosing(true);
  if (message.is_present()) drop_questions(group);
  group.is_present = message.is_present();
  group.begins = message.incarnation();
  reply(call).mutable_done();
  if (group.is_present) match_present(group, call.now);
}

void Rendezvous::check_may_read(Owner owner, const Stream& stream) {
  if (!stream.is_readable_by(owner))
    throw Error(
        Errc::refused,
        fmt::format("stream '{}' is announced by a group with a different key: expected that "
                    "it lets others read ('readable_by: all' among the options of its "
                    "producer), found that it does not",
                    stream.name));
}

std::string Rendezvous::check_match(const Subscription& subscription, const Stream& stream) {
  const Group& consumer = *groups_.find(subscription.consumer);
  check_may_read(consumer.owner, stream);
  if (subscription.least_epoch > 0 && stream.owner != subscription.owner)
    throw Error(
        Errc::refused,
        fmt::format("stream '{}': consumer '{}' waits for its producer to be started again; "
                    "expected a group with that producer's key, found one with a different key",
                    stream.name, consumer.name));
  const Group& producer = *groups_.find(stream.producer);
  if (subscription.consumer == stream.producer)
    throw Error(
        Errc::unsupported,
        fmt::format("stream '{}': group '{}' produces it and cannot consume it as well; let "
                    "another group consume it",
                    stream.name, stream.producer));
  if (subscription.shares && stream.is_part())
    throw Error(Errc::unsupported,
                fmt::format("stream '{}': consumer '{}' shares the steps, but each group that "
                            "produces a part of it would give it different ones; take every step",
                            stream.name, subscription.consumer));
  if (subscription.shares && stream.is_state)
    throw Error(Errc::unsupported,
                fmt::format("stream '{}': expected consumers of a state (kind: state) to take its "
                            "newest version, found consumer '{}', which shares steps; leave "
                            "'steps: share' out",
                            stream.name, subscription.consumer));
  if (subscription.wants_latest && stream.is_part())
    throw Error(Errc::unsupported,
                fmt::format("stream '{}': consumer '{}' wants only the latest step, which would "
                            "differ between the groups that produce a part of it; take every step",
                            stream.name, subscription.consumer));
  if (subscription.serves) check_may_serve(subscription, stream);
  proto::check_compatible(subscription.fields, stream.fields, stream.name, subscription.consumer,
                          stream.producer);
  const auto best = std::ranges::find_first_of(stream.offers, subscription.offers);
  if (best == stream.offers.end())
    throw Error(Errc::mismatch,
                fmt::format("stream '{}': {}", stream.name,
                            proto::why_none_matches({fmt::format("producer '{}'", producer.name),
                                                     producer.host, stream.offers},
                                                    {fmt::format("consumer '{}'", consumer.name),
                                                     consumer.host, subscription.offers})));
  return *best;
}

bool Rendezvous::is_refused(const Subscription& subscription, const Stream& stream) {
  try {
    check_match(subscription, stream);
    return false;
  } catch (const Error& error) {
    tell_refused(subscription, stream, error);
    return true;
  }
}

void Rendezvous::tell_refused(const Subscription& subscription, const Stream& stream,
                              const Error& error) {
  log(fmt::format("refused stream={} consumer={} code={} text={}", stream.name,
                  subscription.consumer, core::to_string(error.code()), error.what()));
  end_claim(stream.name, subscription.consumer);
  wire::ToClient notice;
  wire::StreamRefused& refused = *notice.mutable_stream_refused();
  *refused.mutable_refused() = proto::encode(error);
  refused.set_incarnation(subscription.incarnation);
  notify_rank_0(*groups_.find(subscription.consumer), notice);
  // A refusal ends the producer's wait for consumers. A group with a different key must not be able to do that.
  if (groups_.find(subscription.consumer)->owner != stream.owner) return;
  refused.set_incarnation(stream.incarnation);
  notify_rank_0(*groups_.find(stream.producer), notice);
}

bool Rendezvous::is_linked(const Subscription& subscription, const Stream& stream) const {
  return std::ranges::any_of(stream.links, [&](LinkId id) {
    const Link& link = links_.at(id);
    return link.consumer == subscription.consumer && link.incarnation == subscription.incarnation;
  });
}

bool Rendezvous::lets_in(const Group& producer, const Subscription& subscription,
                         const Stream& stream) const {
  // A consumer that reopens a stream it has left wants later steps: it joins when the producer begins one, and
  // otherwise waits for the next stream of that name.
  return producer.opens_links() &&
         (!was_linked(subscription.consumer, stream) || producer.begins == stream.incarnation);
}

bool Rendezvous::was_linked(const std::string& consumer, const Stream& stream) const {
  return stream.left.contains(consumer) || std::ranges::any_of(stream.links, [&](LinkId id) {
           return links_.at(id).consumer == consumer;
         });
}

void Rendezvous::match_present(const Group& about, double now, const std::string* stream) {
  std::set<std::string> awaited;
  std::erase_if(subscriptions_, [&](Subscription& s) {
    return (stream == nullptr || s.stream == *stream) && is_matched(s, about, awaited, now);
  });
  wire::ToClient notice;
  notice.mutable_awaited();
  for (const std::string& name : awaited)  // one that is back in part is told when it is whole
    if (const Group& group = *groups_.find(name); !group.is_awaited()) notify_rank_0(group, notice);
}

bool Rendezvous::is_matched(Subscription& s, const Group& about, std::set<std::string>& awaited,
                            double now) {
  const auto streams = offered(s.stream);
  if (streams.empty() || !streams.front()->is_covered) return false;
  const auto is_about = [&](const Stream* each) { return each->producer == about.name; };
  // Copies are searched for those alone that the call is about: a group that announces one has the name, too.
  if (s.consumer != about.name && std::ranges::none_of(streams, is_about) &&
      open_stream(s.stream, about) == nullptr)
    return false;
  // Until each producer of a part has resumed, the number of missing links is unknown.
  const auto is_coming_back = [&](const Stream* each) {
    const Group& producer = *groups_.find(each->producer);
    return each->is_part() && producer.is_back && !producer.is_resumed;
  };
  if (std::ranges::any_of(streams, is_coming_back)) return false;
  const auto copies = copies_for(s, streams);
  const Group* const consumer = groups_.find(s.consumer);
  std::vector<Stream*> met;
  int missing = 0;
  for (Stream* const stream : streams) {
    if (is_linked(s, *stream)) continue;
    ++missing;
    const Group* const producer = groups_.find(stream->producer);
    const bool is_ready = lets_in(*producer, s, *stream);
    Stream* const source = source_for(s, *stream, is_ready, copies, now);
    const bool waits = consumer->opens_links();
    bool is_known = false;
    try {
      is_known = are_choices_known(s, source != nullptr ? *source : *stream, now);
    } catch (const Error& error) {  // no memory for them
      tell_refused(s, *stream, error);
      return true;
    }
    if (waits && source != nullptr && !is_known) continue;
    if (waits && source != nullptr)
      met.push_back(source);
    else if (waits || producer->opens_links())
      awaited.insert(waits ? producer->name : consumer->name);
    if (waits && source == nullptr)
      for (const Stream* const copy : copies)
        if (!groups_.find(copy->producer)->opens_links()) awaited.insert(copy->producer);
  }
  for (Stream* const stream : met) {
    try {
      match(s, *stream, --missing, now);
    } catch (const Error& error) {  // no memory for it, or no choice in common
      tell_refused(s, *stream, error);
      forget_failed_choices(s, *stream);
      return true;
    }
  }
  return missing == 0;
}

int Rendezvous::queue_depth(const Subscription& subscription, const Stream& stream) {
  if (stream.is_state && stream.queue_depth == 0) return 0;  // versions are lent
  // One that the consumer takes, and the newest, which a newer one replaces.
  if (subscription.wants_latest) return 2;
  if (stream.queue_bytes == 0 || stream.queue_depth == 0) return stream.queue_depth;
  const auto steps = stream.queue_bytes / proto::step_bytes(subscription.fields, stream.fields);
  return static_cast<int>(std::clamp<std::int64_t>(steps, 1, stream.queue_depth));
}

namespace {
/// @param numbers  of the hosts that were met so far
void add_hosts(const Group& group, std::map<std::string_view, int>& numbers,
               google::protobuf::RepeatedField<int>& host_of_rank) {
  for (const auto& [rank, member] : group.members)
    host_of_rank.Add(
        numbers.try_emplace(member.host, static_cast<int>(numbers.size())).first->second);
}
}  // namespace

void Rendezvous::match(Subscription& subscription, Stream& stream, int missing, double now) {
  if (stream.is_state) {
    subscription.wants_latest = true;
    subscription.start = wire::START_LATEST;
  }
  const Group& consumer = *groups_.find(subscription.consumer);
  const Group& producer = *groups_.find(stream.producer);
  const Stream& original = stream.is_copy ? *offered(stream.name).front() : stream;
  stream.epoch = original.epoch;
  const std::uint64_t epoch =
      has_lost(subscription, original) ? subscription.least_epoch - 1 : stream.epoch;
  const std::string offer = check_match(subscription, stream);
  const Choice chosen = choose(subscription, stream, offer);
  Hold held = missing == 0 ? std::move(subscription.held)
                           : hold(consumer, memory_bytes(subscription.fields, subscription.wanted));
  LinkId id = ++last_link_;
  while (links_.contains(id)) id = ++last_link_;
  const Link& link =
      links_
          .emplace(id, Link{.id = id,
                            .stream = stream.id,
                            .consumer = consumer.name,
                            .consumer_owner = consumer.owner,
                            .incarnation = subscription.incarnation,
                            .offer = chosen.choice.empty() ? offer : chosen.choice,
                            .why = chosen.why,
                            .fields = subscription.wanted,
                            .queue_depth = queue_depth(subscription, stream),
                            .when_full = subscription.wants_latest ? wire::WHEN_FULL_DROP_OLDEST
                                         : subscription.shares     ? wire::WHEN_FULL_BLOCK
                                                                   : stream.when_full,
                            .shares = subscription.shares,
                            .wants_latest = subscription.wants_latest,
                            .outlives = subscription.outlives,
                            .serves = subscription.serves,
                            .consumed = Account(consumer.size, now),
                            .since = now,
                            .held = std::move(held)})
          .first->second;
  stream.links.insert(id);
  if (link.serves) stream.serving.insert(consumer.name);
  for (const std::string& name : {consumer.name, producer.name})
    groups_.find(name)->was_linked = true;
  stream.was_linked = true;
  end_claim(stream.name, consumer.name);
  log(fmt::format("matched link={} stream={} producer={} consumer={} transport={} why={}", id,
                  stream.name, producer.name, consumer.name, proto::short_offer(link.offer),
                  link.why));

  wire::Matched matched;
  matched.set_link(id);
  matched.set_stream(stream.name);
  matched.set_offer(offer);
  matched.set_choice(chosen.choice);
  matched.set_why(link.why);
  matched.set_queue_depth(link.queue_depth);
  matched.set_when_full(link.when_full);
  matched.set_shares(link.shares);
  matched.set_wants_latest(link.wants_latest);
  matched.set_start(subscription.start);
  matched.set_keep_steps(stream.keep_steps);
  matched.set_is_proved(stream.is_proved);
  matched.set_missing(missing);
  matched.set_epoch(epoch);
  matched.set_outlives(link.outlives);

  if (proto::are_copied(subscription.fields, stream.fields) &&
      static_cast<int>(producer.members.size()) == producer.size &&
      static_cast<int>(consumer.members.size()) == consumer.size) {
    std::map<std::string_view, int> numbers;
    add_hosts(producer, numbers, *matched.mutable_peer_host_of_rank());
    add_hosts(consumer, numbers, *matched.mutable_host_of_rank());
  }

  wire::ToClient notice;
  matched.set_incarnation(subscription.incarnation);
  matched.set_peer_group(producer.name);
  matched.set_peer_size(producer.size);
  matched.set_attributes(stream.attributes);
  if (link.outlives) matched.set_token(token(stream.owner, stream.name, epoch, consumer.name));
  matched.set_stream_number(original.number);
  matched.set_is_copy(stream.is_copy);
  matched.set_readable_by_all(subscription.serves && stream.is_readable_by_all);
  *matched.mutable_fields() = in_order_of(link.fields, stream.announced);
  matched.set_seal(seals_.of_link(consumer, matched, false));
  matched.set_peer_mark(seals_.mark_of_peer(producer.owner, consumer, matched, false));
  *notice.mutable_matched() = matched;
  notify_rank_0(consumer, notice);

  matched.mutable_host_of_rank()->Swap(matched.mutable_peer_host_of_rank());
  matched.clear_attributes();
  matched.clear_token();
  matched.clear_stream_number();
  matched.clear_is_copy();
  matched.clear_readable_by_all();
  matched.set_serves(link.serves);
  matched.set_incarnation(stream.incarnation);
  matched.set_peer_group(consumer.name);
  matched.set_peer_size(consumer.size);
  matched.set_seal(seals_.of_link(producer, matched, true));
  matched.set_peer_mark(seals_.mark_of_peer(consumer.owner, producer, matched, true));
  *matched.mutable_fields() = link.fields;
  *notice.mutable_matched() = std::move(matched);
  notify_rank_0(producer, std::move(notice));
}

}  // namespace tremula::server
