// SPDX-License-Identifier: Apache-2.0
// The part of Rendezvous for offers that leave a choice to both sides of a link.
#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "proto/offers.hpp"
#include "server/rendezvous/rendezvous.hpp"

namespace tremula::server {

using core::Errc, core::Error;

void Rendezvous::link_choices(const Call& call, const wire::LinkChoices& message) {
  const Group& group = *rank_0_of(call, "LinkChoices").group;
  Link* const link = link_of(group, message.link());
  if (link == nullptr) throw error_of_gone_link(group, message.link());
  const bool is_consumer = link->consumer == group.name;
  if (!is_consumer) link->is_answered = true;
  (is_consumer ? link->consumer_held : link->producer_held) = hold(group, message.SpaceUsedLong());
  (is_consumer ? link->consumer_choices : link->producer_choices)
      .assign(message.choices().begin(), message.choices().end());
  const auto& producers = link->producer_choices;
  const auto& consumers = link->consumer_choices;
  const bool are_both_here = !producers.empty() && !consumers.empty();
  const auto best = std::ranges::find_first_of(producers, consumers);
  const Stream& stream = streams_.at(link->stream);
  if (are_both_here && best == producers.end())
    throw Error(Errc::mismatch,
                fmt::format("stream '{}': producer '{}' can use {}, consumer '{}' can use {}, and "
                            "none is on both lists; set 'ofi_provider' to one that both have, or "
                            "choose another transport",
                            stream.name, stream.producer, proto::short_offers(producers),
                            link->consumer, proto::short_offers(consumers)));
  reply(call).mutable_done();
  if (!are_both_here) return;
  link->offer = *best;
  link->why =
      proto::cut(fmt::format("the producer's first of {} that the consumer has too (it has {})",
                             proto::short_offers(producers), proto::short_offers(consumers)));
  log(fmt::format("chosen link={} transport={} why={}", link->id, link->offer, link->why));
  wire::ToClient notice;
  notice.mutable_link_choice()->set_link(link->id);
  notice.mutable_link_choice()->set_choice(link->offer);
  notice.mutable_link_choice()->set_why(link->why);
  if (const Group* other = other_side(*link, group)) notify_rank_0(*other, notice);
  notify_rank_0(group, std::move(notice));
}

}  // namespace tremula::server
