// SPDX-License-Identifier: Apache-2.0
// The part of Rendezvous for offers that stand for several choices, of which both sides of a link need one in
// common. The server asks a group for its choices before it first links it over such an offer, and again in a later
// call if it has not answered or had none. A call may stay open for three seconds while an answer is pending; a group
// that never answers is not linked over that offer.
#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "proto/offers.hpp"
#include "server/rendezvous/rendezvous.hpp"

namespace tremula::server {

using core::Errc, core::Error;

namespace {
/// How long a call may be held for choices, counted from the question. Looking for providers takes a second or two.
constexpr double answer_seconds = 3;
/// Upper limit, in bytes, of the text that explains the choice of transport.
constexpr std::size_t most_why_bytes = 1024;
}  // namespace

const std::string* Rendezvous::shared_offer_with_choices(const Subscription& subscription,
                                                         const Stream& stream) {
  if (stream.choosing.empty()) return nullptr;
  const auto offer = std::ranges::find_first_of(stream.offers, subscription.offers);
  if (offer == stream.offers.end() || !stream.choosing.contains(*offer) ||
      !stream.is_readable_by(groups_.find(subscription.consumer)->owner))
    return nullptr;
  return &*offer;
}

bool Rendezvous::are_choices_known(const Subscription& subscription, const Stream& stream,
                                   double now) {
  const std::string* const offer = shared_offer_with_choices(subscription, stream);
  if (offer == nullptr) return true;
  bool are_known = true;
  for (const std::string& name : {subscription.consumer, stream.producer}) {
    Group& group = *groups_.find(name);
    const auto known = group.choices.find(*offer);
    are_known = are_known && known != group.choices.end() && known->second.are_here;
    const bool needs_no_question = known != group.choices.end() && !known->second.is_dropped;
    if (!needs_no_question && group.opens_links()) ask_for_choices(group, *offer, now);
  }
  return are_known;
}

bool Rendezvous::is_choosing(const Group& group, double now) {
  const auto is_recent_question = [now](const auto& choices) {
    return !choices.second.are_here && now - choices.second.asked < answer_seconds;
  };
  const auto has_question = [&](const auto& named) {
    return std::ranges::any_of(named.second.choices, is_recent_question);
  };
  if (!group.opens_links() || std::ranges::none_of(groups_.all(), has_question)) return false;
  const auto is_asked_for = [&](const Group& one, const std::string& offer) {
    const auto choices = one.choices.find(offer);
    return choices != one.choices.end() && is_recent_question(*choices);
  };
  const auto is_due = [&](const Subscription& s, const Stream& stream) {
    if (s.consumer != group.name && stream.producer != group.name) return false;
    const std::string* const offer = shared_offer_with_choices(s, stream);
    if (offer == nullptr || is_linked(s, stream)) return false;
    const Group& consumer = *groups_.find(s.consumer);
    const Group& producer = *groups_.find(stream.producer);
    // No group holds up those of another key.
    return consumer.owner == producer.owner && consumer.opens_links() &&
           lets_in(producer, s, stream) &&
           (is_asked_for(consumer, *offer) || is_asked_for(producer, *offer));
  };
  return std::ranges::any_of(subscriptions_, [&](const Subscription& s) {
    const Stream* const own = s.consumer == group.name ? nullptr : open_stream(s.stream, group);
    if (own != nullptr && own->is_copy && is_due(s, *own)) return true;
    const auto streams = offered(s.stream);
    return !streams.empty() && streams.front()->is_covered &&
           std::ranges::any_of(streams, [&](const Stream* stream) { return is_due(s, *stream); });
  });
}

void Rendezvous::ask_for_choices(Group& group, const std::string& offer, double now) {
  if (const auto known = group.choices.find(offer); known != group.choices.end())
    known->second.is_dropped = false;
  else
    group.choices.emplace(
        offer,
        OfferChoices{.asked = now, .held = hold(group, sizeof(OfferChoices) + offer.size())});
  wire::ToClient notice;
  notice.mutable_choices_wanted()->set_offer(offer);
  notify_rank_0(group, notice);
}

void Rendezvous::forget_failed_choices(const Subscription& subscription, const Stream& stream) {
  for (const std::string& name : {subscription.consumer, stream.producer})
    std::erase_if(groups_.find(name)->choices, [](const auto& choices) {
      return choices.second.are_here && choices.second.list.empty();
    });
}

void Rendezvous::drop_questions(Group& group) {
  for (auto& [offer, choices] : group.choices) choices.is_dropped = !choices.are_here;
}

void Rendezvous::offer_choices(const Call& call, const wire::OfferChoices& message) {
  Group& group = *rank_0_of(call, "OfferChoices").group;
  const auto wanted = group.choices.find(message.offer());
  if (wanted == group.choices.end())
    throw Error(Errc::refused,
                fmt::format("OfferChoices: expected an offer that group '{}' was asked about, "
                            "found '{}'",
                            group.name, message.offer()));
  OfferChoices& choices = wanted->second;
  choices.are_here = true;
  try {
    choices.held = hold(group, sizeof(OfferChoices) + message.SpaceUsedLong());
    choices.list.assign(message.choices().begin(), message.choices().end());
    choices.why_none = core::printable(message.why());
  } catch (const Error& error) {  // no memory for them
    choices.why_none = error.what();
  }
  reply(call).mutable_done();
  match_present(group, call.now);
}

Rendezvous::Choice Rendezvous::choose(const Subscription& subscription, const Stream& stream,
                                      const std::string& offer) const {
  const auto why = [](const auto& producers, const auto& consumers) {
    const std::string text =
        fmt::format("the producer's first of {} that the consumer also has (it has {})",
                    proto::short_offers(producers), proto::short_offers(consumers));
    return proto::cut(text, most_why_bytes);
  };
  if (!stream.choosing.contains(offer)) return {{}, why(stream.offers, subscription.offers)};
  const OfferChoices& producer = groups_.all().at(stream.producer).choices.at(offer);
  const OfferChoices& consumer = groups_.all().at(subscription.consumer).choices.at(offer);
  for (const auto& [name, of] :
       {std::pair(&stream.producer, &producer), std::pair(&subscription.consumer, &consumer)})
    if (of->list.empty())
      throw Error(Errc::unsupported,
                  fmt::format("stream '{}': group '{}' has no way to use '{}': {}", stream.name,
                              *name, proto::short_offer(offer), of->why_none));
  const auto best = std::ranges::find_first_of(producer.list, consumer.list);
  if (best == producer.list.end())
    throw Error(Errc::mismatch,
                fmt::format("stream '{}': producer '{}' can use {}, consumer '{}' can use {}, and "
                            "none is on both lists; set 'ofi_provider' to one that both have, or "
                            "choose another transport",
                            stream.name, stream.producer, proto::short_offers(producer.list),
                            subscription.consumer, proto::short_offers(consumer.list)));
  return {*best, why(producer.list, consumer.list)};
}

}  // namespace tremula::server
