// SPDX-License-Identifier: Apache-2.0
#pragma once
// The step ledger: the progress that the ranks of a stream report. Used only for status: ranks send
// credits to each other directly, and these do not wait for the ledger.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "core/types.hpp"
#include "proto/control.pb.h"
#include "server/state/quotas.hpp"

namespace tremula::server {

/// The reports of one group on one stream, as its producer, or as its consumer over one link. Takes
/// memory only for ranks that have reported.
class Account {
public:
  /// @param now  as in record()
  explicit Account(core::RankCount ranks, double now = 0) : ranks_(ranks), opened_(now) {}

  /// Replaces the earlier report of the rank: counters are sums since the stream was opened. Ignores a
  /// report of a rank that the group does not have.
  /// @param now  seconds since the server started
  void record(core::Rank rank, const wire::Counters& counters, double now = 0);

  bool has_report(core::Rank rank) const { return reports_.contains(rank); }
  /// Counts the memory of the rank's report; called before record().
  void keep(core::Rank rank, Hold held) {
    if (rank.value < ranks_) reports_[rank].held = std::move(held);
  }

  /// Returns the combined report of all ranks:
  /// - steps: the least of all ranks, i.e. steps that are complete on every rank
  /// - packages, bytes, copied_bytes, queued_bytes: the sum over all ranks
  /// - dropped, queued_steps: the most of all ranks
  /// - wait_seconds, plan_seconds, copy_seconds, wire_seconds: the longest of all ranks
  /// - waits_for: one text for each group that ranks wait for, most ranks first, at most 16
  /// - time: the least of all ranks, if all have one
  /// - reported_seconds: the mean over all ranks, so that the bytes moved between two reports can be
  ///   divided by the time between them
  wire::StepStatus total() const;

  /// Adds the reports of the ranks that have reported. Reports for which no room is left are only counted.
  /// @param room  how many bytes may be added to the message; reduced by the bytes that are added
  void list(wire::StepStatus& status, std::size_t& room) const;

private:
  struct Report {
    wire::RankStatus entry;
    double at = 0;
    Hold held{};
  };
  core::RankCount ranks_;
  double opened_;
  std::map<core::Rank, Report> reports_;
};

/// Returns how many steps a producer may have sent over a link: `queue_depth` more than the slowest
/// rank of the consumer has taken.
std::uint64_t credit(const wire::StepStatus& consumed, int queue_depth);

}  // namespace tremula::server
