// SPDX-License-Identifier: Apache-2.0
#pragma once
// Matches the lists of a redistribution: every rank of the job is a source and a sink.
#include <memory>
#include <span>
#include <vector>

#include "client/exchange/list_messages.hpp"
#include "client/redistribute/redistribution_plan.hpp"
#include "core/deadline.hpp"
#include "core/error.hpp"
#include "transport/transport.hpp"

namespace tremula::client::redistribute {

/// Returns whether a layout of the update lists what its ranks own.
bool has_lists(const Update& update);

/// Thrown when some ranks did not join the match, or could not be notified.
class MatchFailed : public core::Error {
public:
  using core::Error::Error;
};

/// Matches the lists of all updates that have them. Collective. A failure on one rank is thrown on
/// all.
/// @param number    number of the call, the same on all ranks
/// @param endpoint  reaches the ranks of the job by their numbers
/// @return parallel to updates; empty if none has lists
/// @throws MatchFailed if not all ranks know of the failure; the endpoint cannot be used afterwards
/// @throws core::Error as match_lists
std::vector<ListedUpdate> match_updates(std::span<const Update> updates, std::uint64_t number,
                                        transport::Endpoint& endpoint, Rank me, RankCount size,
                                        core::Deadline deadline);

}  // namespace tremula::client::redistribute
