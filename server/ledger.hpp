// SPDX-License-Identifier: Apache-2.0
#pragma once
// The step ledger: what the ranks of a stream report that they have done. Only for status; credits
// go from rank to rank and do not wait for it.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/types.hpp"
#include "proto/control.pb.h"

namespace tremula::server {

/// What one group has done in one stream: as producer, or as consumer over one link.
class Account {
public:
  /// @param now  as of record()
  explicit Account(core::Rank ranks, double now = 0);

  /// Replaces the earlier report of the rank: counters are sums since the stream was opened.
  /// @param now  seconds since the server started
  /// @pre 0 <= rank < ranks
  void record(core::Rank rank, const wire::Counters& counters, double now = 0);

  /// steps: the least of all ranks, i.e. complete on every rank; packages, bytes, copied_bytes: sum
  /// over ranks; seconds: the longest of all ranks; waits_for: one text for each group that ranks
  /// wait for, most ranks first; reported_seconds: the mean of all ranks, so that what all of
  /// them have moved between two such moments can be divided by the time between.
  wire::StepStatus total() const;

  /// Adds the report of every rank; the last ones, for which `room` is too small, are counted.
  /// @param room  bytes that it may add to the message; reduced by what it has added
  void list(wire::StepStatus& status, std::size_t& room) const;

private:
  std::vector<wire::RankStatus> entries_;  // [rank]
  std::vector<double> reported_;           // [rank]
};

/// Steps that a producer may have sent over a link: at most `queue_depth` more than the slowest
/// rank of the consumer has taken.
std::uint64_t credit(const wire::StepStatus& consumed, int queue_depth);

}  // namespace tremula::server
