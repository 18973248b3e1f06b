// SPDX-License-Identifier: Apache-2.0
// The part of Control for links: what the server has reported about each link, and the calls that wait for reports.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "client/session/control.hpp"
#include "core/error.hpp"

namespace tremula::client {

using core::Errc, core::Error;

bool Control::is_of_earlier_server(std::uint64_t link, const KnownLink& entry) const {
  if (entry.again > 0) return false;  // the next server learns of it from Resume
  return is_ != Server::here || link >> 32 != hello_.left_server();
}

template <class Notice>
bool Control::has_come(const KnownLink& entry, const std::optional<Notice>& notice) {
  if constexpr (requires { notice->again(); })
    return notice && notice->again() == entry.again;
  else
    return notice.has_value();
}

template <class Notice>
std::optional<Notice> Control::find(std::uint64_t link, std::optional<Notice> KnownLink::*notice) {
  KnownLink& entry = links_[link];
  if (has_come(entry, entry.*notice)) return std::exchange(entry.*notice, std::nullopt);
  check_may_come(link, entry);
  return std::nullopt;
}

void Control::check_may_come(std::uint64_t link, const KnownLink& entry) const {
  if (entry.end) throw Error(entry.end->lost ? Errc::peer_lost : Errc::cancelled, entry.end->why);
  if (own_group_lost_) throw Error(Errc::peer_lost, *own_group_lost_);
  if (is_of_earlier_server(link, entry))
    throw Error(Errc::no_server,
                fmt::format("link {}: the server went away while the link was being "
                            "set up; begin again",
                            link));
}

template <class Notice>
Notice Control::take(std::uint64_t link, std::optional<Notice> KnownLink::*notice,
                     std::string_view what, core::Deadline deadline) {
  std::unique_lock lock(mutex_);
  wait(lock, deadline, [&] {
    const KnownLink& entry = links_[link];
    return has_come(entry, entry.*notice) || entry.end || own_group_lost_ ||
           is_of_earlier_server(link, entry);
  });
  if (auto found = find(link, notice)) return std::move(*found);
  if (is_ != Server::here) throw_away();  // the notice would have come from it
  throw Error(Errc::timed_out, fmt::format("link {}: expected {} in time; found none", link, what));
}

wire::LinkAddresses Control::take_addresses(std::uint64_t link, core::Deadline deadline) {
  return take(link, &KnownLink::addresses, "the other side's addresses", deadline);
}

std::optional<wire::LinkAddresses> Control::find_addresses(std::uint64_t link) {
  const std::scoped_lock lock(mutex_);
  return find(link, &KnownLink::addresses);
}

bool Control::poll_addresses(std::uint64_t link) {
  const std::scoped_lock lock(mutex_);
  const KnownLink& entry = links_[link];
  const bool is_here = has_come(entry, entry.addresses);
  if (!is_here) check_may_come(link, entry);
  return is_here;
}

void Control::set_up_again(std::uint64_t link) {
  const std::scoped_lock lock(mutex_);
  ++links_[link].again;
}

void Control::note_opened(std::uint64_t link) {
  const std::scoped_lock lock(mutex_);
  if (const auto at = links_.find(link); at != links_.end()) at->second.sent_addresses.reset();
}

std::uint64_t Control::times_again(std::uint64_t link) {
  const std::scoped_lock lock(mutex_);
  return links_[link].again;
}

wire::Redeclared Control::take_redeclared(std::uint64_t link, core::Deadline deadline) {
  return take(link, &KnownLink::redeclared, "the fields that the producer has declared again",
              deadline);
}

bool Control::wants_redeclared(std::uint64_t link) {
  if (!any_wanted_.load(std::memory_order_acquire)) return false;
  const std::scoped_lock lock(mutex_);
  const auto at = links_.find(link);
  if (is_ != Server::here || at == links_.end() || !at->second.wanted ||
      !at->second.wanted_from.expired())
    return false;
  // If two groups requested other layouts from each other, each would wait for the other to begin
  // its step. So the group that has had fewer requests granted goes first. Both groups know that
  // number for all links.
  const std::string& consumer = at->second.matched->peer_group();
  return std::ranges::none_of(links_, [&](const auto& other) {
    const KnownLink& mine = other.second;
    return mine.asked && !mine.end && mine.matched->peer_group() == consumer &&
           std::tie(mine.held, hello_.group()) < std::tie(at->second.held, consumer);
  });
}

std::optional<wire::RedeclareLink> Control::find_wanted(std::uint64_t link) {
  const std::scoped_lock lock(mutex_);
  const auto at = links_.find(link);
  if (at == links_.end()) return std::nullopt;
  return at->second.in_doubt ? at->second.in_doubt : at->second.wanted;
}

void Control::postpone_wanted(std::uint64_t link, double seconds,
                              const std::optional<wire::RedeclareLink>& in_doubt) {
  const std::scoped_lock lock(mutex_);
  const auto at = links_.find(link);
  if (at == links_.end()) return;
  at->second.wanted_from = core::Deadline::after(seconds);
  at->second.in_doubt = in_doubt;
}

bool Control::has_doubt(const std::string& stream) {
  const std::scoped_lock lock(mutex_);
  return std::ranges::any_of(links_, [&](const auto& link) {
    return link.second.in_doubt && link.second.matched && link.second.matched->stream() == stream;
  });
}

void Control::note_agreed(std::uint64_t link, std::uint64_t number) {
  const std::scoped_lock lock(mutex_);
  const auto at = links_.find(link);
  if (at == links_.end() || number == 0) return;
  at->second.held = number;
  if (at->second.asked && at->second.asked->number() <= number) at->second.asked.reset();
}

void Control::forget_asked(std::uint64_t link) {
  const std::scoped_lock lock(mutex_);
  if (const auto at = links_.find(link); at != links_.end()) at->second.asked.reset();
}

std::optional<Control::LinkEnd> Control::link_end(std::uint64_t link) {
  if (!any_end_.load(std::memory_order_acquire)) return std::nullopt;
  const std::scoped_lock lock(mutex_);
  const auto at = links_.find(link);
  if (at != links_.end() && at->second.end) return at->second.end;  // the earlier reason
  if (own_group_lost_) return LinkEnd{true, *own_group_lost_};
  return std::nullopt;
}

void Control::forget_link(std::uint64_t link) {
  const std::scoped_lock lock(mutex_);
  links_.erase(link);
  if (std::ranges::find(forgotten_, link) != forgotten_.end()) return;
  forgotten_.push_back(link);
  if (forgotten_.size() > most_forgotten) forgotten_.pop_front();
}

std::size_t Control::known_links() {
  const std::scoped_lock lock(mutex_);
  return links_.size();
}

Control::KnownLink* Control::known(std::uint64_t link) {
  return std::ranges::find(forgotten_, link) == forgotten_.end() ? &links_[link] : nullptr;
}

void Control::on_notice(const wire::ToClient& message) {
  if (message.has_matched() || message.has_stream_refused() || message.has_choices_wanted()) {
    events_.push_back(message);
    if (!message.has_matched()) return;
    if (KnownLink* const link = known(message.matched().link())) link->matched = message.matched();
  } else if (message.has_deadlock()) {
    waits_.take(message.deadlock());
  } else if (message.has_awaited()) {
    is_awaited_.store(true, std::memory_order_release);
  } else if (message.has_link_addresses()) {
    if (KnownLink* const link = known(message.link_addresses().link()))
      link->addresses = message.link_addresses();
  } else if (message.has_redeclared()) {
    KnownLink* const link = known(message.redeclared().link());
    if (link == nullptr) return;
    link->redeclared = message.redeclared();
    if (link->matched) *link->matched->mutable_fields() = message.redeclared().fields();
  } else if (message.has_redeclare_link()) {
    KnownLink* const link = known(message.redeclare_link().link());
    if (link == nullptr || !link->matched || message.redeclare_link().number() <= link->held)
      return;
    link->wanted = message.redeclare_link();
    link->wanted_from = core::Deadline::after(0);
    any_wanted_.store(true, std::memory_order_release);
  } else if (message.has_link_closed()) {
    const auto& closed = message.link_closed();
    KnownLink* const link = known(closed.link());
    if (link && !link->end) link->end = LinkEnd{closed.lost(), closed.why(), ends_reported_++};
    any_end_.store(true, std::memory_order_release);
  } else if (message.has_stream_given_up()) {
    const auto& notice = message.stream_given_up();
    given_up_.try_emplace(notice.incarnation(), notice.why(), core::Deadline::Clock::now());
    if (given_up_.size() > most_forgotten) given_up_.erase(given_up_.begin());
    any_end_.store(true, std::memory_order_release);
  } else if (message.has_group_lost()) {
    const auto& lost = message.group_lost();
    if (lost.links().empty()) own_group_lost_ = lost.why();
    for (const std::uint64_t number : lost.links())
      if (KnownLink* const link = known(number); link && !(link->end && link->end->lost))
        link->end = LinkEnd{true, lost.why(), ends_reported_++};
    any_end_.store(true, std::memory_order_release);
  }
}

}  // namespace tremula::client
