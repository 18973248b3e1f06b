// SPDX-License-Identifier: Apache-2.0
#pragma once
// Circles of ranks that wait for each other. Pure.
//
// A rank that waits has reported what it needs (wire::Wait): that each of some ranks counts more
// than n turns of a link, agreements of its group or words about a subject; or that other groups
// reach a call that opens links. It has also reported how far it has come itself, in the same
// numbers. A rank that waits in a call with a time limit, or computes, or is stopped in a debugger
// outside such a call, has reported nothing.
//
// Definition. A set of ranks is stuck if each of them has reported a wait, and needs from another
// rank of the set something that the other, by its own numbers, has not done.
//
// Statement. No rank of a stuck set proceeds, unless a call fails, whenever each reported its wait.
// Proof. Let r be the first that proceeds after it reported its wait, at a time t. Then a rank q of
// the set has done by t what r needed from it, although q has reported, at a time u, a number that
// says it had not. If u >= t, q's number would have fallen, which numbers do not do. If u < t, q
// has done something after it reported its wait, so it proceeded before r did.
//
// So neither the age of the reports nor data in flight matters: bytes that were sent are counted by
// the rank that sent them. A circle is reported only once each wait in it has been reported over
// several heartbeats: this lets the text name all ranks, and is a precaution as well.
//
// The largest stuck set remains when ranks are removed, one after the other, that need nothing from
// those that remain. Its circles remain when ranks are removed from which no remaining rank needs
// anything.
//
// A circle within one group means that its ranks make different calls: if all made the same calls in
// the same order, the rank in the earliest call would wait for no other. Calls that wait for the group
// only because their rank has lost a producer are left out, since other ranks may not know of the loss.
// Two ranks also count as such a circle if one is in a call that every rank makes between the same
// turns of a link, and the other has not come to that call but has taken another turn, or waits for
// one. The second may proceed, but the first waits in vain.
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "server/state/groups.hpp"

namespace tremula::server {

/// A set-up waits until `least` of `groups` have arrived. If `least` exceeds the list, groups not
/// listed count too.
struct Awaited {
  std::vector<std::string> groups;
  std::size_t least = 1;
};
using AwaitedBy = std::function<Awaited(const Group&, const wire::Wait&)>;
/// Returns whether a rank of the group can have the wait that it has reported.
using MayWait = std::function<bool(const Group&, const wire::Wait&)>;

/// A rank that waits.
struct Waiter {
  const Group* group;
  core::Rank rank;
  const RankWait* wait;
};

/// Groups that wait for each other.
struct WaitCircle {
  /// Text for the groups of each key: a line for each kind of wait; waits of other keys are only
  /// counted.
  std::map<Owner, std::string> texts;
  std::vector<Waiter> waiters;   ///< all ranks of its groups that are stuck
  bool is_of_one_group = false;  ///< its ranks make different calls
};

/// Returns the circles in which every wait is old: first those within a group, then those of all other
/// ranks, where groups that wait for each other make one circle.
/// Cost: one pass over all reports, in which counts that no rank needs take no memory; then at most 64
/// ranks for each wait, and the awaited groups for each set-up.
/// @param awaited_by  asked once for each group and incarnation
/// @param now         seconds, by the clock of RankWait::first_reported
std::vector<WaitCircle> find_circles(const Groups& groups, const AwaitedBy& awaited_by,
                                     const MayWait& may_wait, double now);

}  // namespace tremula::server
