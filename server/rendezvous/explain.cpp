// SPDX-License-Identifier: Apache-2.0
// The part of Rendezvous that tells a group why its stream is not linked.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <concepts>
#include <string>
#include <string_view>
#include <vector>

#include "proto/wait_text.hpp"
#include "server/rendezvous/rendezvous.hpp"

namespace tremula::server {

namespace {

// A text for people is bounded (WIRE_FORMAT.md): the first of many say enough.
constexpr std::size_t most_names = 8, enough_bytes = 4000;

// Components of one job come together: a group that ended within so many seconds before another joined is assumed to
// belong to it.
constexpr double just_before = 10;

std::string quoted(const std::set<std::string>& names) {
  std::vector<std::string_view> first;
  for (auto it = names.begin(); it != names.end() && first.size() < most_names; ++it)
    first.push_back(*it);
  const std::size_t more = names.size() - first.size();
  return fmt::format("'{}'{}", fmt::join(first, "', '"),
                     more == 0 ? "" : fmt::format(" and {} more", more));
}

void add(std::string& text, const std::string& more) {
  if (!more.empty() && text.size() < enough_bytes) text += (text.empty() ? "" : "; ") + more;
}
/// Makes a text that takes long to make only where there is room for it.
template <std::invocable Make>
void add(std::string& text, const Make& make) {
  if (text.size() < enough_bytes) add(text, make());
}

/// Returns, for people, why a group that has come is not linked yet.
std::string_view why_not_linked(const Group& group) {
  const bool lacks_answer = std::ranges::any_of(
      group.choices, [](const auto& choices) { return !choices.second.are_here; });
  if (!group.opens_links()) return "is not in a call that opens links";
  return lacks_answer ? "has not yet reported which providers it can use" : "is not linked yet";
}

/// Tells whether a rank that has reported `theirs` has come to an agreement, which may be two messages,
/// each with a number.
bool has_come(std::uint64_t theirs, std::uint64_t agreement) {
  return theirs != 0 && theirs + 1 >= agreement && theirs <= agreement + 1;
}

/// Returns the ranks that have said goodbye without coming to an agreement.
std::set<core::Rank> left_before(const Group& group, std::uint64_t agreement) {
  std::set<core::Rank> ranks;
  for (const core::Rank rank : group.left) {
    const auto reported = group.left_in.find(rank);
    if (reported == group.left_in.end() || !has_come(reported->second, agreement))
      ranks.insert(rank);
  }
  return ranks;
}

/// Names ranks that have said goodbye, for people; empty if there are none. The first one is the cause:
/// the others leave because they wait for it in vain.
std::string describe_left(const Group& group, std::set<core::Rank> ranks) {
  if (ranks.empty()) return {};
  if (ranks.erase(group.first_left) == 0)
    return fmt::format("that {} {} left", proto::ranks_text(ranks),
                       ranks.size() == 1 ? "has" : "have");
  return fmt::format(
      "that rank {} has left{}", group.first_left.value,
      ranks.empty() ? "" : fmt::format(", and {} after it", proto::ranks_text(ranks)));
}

/// Names a rank of each other group of the key that waits in an agreement of its group, for people. All ranks of a
/// group wait for its rank 0 or rank 0 waits for them, so that a look at the first two will do.
std::string describe_agreements(const Groups& groups, const Group& asking) {
  std::string text;
  for (const auto& [name, group] : groups.all()) {
    if (text.size() >= enough_bytes) break;
    if (group.owner != asking.owner || name == asking.name) continue;
    for (const core::Rank rank : core::all_ranks(2)) {
      const auto member = group.members.find(rank);
      if (member == group.members.end() || member->second.wait == nullptr) continue;
      const wire::Wait& wait = member->second.wait->reported;
      if (wait.link() != 0 || wait.incarnation() != 0 || wait.group() != name) continue;
      add(text, [&] {
        return fmt::format("rank {} of group '{}' waits {}", rank.value, name,
                           proto::wait_text(wait));
      });
      break;
    }
  }
  return text;
}

}  // namespace

void Rendezvous::explain(const Call& call, const wire::Explain& message) {
  const bool is_of_ranks = message.agreement() != 0;
  const Seat seat = is_of_ranks ? seat_of(call) : rank_0_of(call, "Explain");
  const Group& group = *seat.group;
  wire::Explained& explained = *reply(call).mutable_explained();
  if (is_of_ranks) {
    std::string left = describe_left(group, left_before(group, message.agreement()));
    const std::string missing = left.empty() ? describe_missing(seat, message.agreement()) : "";
    if (missing.empty() && left.empty()) left = describe_left(group, group.left);
    explained.set_is_warning(!left.empty());  // it never comes
    return explained.set_text(left.empty() ? missing : left);
  }
  for (const auto& [id, stream] : streams_)
    if (stream.is_produced_by(group) && !stream.closed &&
        stream.incarnation == message.incarnation())
      return explain_producer(stream, explained);
  for (const Subscription& subscription : subscriptions_)
    if (subscription.consumer == group.name && subscription.incarnation == message.incarnation())
      return explain_consumer(subscription, explained);
}

void Rendezvous::explain_producer(const Stream& stream, wire::Explained& explained) const {
  std::string text, waits;
  std::set<std::string> others;
  if (!stream.is_covered) add(text, [&] { return describe_gaps(stream.name); });
  for (const Subscription& s : subscriptions_) {
    if (s.stream == stream.name && !stream.is_covered) continue;
    if (s.stream != stream.name) {
      if (s.consumer != stream.producer && groups_.all().at(s.consumer).owner == stream.owner)
        others.insert(s.stream);
      continue;
    }
    explained.set_has_come(true);
    add(text, fmt::format("group '{}' has subscribed, but {}", s.consumer,
                          why_not_linked(groups_.all().at(s.consumer))));
    add(waits, [&] { return describe_waits(s.consumer, stream.owner); });
  }
  add(text, waits);
  const bool has_come = explained.has_come();
  if (!has_come && !others.empty())
    add(text, fmt::format("consumers of other streams only: {}", quoted(others)));
  const Group& producer = groups_.all().at(stream.producer);
  const std::string gone = describe_gone(producer);
  add(text, gone);
  const std::string missing = describe_missing(stream.owner);
  add(text, missing);
  explained.set_is_warning(has_come ? !waits.empty() : !text.empty());
  if (!has_come) add(text, [&] { return describe_agreements(groups_, producer); });
  explained.set_text(text);
}

void Rendezvous::explain_consumer(const Subscription& subscription,
                                  wire::Explained& explained) const {
  std::string text, waits;
  std::set<std::string> others;
  const Owner owner = groups_.all().at(subscription.consumer).owner;
  bool is_any_linked = false, have_begun = true, is_covered = true;
  for (const auto& [id, stream] : streams_) {
    if (stream.closed || stream.is_copy || stream.producer == subscription.consumer ||
        !stream.is_readable_by(owner))
      continue;
    if (stream.name != subscription.stream) {
      others.insert(stream.name);
      continue;
    }
    is_covered = is_covered && stream.is_covered;
    if (!stream.is_covered) continue;
    explained.set_has_come(true);
    if (is_linked(subscription, stream)) {
      is_any_linked = true;
      continue;
    }
    have_begun = have_begun && stream.produced.total().steps() > 0;
    add(text, fmt::format("group '{}' offers it, but {}", stream.producer,
                          why_not_linked(groups_.all().at(stream.producer))));
    std::string its_waits;
    if (text.size() < enough_bytes) its_waits = describe_waits(stream.producer, owner);
    add(text, its_waits);
    add(waits, its_waits);
  }
  explained.set_has_begun(is_any_linked && have_begun);
  const bool has_come = explained.has_come();
  if (!is_covered)
    add(text, [&] { return describe_gaps(subscription.stream); });
  else if (!has_come)
    add(text,
        others.empty() ? "no stream of another group" : fmt::format("only {}", quoted(others)));
  const Group& consumer = groups_.all().at(subscription.consumer);
  const std::string gone = describe_gone(consumer);
  add(text, gone);
  if (!has_come) add(text, [&] { return describe_agreements(groups_, consumer); });
  const std::string missing = describe_missing(owner);
  add(text, missing);
  explained.set_text(text);
  explained.set_is_warning(has_come ? !waits.empty()
                                    : !others.empty() || !missing.empty() || !gone.empty() ||
                                          !is_covered);
}

std::string Rendezvous::describe_gone(const Group& asking) const {
  std::string text;
  for (const GoneGroup& gone : gone_)
    if (gone.owner == asking.owner && gone.at + just_before >= asking.since &&
        !groups_.all().contains(gone.name))
      add(text,
          gone.why.empty()
              ? fmt::format("group '{}' joined and left again without a link to any stream: has "
                            "it failed?",
                            gone.name)
              : fmt::format("group '{}' joined and was lost: {}", gone.name, gone.why));
  return text;
}

std::string Rendezvous::describe_gaps(const std::string& stream) const {
  std::vector<const Stream*> parts;
  for (const auto& [id, each] : streams_)
    if (each.name == stream && !each.closed && !each.is_copy) parts.push_back(&each);
  return describe_gaps(parts);
}

std::string Rendezvous::describe_waits(const std::string& group, Owner asking) const {
  if (groups_.all().at(group).owner != asking) return {};
  std::string text;
  const auto tell = [&](const Stream& stream, const Account& account) {
    const wire::StepStatus total = account.total();
    for (const std::string& waits : total.waits_for())
      add(text, fmt::format("of group '{}' {} in stream '{}'", group, waits, stream.name));
  };
  for (const auto& [id, stream] : streams_)
    if (!stream.closed && stream.producer == group) tell(stream, stream.produced);
  for (const auto& [id, link] : links_)
    if (is_consumed_by(link, groups_.all().at(group)))
      tell(streams_.at(link.stream), link.consumed);
  return text;
}

std::string Rendezvous::describe_missing(const Seat& asking, std::uint64_t agreement) {
  const Group& group = *asking.group;
  const auto is_missing = [&](core::Rank rank) {
    const auto member = group.members.find(rank);
    const std::uint64_t theirs = member == group.members.end() ? 0 : member->second.agreement;
    return rank != asking.rank && !group.shares.contains(rank) && !group.left.contains(rank) &&
           !has_come(theirs, agreement);
  };
  // Ranks that have not joined are not walked through: a group may claim any number of them.
  std::size_t count =
      static_cast<std::size_t>(group.size) - group.members.size() - group.left.size();
  for (const auto& [rank, member] : group.members) count += is_missing(rank) ? 1u : 0u;
  std::string text;
  std::size_t named = 0;
  for (core::Rank rank{}; named < std::min(count, most_names); ++rank) {
    if (!is_missing(rank)) continue;
    ++named;
    const auto member = group.members.find(rank);
    add(text, member != group.members.end()
                  ? fmt::format("rank {} on host {}, pid {}", rank.value, member->second.host,
                                member->second.pid)
                  : fmt::format("rank {}, which has not joined the server", rank.value));
  }
  if (count > named) add(text, fmt::format("{} more", count - named));
  return text;
}

std::string Rendezvous::describe_missing(Owner owner) const {
  std::string text;
  for (const auto& [name, group] : groups_.all())
    if (group.owner == owner && group.left.empty() &&
        static_cast<core::RankCount>(group.members.size()) < group.size)
      add(text, fmt::format("{} of {} ranks of group '{}' have joined", group.members.size(),
                            group.size, name));
  return text;
}

}  // namespace tremula::server
