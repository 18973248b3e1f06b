// SPDX-License-Identifier: Apache-2.0
#pragma once
// The step ledger: what the ranks of a stream say they have done. It keeps the books; credits go
// from rank to rank and do not wait for it.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/types.hpp"
#include "proto/control.pb.h"

namespace tremula::server {

/// The books of one group's part in one stream: as producer, or as consumer over one link.
class Account {
public:
  explicit Account(core::Rank ranks);

  /// Takes the place of what the rank has said before: counters are sums since the stream was
  /// opened.
  /// @pre 0 <= rank < ranks
  void record(core::Rank rank, const wire::Counters& counters);

  /// steps: complete on every rank, so the least of all; packages, bytes, copied_bytes: sum;
  /// seconds: longest of any rank; waits_for: one text for each group that ranks wait for, most
  /// ranks first.
  wire::StepStatus total() const;

  /// Adds what every rank has said; the last ones, for which `room` is too small, are counted.
  /// @param room  bytes of message that it may take; less what it has taken
  void list(wire::StepStatus& status, std::size_t& room) const;

private:
  std::vector<wire::RankStatus> entries_;  // [rank]
};

/// Steps that a producer may have sent over a link: it runs at most `queue_depth` steps ahead of
/// its slowest rank over there.
std::uint64_t credit(const wire::StepStatus& consumed, int queue_depth);

}  // namespace tremula::server
