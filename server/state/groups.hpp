// SPDX-License-Identifier: Apache-2.0
#pragma once
// Groups, their ranks and the connections of the ranks. Pure: time is an argument, in seconds since
// an arbitrary moment.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/types.hpp"
#include "proto/control.pb.h"
#include "server/state/output.hpp"
#include "server/state/quotas.hpp"

namespace tremula::server {

/// The most recent wait that a rank has reported.
struct RankWait {
  wire::Wait reported;  ///< the last report of the wait
  double first_reported = 0,
         last_reported = 0;  ///< when the wait was first reported, and when last
  bool is_old = false;       ///< the rank has reported it over several heartbeats
  Hold held{};
};

/// A rank that is connected.
struct Member {
  ConnectionId connection = 0;
  std::string host;
  std::int64_t pid = 0;
  double since = 0;
  double last_heard = 0;
  double silence = 0;                ///< seconds that it may be silent; 0: the server's usual limit
  std::uint64_t agreement = 0;       ///< the agreement in which it waits for others; 0: none
  std::shared_ptr<RankWait> wait{};  ///< null if it has reported none; shared by all copies
};

/// The bytes that one rank has passed to a collective call that other ranks have not reached yet.
struct PendingShare {
  std::uint64_t request = 0;
  std::string bytes;
  Hold held;
};

/// A notice for ranks that have not returned yet.
struct MissedNotice {
  std::shared_ptr<const wire::ToClient> notice;
  Hold held;
};
/// The reason why a stream of a returning group ended before its Resume.
struct GaveUp {
  std::string why;
  Hold held;
};

/// Number of the key that a connection has proved. The group that the connection joins, and the streams
/// that this group announces, belong to that key. The first key is the operator's: a status for it shows
/// everything.
using Owner = std::uint32_t;

/// The choices of an offer of a group.
struct OfferChoices {
  double asked = 0;                 ///< when the server first asked for them
  bool is_dropped = false;          ///< the group began another call without answering: ask again
  bool are_here = false;            ///< the answer has arrived
  std::vector<std::string> list{};  ///< best first
  std::string why_none{};
  Hold held{};
};

struct Group {
  std::string name;
  Owner owner = 0;
  std::string job;
  core::RankCount size = 0;
  std::string host;  ///< host of the rank seen first; pid and since are also of that rank
  std::int64_t pid = 0;
  double since = 0;
  bool is_back = false;     ///< it had joined an earlier server: all its ranks must return
  bool is_resumed = false;  ///< rank 0 has reported what the group has
  /// Time of the newest seal of its name that its ranks have shown; 0 if they have shown none.
  std::uint64_t shown = 0;
  std::map<core::Rank, Member> members;
  std::set<core::Rank> left;  ///< ranks that have said goodbye
  core::Rank first_left{};    ///< the first of these to say goodbye
  /// The last agreement that each rank of `left` reported, without ranks that reported none.
  std::map<core::Rank, std::uint64_t> left_in{};
  std::map<std::string, OfferChoices> choices{};  ///< by the offer
  bool was_linked = false;  ///< one of its streams, or of its subscriptions, was linked
  /// Notices sent to all its ranks since the first rank returned, in order; empty once all have returned.
  std::vector<MissedNotice> missed{};
  std::size_t missed_bytes = 0;
  /// Streams that ranks gave up before rank 0 reported them, and streams whose names other groups have taken, by
  /// incarnation; empty once the group is resumed.
  std::map<std::uint64_t, GaveUp> gave_up{};
  double empty_since = 0;  ///< when the last of the returned ranks left
  /// Result of the last Groups::has_missed: a rank that had missed heartbeats, and the time until
  /// which no rank can have missed any.
  mutable core::Rank missed_by{};
  mutable double none_missed_until = -1;
  std::uint64_t rounds = 0;  ///< number of complete Share rounds
  std::map<core::Rank, PendingShare> shares;
  std::size_t share_bytes = 0;  ///< bytes of these shares, even if they were dropped as too many
  /// Bytes that its streams, links, subscriptions, shares, counters, choices and waits take, including everything kept
  /// for its return.
  std::shared_ptr<std::size_t> held = std::make_shared<std::size_t>(0);
  bool lacks_counters = false;  ///< there was no room for the counters of some rank
  /// True while all its ranks are in a call that opens links, as rank 0 has reported.
  bool is_present = false;
  /// Incarnation of its own stream whose next step that call begins; 0 if it begins none.
  std::uint64_t begins = 0;

  /// Returns whether some of its ranks have not returned yet from an earlier server.
  bool is_awaited() const {
    return is_back && members.size() + left.size() < static_cast<std::size_t>(size);
  }
  /// Returns whether its links can be opened now: all its ranks must be connected to be notified of them.
  bool opens_links() const { return is_present && !is_awaited(); }
};

/// The rank of one connection.
struct Seat {
  Group* group;
  core::Rank rank;
};

class Groups {
public:
  /// Adds a rank; the first rank creates the group.
  /// @pre !is_leaving(hello)
  /// @pre the name is free, or a group of that owner holds it
  /// @throws core::Error refused naming the job that holds the name or the rank and since when, or
  /// the sizes that differ
  Seat join(ConnectionId from, const wire::Hello& hello, double now, Owner owner = 0);
  /// Returns whether a rank of the group of that name has said goodbye and others have not, so that the name
  /// will soon be free; false for a rank that the group still awaits.
  bool is_leaving(const wire::Hello& hello) const;
  /// Returns whether `hello` would be refused because of a rank that has missed heartbeats, and that will
  /// soon send a heartbeat or be lost. This is any rank of another job that holds the name, or the rank of
  /// the same job with that number.
  /// @param seconds  silence that counts as missed heartbeats
  /// @param usual    as in find_silent
  bool may_be_lost(const wire::Hello& hello, double now, double seconds, double usual) const;
  /// Returns whether a rank of the group has been silent for `seconds`. While no rank has, examines
  /// all ranks at most once in that time.
  static bool has_missed(const Group& group, double now, double seconds, double usual);
  /// Records that the rank has said goodbye.
  /// @return true if it was the last connected rank
  bool leave(ConnectionId from);
  /// Removes the group and frees its name; the connections of its ranks no longer have a seat.
  void remove(const std::string& name);

  bool has_seat(ConnectionId connection) const { return memberships_.contains(connection); }
  std::optional<Seat> seat(ConnectionId connection);
  /// Returns the group of that name; null if there is none.
  Group* find(const std::string& name);
  const std::map<std::string, Group>& all() const { return groups_; }

  /// Records that bytes have arrived from the connection.
  void record_heard(ConnectionId from, double now);
  /// Returns, for each group that has one, a rank that has been silent for longer than its limit.
  /// @param usual  limit in seconds for ranks that have not stated how long they may be silent
  std::vector<Seat> find_silent(double now, double usual);

private:
  std::map<std::string, Group> groups_;
  struct Membership {
    std::string group;
    core::Rank rank;
  };
  std::unordered_map<ConnectionId, Membership> memberships_;
};

}  // namespace tremula::server
