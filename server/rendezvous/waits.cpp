// SPDX-License-Identifier: Apache-2.0
// The search for circles, and the part of Rendezvous that tells of them.
#include "server/rendezvous/waits.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <compare>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "core/error.hpp"
#include "proto/convert.hpp"
#include "proto/wait_text.hpp"
#include "server/rendezvous/rendezvous.hpp"

namespace tremula::server {

namespace {

/// A wait is old when it was told over so many heartbeats.
constexpr int old_heartbeats = 3;
constexpr std::size_t most_lines = 12;

/// But for how long they have lasted.
bool is_same(wire::Wait one, wire::Wait other) {
  one.clear_seconds(), other.clear_seconds();
  return one.SerializeAsString() == other.SerializeAsString();
}

/// Returns the count that each rank has to exceed.
std::uint64_t needed_count(const wire::Wait& wait) {
  return wait.has_words() ? wait.words().count() : wait.count();
}

/// Something that ranks of a group count: agreements, turns of a link, or words about a subject.
struct Counted {
  enum class Kind { agreements, turns, words };
  const Group* group;
  Kind kind;
  std::uint64_t number = 0;  // of the link or the subject
  auto operator<=>(const Counted&) const = default;
};

/// The reports of the ranks that wait, which get numbers here. Keeps only those of their counts that some
/// rank needs.
class Reports {
public:
  struct Count {
    std::uint64_t count;
    std::size_t rank;  // number of the one that has counted it
    auto operator<=>(const Count&) const = default;
  };

  explicit Reports(const Groups& groups) : groups_(groups) {
    for (const auto& [name, group] : groups.all())
      for (const auto& [rank, member] : group.members) {
        if (member.wait == nullptr) continue;
        number_[{&group, rank}] = waiters_.size();
        waiters_.push_back({&group, rank, member.wait.get()});
      }
    for (std::size_t i = 0; i < waiters_.size(); ++i) {
      if (const auto what = needed_by(i)) needed_.push_back(*what);
      if (const auto turns = between_turns(i)) needed_.push_back(*turns);
    }
    std::ranges::sort(needed_);
    const auto same = std::ranges::unique(needed_);
    needed_.erase(same.begin(), same.end());
    columns_.resize(needed_.size());
    for (std::size_t i = 0; i < waiters_.size(); ++i) record(i);
    for (std::size_t i = 0; i < waiters_.size(); ++i)
      if (waiters_[i].wait->reported.is_for_all_ranks()) sort_for_all(i);
  }

  const std::vector<Waiter>& waiters() const { return waiters_; }
  const wire::Wait& wait(std::size_t i) const { return waiters_[i].wait->reported; }
  /// Returns the number of a rank of that group; nullopt if it does not wait.
  std::optional<std::size_t> number_of(const Group* group, core::Rank rank) const {
    const auto found = number_.find({group, rank});
    return found == number_.end() ? std::nullopt : std::optional(found->second);
  }
  /// Returns what rank `i` needs others to count more of; nullopt if it needs no such thing.
  std::optional<Counted> needed_by(std::size_t i) const {
    const wire::Wait& wait = this->wait(i);
    if (wait.incarnation() != 0) return std::nullopt;
    // All ranks of a group are needed in agreements, and for words, alone.
    if (wait.is_for_all_ranks() && wait.link() != 0) return std::nullopt;
    const Group* group = waiters_[i].group;
    if (!wait.is_for_all_ranks()) {
      const auto other = groups_.all().find(wait.group());
      if (other == groups_.all().end()) return std::nullopt;
      group = &other->second;
    }
    if (wait.has_words()) return Counted{group, Counted::Kind::words, wait.words().subject()};
    if (wait.link() == 0) return Counted{group, Counted::Kind::agreements};
    return Counted{group, Counted::Kind::turns, wait.link()};
  }
  /// Returns the turns between which all ranks make the call that rank `i` is in; nullopt if it is no such call.
  std::optional<Counted> between_turns(std::size_t i) const {
    const wire::Wait& wait = this->wait(i);
    if (!wait.is_between_turns() || wait.over() == 0) return std::nullopt;
    return Counted{waiters_[i].group, Counted::Kind::turns, wait.over()};
  }
  /// Returns how much rank `i` has counted; nullopt if it has not reported it.
  /// @pre some rank needs it
  std::optional<std::uint64_t> count(const Counted& what, std::size_t i) const {
    const auto& counts = columns_[place_of(what)].counts;
    const auto found = std::ranges::lower_bound(counts, i, {}, &Count::rank);
    if (found == counts.end() || found->rank != i) return std::nullopt;
    return found->count;
  }
  /// Returns all counts, the lowest first.
  /// @pre some rank needs it of all ranks
  const std::vector<Count>& lowest_first(const Counted& what) const {
    return columns_[place_of(what)].lowest_first;
  }

private:
  struct Column {
    std::vector<Count> counts, lowest_first;  // by rank; and by count if a rank needs it of all
  };

  std::size_t place_of(const Counted& what) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(needed_, what) - needed_.begin());
  }
  void record(std::size_t i) {
    const Group* const group = waiters_[i].group;
    const wire::Wait& told = wait(i);
    put({group, Counted::Kind::agreements}, {told.agreements(), i});
    for (const wire::Turns& turns : told.turns())
      put({group, Counted::Kind::turns, turns.link()}, {turns.count(), i});
    for (const wire::Said& said : told.said())
      put({group, Counted::Kind::words, said.subject()}, {said.count(), i});
  }
  /// Keeps the first of several counts that a rank has reported of the same.
  void put(const Counted& what, const Count& count) {
    const std::size_t place = place_of(what);
    if (place == needed_.size() || needed_[place] != what) return;
    auto& counts = columns_[place].counts;
    if (counts.empty() || counts.back().rank != count.rank) counts.push_back(count);
  }
  void sort_for_all(std::size_t i) {
    const auto what = needed_by(i);
    if (!what) return;
    Column& column = columns_[place_of(*what)];
    if (!column.lowest_first.empty()) return;
    column.lowest_first = column.counts;
    std::ranges::sort(column.lowest_first);
  }

  const Groups& groups_;
  std::vector<Waiter> waiters_;
  std::map<std::pair<const Group*, core::Rank>, std::size_t> number_;
  std::vector<Counted> needed_;  // in order, each once
  std::vector<Column> columns_;  // one for each of these
};

/// Which ranks each rank needs. Nodes are ranks that wait, by their numbers.
class Needs {
public:
  /// @param reports    must outlive this object
  /// @param is_within  only needs within a group, of calls that every rank makes in the same order
  Needs(const Reports& reports, const AwaitedBy& awaited_by, const MayWait& may_wait,
        bool is_within)
      : reports_(reports), waiters_(reports.waiters()), is_within_(is_within) {
    for (std::size_t i = 0; i < waiters_.size(); ++i)
      in_group_[waiters_[i].group->name].push_back(i);
    needed_.resize(waiters_.size()), needing_.resize(waiters_.size());
    set_up_.resize(waiters_.size());
    for (std::size_t i = 0; i < waiters_.size(); ++i) add(i, awaited_by, may_wait);
  }

  /// The numbers of the ranks in circles, and those of all that are stuck.
  /// @param without  ranks that are left out
  std::pair<std::set<std::size_t>, std::set<std::size_t>> search(
      const std::set<std::size_t>& without) {
    left_.assign(waiters_.size(), true);
    for (const auto& [group, ranks] : in_group_) left_in_[group] = ranks.size();
    for (const std::size_t i : without) left_[i] = false, --left_in_[waiters_[i].group->name];
    take_away_those_that_go_on();
    const auto stuck = those_left();
    take_away_those_not_needed();
    return {those_left(), stuck};
  }

  const std::vector<Waiter>& waiters() const { return waiters_; }
  const std::vector<std::size_t>& needed(std::size_t i) const { return needed_[i]; }
  const Awaited& awaited(std::size_t i) const {
    static const Awaited nobody;
    return set_up_[i] == nullptr ? nobody : *set_up_[i];
  }

private:
  void add(std::size_t i, const AwaitedBy& awaited_by, const MayWait& may_wait) {
    const wire::Wait& wait = waiters_[i].wait->reported;
    if (is_within_ && (wait.incarnation() != 0 || wait.link() != 0 || wait.is_after_loss())) return;
    if (wait.incarnation() != 0) {
      const auto key = std::tuple(waiters_[i].group, wait.incarnation(), wait.consumers());
      auto known = awaited_.find(key);
      if (known == awaited_.end())
        known = awaited_.emplace(key, awaited_by(*waiters_[i].group, wait)).first;
      set_up_[i] = &known->second;
      for (const std::string& group : known->second.groups) awaiting_[group].push_back(i);
      return;
    }
    const auto what = reports_.needed_by(i);
    if (!what || !may_wait(*waiters_[i].group, wait)) return;
    const std::uint64_t least = needed_count(wait);
    const auto need = [&](std::size_t other) {
      if (other == i) return;
      connect(i, other);
      if (is_within_ && has_passed(other, i)) connect(other, i);
    };
    if (wait.is_for_all_ranks()) {
      for (const auto& [count, other] : reports_.lowest_first(*what)) {
        if (needed_[i].size() >= static_cast<std::size_t>(proto::max_wait_ranks) || count > least)
          break;
        need(other);
      }
      return;
    }
    for (const int rank : wait.ranks())
      if (const auto other = reports_.number_of(what->group, core::Rank{rank}))
        if (const auto count = reports_.count(*what, *other); count && *count <= least)
          need(*other);
  }
  /// Returns whether `other`, a rank of the same group, is past the point where the call of `i` is made.
  bool has_passed(std::size_t other, std::size_t i) const {
    const auto turns = reports_.between_turns(i);
    if (!turns) return false;
    const auto theirs = reports_.count(*turns, other), here = reports_.count(*turns, i);
    if (!theirs || !here) return false;
    return *theirs > *here || (*theirs == *here && reports_.wait(other).link() == turns->number);
  }

  void connect(std::size_t i, std::size_t needed) {
    needed_[i].push_back(needed);
    needing_[needed].push_back(i);
  }
  bool is_set_up(std::size_t i) const { return waiters_[i].wait->reported.incarnation() != 0; }
  std::size_t count_left(const std::vector<std::size_t>& ranks) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(ranks, [this](std::size_t i) { return left_[i]; }));
  }
  bool is_left(const std::string& group) const {
    const auto ranks = left_in_.find(group);
    return ranks != left_in_.end() && ranks->second > 0;
  }

  /// Takes away each rank that nothing left keeps waiting, until there is none.
  void take_away_those_that_go_on() {
    // For each rank: how many of the ranks that it needs, or of the groups that it awaits, are left.
    std::vector<std::size_t> counts(waiters_.size());
    const auto is_stuck = [&](std::size_t i) {
      if (!is_set_up(i)) return counts[i] > 0;
      const auto& [groups, least] = awaited(i);
      return groups.size() >= least && groups.size() - counts[i] < least;
    };
    std::vector<std::size_t> gone;
    const auto look_at = [&](std::size_t i) {
      if (!left_[i] || is_stuck(i)) return;
      left_[i] = false;
      gone.push_back(i);
    };
    for (std::size_t i = 0; i < counts.size(); ++i)
      counts[i] = !is_set_up(i)
                      ? count_left(needed_[i])
                      : static_cast<std::size_t>(std::ranges::count_if(
                            awaited(i).groups, [this](const auto& g) { return is_left(g); }));
    for (std::size_t i = 0; i < counts.size(); ++i) look_at(i);
    while (!gone.empty()) {
      const std::size_t i = gone.back();
      gone.pop_back();
      for (const std::size_t other : needing_[i])
        if (!is_set_up(other)) --counts[other], look_at(other);
      const std::string& group = waiters_[i].group->name;
      if (--left_in_[group] > 0) continue;
      if (const auto awaiting = awaiting_.find(group); awaiting != awaiting_.end())
        for (const std::size_t other : awaiting->second) --counts[other], look_at(other);
    }
  }
  /// Takes away each rank that no rank left needs, and whose group none awaits, until there is none.
  void take_away_those_not_needed() {
    // How many that are left need each rank, or await each group.
    std::vector<std::size_t> counts(waiters_.size());
    std::map<std::string, std::size_t> of_groups;
    for (std::size_t i = 0; i < counts.size(); ++i) counts[i] = count_left(needing_[i]);
    for (const auto& [group, ranks] : awaiting_) of_groups[group] = count_left(ranks);
    std::vector<std::size_t> gone;
    const auto look_at = [&](std::size_t i) {
      if (!left_[i] || counts[i] > 0) return;
      const auto group = of_groups.find(waiters_[i].group->name);
      if (group != of_groups.end() && group->second > 0) return;
      left_[i] = false;
      gone.push_back(i);
    };
    for (std::size_t i = 0; i < counts.size(); ++i) look_at(i);
    while (!gone.empty()) {
      const std::size_t i = gone.back();
      gone.pop_back();
      for (const std::size_t other : needed_[i]) --counts[other], look_at(other);
      for (const std::string& group : awaited(i).groups)
        if (--of_groups[group] == 0)
          if (const auto ranks = in_group_.find(group); ranks != in_group_.end())
            for (const std::size_t other : ranks->second) look_at(other);
    }
  }
  std::set<std::size_t> those_left() const {
    std::set<std::size_t> numbers;
    for (std::size_t i = 0; i < left_.size(); ++i)
      if (left_[i]) numbers.insert(i);
    return numbers;
  }

  const Reports& reports_;
  const std::vector<Waiter>& waiters_;
  bool is_within_;
  std::map<std::string, std::vector<std::size_t>> in_group_;
  std::vector<std::vector<std::size_t>> needed_, needing_;
  std::map<std::tuple<const Group*, std::uint64_t, int>, Awaited> awaited_;  // of set-ups
  std::vector<const Awaited*> set_up_;                                       // null: no set-up
  std::map<std::string, std::vector<std::size_t>> awaiting_;  // set-ups, by what they await
  std::vector<bool> left_;
  std::map<std::string, std::size_t> left_in_;
};

/// Names that belong together.
class Families {
public:
  void unite(const std::string& one, const std::string& other) {
    const std::string root = root_of(one);
    parent_[root] = root_of(other);
  }
  std::string root_of(std::string name) {
    for (auto at = parent_.find(name); at != parent_.end() && at->second != name;
         at = parent_.find(name))
      name = at->second;
    return name;
  }

private:
  std::map<std::string, std::string> parent_;
};

/// One line for ranks of a group that wait for the same.
using Line = std::tuple<std::string, std::string>;  // group, what it waits for
struct OfLine {
  Owner owner = 0;
  std::set<core::Rank> ranks;
  double seconds = 0;
};

/// What groups of that key are told. A line names a stream, which others may not know of.
std::string text_for(Owner owner, const std::map<Line, OfLine>& lines) {
  std::vector<std::string> texts;
  std::size_t of_others = 0, more = 0;
  for (const auto& [line, of] : lines) {
    if (of.owner != owner) {
      ++of_others;
      continue;
    }
    if (texts.size() == most_lines) {
      ++more;
      continue;
    }
    texts.push_back(fmt::format(
        "{} of group '{}' {} {} (for {:.0f} s)", proto::ranks_text(of.ranks), std::get<0>(line),
        of.ranks.size() == 1 ? "waits" : "wait", std::get<1>(line), of.seconds));
  }
  if (more > 0) texts.push_back(fmt::format("and {} more waits", more));
  if (of_others > 0)
    texts.push_back(fmt::format("and {} {} of groups with other keys", of_others,
                                of_others == 1 ? "wait" : "waits"));
  return fmt::format("{}", fmt::join(texts, "; "));
}

/// Returns the circles in which every wait is old, with their texts.
std::vector<WaitCircle> circles_of(const Needs& needs, const std::set<std::size_t>& in_circles,
                                   const std::set<std::size_t>& stuck, double now) {
  const auto& waiters = needs.waiters();
  Families families;
  std::map<std::string, std::map<Line, OfLine>> lines;  // by the name of a group
  for (const std::size_t i : in_circles) {
    const auto& [group, rank, wait] = waiters[i];
    wire::Wait told = wait->reported;
    std::set<std::string> others;
    std::set<core::Rank> ranks;  // of those that it waits for, the ones in the circle
    for (const std::size_t other : needs.needed(i)) {
      if (!in_circles.contains(other)) continue;
      others.insert(waiters[other].group->name);
      if (waiters[other].group->name == told.group()) ranks.insert(waiters[other].rank);
    }
    for (const std::string& other : needs.awaited(i).groups) others.insert(other);
    for (const std::string& other : others) families.unite(group->name, other);
    if (told.incarnation() != 0) {
      told.set_group(fmt::format("{}", fmt::join(others, "', '")));
      told.set_what("to reach a call that opens links");
    }
    if (!ranks.empty()) {
      told.clear_ranks();
      for (const core::Rank other : ranks) told.add_ranks(other.value);
      told.set_is_for_all_ranks(false);
    }
    OfLine& of = lines[group->name][{group->name, proto::wait_text(told)}];
    of.owner = group->owner;
    of.ranks.insert(rank);
    of.seconds = std::max(of.seconds, wait->reported.seconds() + now - wait->last_reported);
  }
  std::map<std::string, std::pair<WaitCircle, std::map<Line, OfLine>>> circles;  // by their roots
  for (auto& [group, of_group] : lines) circles[families.root_of(group)].second.merge(of_group);
  for (const std::size_t i : stuck)
    if (const std::string& group = waiters[i].group->name; lines.contains(group))
      circles[families.root_of(group)].first.waiters.push_back(waiters[i]);
  for (const std::size_t i : in_circles)
    if (!waiters[i].wait->is_old) circles.erase(families.root_of(waiters[i].group->name));
  std::vector<WaitCircle> found;
  for (auto& [root, circle] : circles) {
    for (const Waiter& waiter : circle.first.waiters)
      if (const Owner owner = waiter.group->owner; !circle.first.texts.contains(owner))
        circle.first.texts.emplace(owner, proto::cut(text_for(owner, circle.second)));
    found.push_back(std::move(circle.first));
  }
  return found;
}

}  // namespace

std::vector<WaitCircle> find_circles(const Groups& groups, const AwaitedBy& awaited_by,
                                     const MayWait& may_wait, double now) {
  const Reports reports(groups);
  Needs within(reports, awaited_by, may_wait, true);
  const auto [in_own, stuck_by_own] = within.search({});
  auto found = circles_of(within, in_own, stuck_by_own, now);
  for (WaitCircle& circle : found) circle.is_of_one_group = true;
  Needs all(reports, awaited_by, may_wait, false);
  const auto [in_circles, stuck] = all.search(stuck_by_own);
  std::ranges::move(circles_of(all, in_circles, stuck, now), std::back_inserter(found));
  return found;
}

void Rendezvous::record_wait(const Seat& seat, const wire::Heartbeat& message, double now) {
  std::shared_ptr<RankWait>& wait = seat.group->members.at(seat.rank).wait;
  if (!message.has_wait()) return wait.reset();
  const bool goes_on = wait != nullptr && wait->reported.number() == message.wait().number();
  const double first_reported = goes_on ? wait->first_reported : now;
  // The last wait of a circle that becomes old lets it be told, or one that is old and tells more.
  const bool is_known = goes_on && wait->is_old && is_same(wait->reported, message.wait());
  wait.reset();  // frees its memory first
  const std::size_t bytes = sizeof(RankWait) + 2 * message.wait().SpaceUsedLong();
  const Limits& limits = settings_.limits;
  if (*seat.group->held + bytes > limits.group_bytes / 2 || *held_ + bytes > limits.held_bytes / 2)
    return;
  wait = std::make_shared<RankWait>(
      RankWait{message.wait(), first_reported, now, false, hold(*seat.group, bytes)});
  wait->is_old = now - first_reported >= old_heartbeats * settings_.heartbeat_seconds;
  are_waits_due_ = are_waits_due_ || (wait->is_old && !is_known);
}

namespace {
/// Returns whether both groups open links and one has yet to send its choices of a provider, so that neither is stuck.
bool is_about_to_choose(const Group& one, const Group& other) {
  const auto has_open_question = [](const Group& group) {
    return std::ranges::any_of(group.choices, [](const auto& choices) {
      return !choices.second.are_here && !choices.second.is_dropped;
    });
  };
  return one.opens_links() && other.opens_links() &&
         (has_open_question(one) || has_open_question(other));
}
}  // namespace

Awaited Rendezvous::awaited_by(const Group& group, const wire::Wait& wait) {
  Awaited awaited;
  std::set<std::string> groups;
  // A group with a different key is not believed to wait: it may come all the same.
  const auto is_of_owner = [&](const std::string& name) {
    const Group* const other = groups_.find(name);
    return other != nullptr && other->owner == group.owner;
  };
  for (const Subscription& s : subscriptions_) {
    if (s.consumer == group.name && s.incarnation == wait.incarnation()) {
      for (const Stream* const stream : offered(s.stream)) {
        // A consumer needs all its producers: one that goes on by itself breaks no circle through another.
        if (is_about_to_choose(group, *groups_.find(stream->producer))) continue;
        // Any group may bring a part that is missing, or serve a copy.
        if (!stream->is_covered || stream->readers_serve || !is_of_owner(stream->producer))
          return {};
        if (stream->producer != group.name && !is_linked(s, *stream))
          groups.insert(stream->producer);
      }
      awaited.least = std::max<std::size_t>(1, groups.size());
    } else if (s.consumer != group.name) {
      const Stream* const stream = open_stream(s.stream, group);
      if (stream == nullptr || stream->incarnation != wait.incarnation()) continue;
      if (!stream->is_covered || !is_of_owner(s.consumer) ||
          is_about_to_choose(group, *groups_.find(s.consumer)))
        return {};
      const auto needed = static_cast<std::size_t>(wait.consumers());
      awaited.least = needed - std::min(needed, stream->links.size());
      if (!is_linked(s, *stream)) groups.insert(s.consumer);
    }
  }
  awaited.groups.assign(groups.begin(), groups.end());
  return awaited;
}

bool Rendezvous::may_wait(const Group& group, const wire::Wait& wait) const {
  if (wait.link() == 0) {
    if (wait.group() != group.name || wait.over() == 0) return wait.group() == group.name;
    // A rank leaves an agreement over a link that has ended when it hears of the end.
    const auto over = links_.find(wait.over());
    return over != links_.end() && is_consumed_by(over->second, group) &&
           streams_.at(over->second.stream).producer != group.name;
  }
  const auto link = links_.find(wait.link());
  if (link == links_.end()) return false;
  const Stream& stream = streams_.at(link->second.stream);
  if (link->second.is_missed || stream.producer_gone) return false;  // its name may be another's
  return (stream.producer == group.name && link->second.consumer == wait.group()) ||
         (is_consumed_by(link->second, group) && stream.producer == wait.group());
}

void Rendezvous::check_waits(double now) {
  const auto circles = find_circles(
      groups_,
      [this](const Group& group, const wire::Wait& wait) { return awaited_by(group, wait); },
      [this](const Group& group, const wire::Wait& wait) { return may_wait(group, wait); }, now);
  for (const auto& [texts, waiters, is_of_one_group] : circles) {
    for (const auto& [owner, text] : texts)
      log(fmt::format("{} text={}", is_of_one_group ? "different_calls" : "deadlock", text));
    for (const auto& [group, rank, wait] : waiters) {
      wire::ToClient notice;
      notice.mutable_deadlock()->set_wait(wait->reported.number());
      notice.mutable_deadlock()->set_text(texts.at(group->owner));
      notice.mutable_deadlock()->set_is_of_one_group(is_of_one_group);
      output_.messages.push_back({group->members.at(rank).connection, std::move(notice)});
    }
  }
}

wire::ToClient Rendezvous::wait_status(double now, const wire::StatusPlace& from,
                                       Owner asking) const {
  wire::ToClient answer;
  wire::Status& out = *answer.mutable_status();
  out.set_version(settings_.version);
  out.set_listens_on(settings_.listens_on);
  out.set_uptime_seconds(now);
  std::size_t room = settings_.limits.page_bytes;
  const auto& groups = groups_.all();
  for (auto group = groups.lower_bound(from.name()); group != groups.end(); ++group) {
    if (asking != 0 && group->second.owner != asking) continue;
    const auto& members = group->second.members;
    auto member = group->first == from.name()
                      ? members.lower_bound(core::to_rank(
                            std::min<std::uint64_t>(from.after(), proto::max_group_size)))
                      : members.begin();
    for (; member != members.end(); ++member) {
      if (member->second.wait == nullptr) continue;
      const RankWait& wait = *member->second.wait;
      wire::WaitStatus row;
      row.set_group(group->first);
      row.set_rank(member->first.value);
      row.set_host(member->second.host);
      row.set_pid(member->second.pid);
      *row.mutable_wait() = wait.reported;
      row.mutable_wait()->clear_turns();
      row.mutable_wait()->clear_said();
      row.mutable_wait()->set_seconds(wait.reported.seconds() + now - wait.last_reported);
      const std::size_t bytes = row.ByteSizeLong() + 8;
      if (bytes > room && out.waits_size() > 0) {
        answer.mutable_next_status()->set_part(wire::StatusPlace::waits);
        answer.mutable_next_status()->set_name(group->first);
        answer.mutable_next_status()->set_after(static_cast<std::uint64_t>(member->first.value));
        return answer;
      }
      room -= std::min(room, bytes);
      *out.add_waits() = std::move(row);
    }
  }
  return answer;
}

}  // namespace tremula::server
