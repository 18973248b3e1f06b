// SPDX-License-Identifier: Apache-2.0
#include "server/state/groups.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"

namespace tremula::server {

namespace {

[[noreturn]] void refuse(const std::string& text) { throw core::Error(core::Errc::refused, text); }

void check_may_join(const Group& group, const wire::Hello& hello, double now) {
  if (group.job != hello.job())
    refuse(fmt::format(
        "group '{}': the name is held by another job on host {}, pid {}, which joined {:.0f} s ago "
        "({} of {} ranks connected); choose another name or end that job",
        group.name, group.host, group.pid, now - group.since, group.members.size(), group.size));
  if (group.size != hello.size())
    refuse(fmt::format(
        "group '{}', rank {}: expected size {}, as stated by its first rank on host "
        "{}, pid {}; found {}; start all ranks with the same size, or choose another name if "
        "they belong to two jobs",
        group.name, hello.rank(), group.size, group.host, group.pid, hello.size()));
  if (const auto taken = group.members.find(core::Rank{hello.rank()});
      taken != group.members.end()) {
    const Member& holder = taken->second;
    const std::string held =
        fmt::format("group '{}': rank {} is held by host {}, pid {}, which joined {:.0f} s ago",
                    group.name, hello.rank(), holder.host, holder.pid, now - holder.since);
    if (holder.host == hello.host() && holder.pid == hello.pid())
      refuse(held +
             "; found a second session with the same host and pid; close the first one, which may "
             "be of an earlier run of the same code, or choose another name or rank");
    refuse(fmt::format(
        "{}; found a second one on host {}, pid {}; end the first one if it is left over, or "
        "choose another name for another job; give every process of a job its own rank, and each "
        "job that uses this group name its own TREMULA_JOB",
        held, hello.host(), hello.pid()));
  }
}

bool is_silent(const Member& member, double now, double seconds, double usual) {
  return now - member.last_heard > seconds && member.silence <= usual;
}

}  // namespace

Seat Groups::join(ConnectionId from, const wire::Hello& hello, double now, Owner owner) {
  if (const auto held = groups_.find(hello.group()); held != groups_.end())
    check_may_join(held->second, hello, now);
  const auto [place, is_new] = groups_.try_emplace(hello.group());
  Group& group = place->second;
  if (is_new) {
    group.name = hello.group();
    group.owner = owner;
    group.job = hello.job();
    group.size = hello.size();
    group.host = hello.host();
    group.pid = hello.pid();
    group.since = now;
    group.is_back = hello.left_server() != 0;
  }
  const core::Rank rank{hello.rank()};
  group.members[rank] = {.connection = from,
                         .host = hello.host(),
                         .pid = hello.pid(),
                         .since = now,
                         .last_heard = now,
                         .silence = hello.silence_seconds()};
  memberships_[from] = {hello.group(), rank};
  return {&group, rank};
}

bool Groups::is_leaving(const wire::Hello& hello) const {
  const auto it = groups_.find(hello.group());
  if (it == groups_.end() || it->second.left.empty()) return false;
  const Group& group = it->second;
  const bool comes_back = hello.left_server() != 0 && group.is_awaited() &&
                          group.job == hello.job() && group.size == hello.size() &&
                          !group.left.contains(core::Rank{hello.rank()});
  return !comes_back;
}

bool Groups::may_be_lost(const wire::Hello& hello, double now, double seconds, double usual) const {
  const auto it = groups_.find(hello.group());
  if (it == groups_.end()) return false;
  const Group& group = it->second;
  if (group.job != hello.job()) return has_missed(group, now, seconds, usual);
  const auto holder = group.members.find(core::Rank{hello.rank()});
  return holder != group.members.end() && is_silent(holder->second, now, seconds, usual);
}

bool Groups::has_missed(const Group& group, double now, double seconds, double usual) {
  const auto known = group.members.find(group.missed_by);
  if (known != group.members.end() && is_silent(known->second, now, seconds, usual)) return true;
  if (now <= group.none_missed_until) return false;
  double earliest = now;  // oldest sign of life among the ranks that may be lost
  for (const auto& [rank, member] : group.members) {
    if (is_silent(member, now, seconds, usual)) {
      group.missed_by = rank;
      return true;
    }
    if (member.silence <= usual) earliest = std::min(earliest, member.last_heard);
  }
  group.none_missed_until = earliest + seconds;
  return false;
}

bool Groups::leave(ConnectionId from) {
  const auto place = seat(from);
  if (!place) return false;
  memberships_.erase(from);
  Group& group = *place->group;
  const std::uint64_t agreement = group.members.at(place->rank).agreement;
  if (agreement != 0) group.left_in[place->rank] = agreement;
  group.members.erase(place->rank);
  if (group.left.empty()) group.first_left = place->rank;
  group.left.insert(place->rank);
  return group.members.empty();
}

void Groups::remove(const std::string& name) {
  const auto it = groups_.find(name);
  if (it == groups_.end()) return;
  for (const auto& [rank, member] : it->second.members) memberships_.erase(member.connection);
  groups_.erase(it);
}

std::optional<Seat> Groups::seat(ConnectionId connection) {
  const auto it = memberships_.find(connection);
  if (it == memberships_.end()) return std::nullopt;
  return Seat{&groups_.at(it->second.group), it->second.rank};
}

Group* Groups::find(const std::string& name) {
  const auto it = groups_.find(name);
  return it == groups_.end() ? nullptr : &it->second;
}

void Groups::record_heard(ConnectionId from, double now) {
  if (const auto place = seat(from)) place->group->members.at(place->rank).last_heard = now;
}

std::vector<Seat> Groups::find_silent(double now, double usual) {
  std::vector<Seat> out;
  for (auto& [name, group] : groups_)
    for (const auto& [rank, member] : group.members)
      if (now - member.last_heard > (member.silence > 0 ? member.silence : usual)) {
        out.push_back({&group, rank});
        break;
      }
  return out;
}

}  // namespace tremula::server
