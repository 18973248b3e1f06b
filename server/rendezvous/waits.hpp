// SPDX-License-Identifier: Apache-2.0
#pragma once
// Circles of ranks that wait for each other. Pure.
//
// A rank that waits has told what it needs (wire::Wait): that each of some ranks counts more than n,
// of turns of a link, of agreements of its group or of words about a subject; or that other groups come
// to a call that opens links. And how far it has come itself, as the same numbers. A rank that waits in
// a call with a time limit, or computes, or is stopped in a debugger outside such a call, has told
// nothing.
//
// Definition. A set of ranks is stuck if each has told a wait, and needs of another one of the set
// what that one, by its own numbers, has not done.
//
// Statement. No rank of a stuck set goes on, unless a call fails, whenever each told its wait.
// Proof. Let r be the first that goes on after it told its wait, at a time t. Then a rank q of the set
// has done by t what r needed of it, though q has told, at a time u, a number that says it had not.
// If u >= t, q's number would have fallen, which numbers do not do. If u < t, q has done something
// after it told its wait, so it went on before r did.
//
// So the age of what was told does not matter, nor what is on its way: bytes that were sent are
// counted by the rank that sent them. That a circle is told only when each wait in it was told over
// several heartbeats lets the text name all ranks, and is a precaution besides.
//
// The largest stuck set is what is left when ranks are taken away that need nothing of those left. Its
// circles are what is left of it when ranks are taken away of which nobody left needs anything.
//
// A circle within one group means that its ranks make different calls: if all made the same calls in
// the same order, the rank in the earliest call would wait for no other. Calls that wait for the group
// only because their rank has lost a producer are left out, since other ranks may not know of the loss.
// Two ranks count as such a circle, too: one in a call that every rank makes between the same turns of a
// link, and one that has not come to that call but has taken another turn, or waits for it. The second
// may go on, but the first waits in vain.
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "server/state/groups.hpp"

namespace tremula::server {

/// What a set-up waits for: that so many of these groups come. More than there are: others may come.
struct Awaited {
  std::vector<std::string> groups;
  std::size_t least = 1;
};
using AwaitedBy = std::function<Awaited(const Group&, const wire::Wait&)>;
/// Whether what a rank of the group has told is a wait that it can have.
using MayWait = std::function<bool(const Group&, const wire::Wait&)>;

/// A rank that waits.
struct Waiter {
  const Group* group;
  core::Rank rank;
  const RankWait* wait;
};

/// Groups that wait for each other.
struct WaitCircle {
  /// For groups of each key: a line for each kind of wait in it, those of other keys being counted.
  std::map<Owner, std::string> texts;
  std::vector<Waiter> waiters;   ///< all ranks of its groups that are stuck
  bool is_of_one_group = false;  ///< its ranks make different calls
};

/// Returns the circles in which every wait is old: first those within a group, then those of all other
/// ranks, where groups that have to do with each other make one circle.
/// Cost: one pass over all reports, in which counts that no rank needs take no memory; then at most 64
/// ranks for each wait, and the awaited groups for each set-up.
/// @param awaited_by  asked once for each group and incarnation
/// @param now         seconds, as of first_reported
std::vector<WaitCircle> find_circles(const Groups& groups, const AwaitedBy& awaited_by,
                                     const MayWait& may_wait, double now);

}  // namespace tremula::server
