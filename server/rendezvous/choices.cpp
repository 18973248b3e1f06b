// SPDX-License-Identifier: Apache-2.0
// The part of Rendezvous for offers that stand for several choices, of which both sides of a link need one in
// common. The server asks each group for its choices once, before it first matches the group over such an offer. No
// link waits for them; a group that never sends them is not linked over it.
#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "proto/offers.hpp"
#include "server/rendezvous/rendezvous.hpp"

namespace tremula::server {

using core::Errc, core::Error;

bool Rendezvous::are_choices_known(const Subscription& subscription, const Stream& stream) {
  if (stream.choosing.empty()) return true;
  const auto offer = std::ranges::find_first_of(stream.offers, subscription.offers);
  if (offer == stream.offers.end() || !stream.choosing.contains(*offer) ||
      !stream.is_readable_by(groups_.find(subscription.consumer)->owner))
    return true;
  bool are_known = true;
  for (const std::string& name : {subscription.consumer, stream.producer}) {
    Group& group = *groups_.find(name);
    const auto known = group.choices.find(*offer);
    are_known = are_known && known != group.choices.end() && known->second.are_here;
    if (known == group.choices.end() && group.opens_links()) ask_for_choices(group, *offer);
  }
  return are_known;
}

void Rendezvous::ask_for_choices(Group& group, const std::string& offer) {
  group.choices.emplace(offer,
                        OfferChoices{.held = hold(group, sizeof(OfferChoices) + offer.size())});
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

void Rendezvous::forget_questions(Group& group) {
  std::erase_if(group.choices, [](const auto& choices) { return !choices.second.are_here; });
}

void Rendezvous::offer_choices(const Call& call, const wire::OfferChoices& message) {
  Group& group = *rank_0_of(call, "OfferChoices").group;
  const auto wanted = group.choices.find(message.offer());
  if (wanted == group.choices.end())
    throw Error(Errc::refused,
                fmt::format("OfferChoices: expected an offer of group '{}' whose choices were "
                            "asked for, found '{}'",
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
    return proto::cut(
        fmt::format("the producer's first of {} that the consumer has too (it has {})",
                    proto::short_offers(producers), proto::short_offers(consumers)));
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
