// SPDX-License-Identifier: Apache-2.0
#include "server/state/status_turns.hpp"

#include <utility>

#include "server/state/known_part.hpp"

namespace tremula::server {

void StatusTurns::add(Owner owner, ConnectionId from, const wire::ToServer& message) {
  const Ticket ticket = ++last_ticket_;
  turns_.emplace(from, Turn{owner, ticket, known_part_of(message)});
  waiting_[owner].emplace(ticket, from);
}

void StatusTurns::remove(ConnectionId from) {
  const auto turn = turns_.find(from);
  if (turn == turns_.end()) return;
  const auto its = waiting_.find(turn->second.owner);
  its->second.erase(turn->second.ticket);
  if (its->second.empty()) waiting_.erase(its);
  turns_.erase(turn);
}

std::optional<StatusTurns::Request> StatusTurns::next(double now) {
  if (waiting_.empty() || now < due_) return std::nullopt;
  auto owner = last_owner_ ? waiting_.upper_bound(*last_owner_) : waiting_.begin();
  if (owner == waiting_.end()) owner = waiting_.begin();
  last_owner_ = owner->first;
  const ConnectionId from = owner->second.begin()->second;
  Request request{from, std::move(turns_.at(from).message)};
  remove(from);
  return request;
}

}  // namespace tremula::server
