// SPDX-License-Identifier: Apache-2.0
// The part of ConsumerLinks for links that begin with the choice of a provider: rank 0 looks whether the server has
// chosen at every step, and announces it to the other ranks. No rank waits for a consumer that
// never sends its choices.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "client/stream/consumers/consumer_links.hpp"

namespace tremula::client {

using core::Errc, core::Error;

void ConsumerLinks::take_choices(core::Deadline until) {
  if (std::ranges::none_of(queued_, &Queued::awaits_choice)) return;
  Control& control = session_.control();
  const auto look = [&](const Queued& queued, wire::ToClient& found) {
    if (found.has_link_choice() || found.has_link_closed()) return true;
    const std::uint64_t link = queued.matched.link();
    std::string failure;
    try {
      if (const auto choice = control.find_choice(link)) {
        *found.mutable_link_choice() = *choice;
        return true;
      }
      if (!queued.until.expired()) return false;
      failure = fmt::format("link {}: expected the other side's choices in time; found none{}", link,
                            control.is_served() ? "" : ", and no server");
    } catch (const Error& e) {
      failure = e.what();
    }
    found.mutable_link_closed()->set_link(link);
    found.mutable_link_closed()->set_why(failure);
    return true;
  };
  const auto find = [&] {
    std::vector<wire::ToClient> found(queued_.size());
    // One that is decided is begun at once, whoever is still awaited.
    const auto look_at_all = [&] {
      bool is_any = false;
      for (std::size_t i = 0; i < queued_.size(); ++i)
        is_any = (queued_[i].awaits_choice && look(queued_[i], found[i])) || is_any;
      return is_any;
    };
    session_.waits_for(look_at_all, until);
    wire::SetUpTurn turn;
    for (wire::ToClient& event : found)
      if (event.has_link_choice() || event.has_link_closed()) *turn.add_events() = std::move(event);
    return to_bytes(turn);
  };
  const auto turn =
      from_bytes<wire::SetUpTurn>(session_.run_on_root(find, session_.step_deadline()));
  for (const wire::ToClient& event : turn.events()) note_choice(event);
}

void ConsumerLinks::note_choice(const wire::ToClient& event) {
  const std::uint64_t link =
      event.has_link_closed() ? event.link_closed().link() : event.link_choice().link();
  const auto queued =
      std::ranges::find_if(queued_, [&](const Queued& q) { return q.matched.link() == link; });
  core::expects(queued != queued_.end(), "rank 0 announced a choice for a link that is not queued");
  if (event.has_link_closed()) {
    const wire::Matched matched = std::move(queued->matched);
    queued_.erase(queued);
    refuse(matched, event.link_closed().why());
    return;
  }
  queued->awaits_choice = false;
  queued->settled = event.link_choice().choice();
  queued->matched.set_why(event.link_choice().why());
}

}  // namespace tremula::client
