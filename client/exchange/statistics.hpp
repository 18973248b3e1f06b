// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "client/exchange/memory/traffic.hpp"

namespace tremula::client {

/// Statistics of one rank, since its stream was opened or for its last step.
struct Statistics {
  std::uint64_t steps = 0;  ///< complete
  Traffic traffic;          ///< with all peers
  double plan_seconds = 0;
  double wait_seconds = 0;    ///< blocked on the other side
  std::string transport;      ///< of the link opened last
  std::uint64_t dropped = 0;  ///< steps that did not go over a link, summed over links
  std::uint64_t queued_steps = 0, queued_bytes = 0;  ///< peaks of one link of a producer
  std::uint64_t passed = 0;  ///< complete steps that a consumer has skipped for later ones

  /// Returns the difference between these statistics and `earlier` ones.
  Statistics since(const Statistics& earlier) const {
    Statistics s = *this;
    s.steps -= earlier.steps;
    s.dropped -= earlier.dropped;
    s.passed -= earlier.passed;
    s.traffic.packages -= earlier.traffic.packages;
    s.traffic.bytes -= earlier.traffic.bytes;
    s.traffic.copied_bytes -= earlier.traffic.copied_bytes;
    s.traffic.proved_bytes -= earlier.traffic.proved_bytes;
    s.traffic.growths -= earlier.traffic.growths;
    s.traffic.copy_seconds -= earlier.traffic.copy_seconds;
    s.traffic.wire_seconds -= earlier.traffic.wire_seconds;
    s.plan_seconds -= earlier.plan_seconds;
    s.wait_seconds -= earlier.wait_seconds;
    return s;
  }
};

/// Statistics of one rank with one rank of the other side.
struct PeerStatistics {
  std::string group;
  core::Rank rank{};
  Traffic traffic;
  std::string path;  ///< path of the last part
};

/// Appends the statistics of one end of an exchange with ranks of `group`, in the order of its
/// plan.
template <class End>
void list_peers(const std::string& group, const End& end, std::vector<PeerStatistics>& peers) {
  const auto& messages = end.plan().messages;
  for (std::size_t m = 0; m < messages.size(); ++m)
    peers.push_back({group, messages[m].peer, end.traffic(m), std::string(end.path(m))});
}

}  // namespace tremula::client
