// SPDX-License-Identifier: Apache-2.0
// The part of ProducerLinks for a link that is set up anew, as one side has declared its layouts again:
// ../consumers/reopening.cpp draws both sides.
#include <fmt/format.h>

#include <functional>
#include <utility>

#include "client/stream/producers/producer_links.hpp"
#include "proto/convert.hpp"

namespace tremula::client {

using core::Errc, core::Error;

bool ProducerLinks::is_redeclared() const {
  return std::ranges::all_of(links_,
                             [](const Open& open) { return open.exchange->is_redeclared(); });
}

void ProducerLinks::reopen(const std::function<void(const wire::Redeclared&)>& adopt) {
  core::expects(links_.size() == 1, "only an array of one producer group is declared again");
  const auto is_answered = [this] {
    Open& open = links_.front();
    answer(open);
    return open.has_answered && open.exchange->poll_told();
  };
  wait([&] { return polled(is_answered()); }, nullptr, "take the credits");
  const std::uint64_t number = links_.front().link.number;
  const std::string producer = links_.front().link.peer_group, where = place();
  bool must_give_up = false;
  try {
    const auto until = session_.step_deadline();
    session_.allgather_over(numbers(), {}, until);  // a rank that has lost the stream does not come
    session_.control().set_up_again(number);
    const auto told = from_bytes<wire::Redeclared>(session_.run_on_root(
        [&] { return to_bytes(session_.control().take_redeclared(number, until)); }, until));
    wire::Matched matched = links_.front().matched;
    *matched.mutable_fields() = told.fields();
    ended_ = statistics();
    Before before;
    // Until the pairs are proved anew: then the producer has the credits that went over it.
    std::unique_ptr<transport::Endpoint> old_endpoint;
    {
      const auto hold = session_.progress().hold();
      Open& open = links_.front();
      before = open.before;
      before.steps += open.exchange->steps();
      before.turns += open.exchange->steps() + 1;
      before.dropped += open.exchange->dropped();
      before.traffic += open.exchange->traffic();
      before.plan_seconds += open.exchange->plan().seconds;
      open.exchange.reset();
      open.link.signs.reset();
      old_endpoint = std::move(open.link.endpoint);
      links_.clear();
      is_open_ = is_complete_ = false;
    }
    adopt(told);
    must_give_up = true;
    add_link(matched, before);
    must_give_up = false;
    is_open_ = true;
    complete();
  } catch (...) {
    is_lost_ = true;
    const Error e = core::current_error();
    const bool may_be_lost = e.code() == Errc::transport || e.code() == Errc::peer_lost;
    // The producer may have died. The server reports that within a moment, but not after the link is given up.
    std::optional<Control::LinkEnd> end;
    const auto knows = [&] { return (end = session_.control().link_end(number)).has_value(); };
    if (may_be_lost) session_.waits_for(knows, core::Deadline::after(explained_within_seconds));
    if (must_give_up) give_up(number, e);
    if (!may_be_lost) throw;
    throw Error(Errc::peer_lost,
                fmt::format("{}: the link to producer group '{}' could not be set up anew: {}",
                            where, producer, end ? end->why : e.what()));
  }
}

}  // namespace tremula::client
