// SPDX-License-Identifier: Apache-2.0
#pragma once
// The step ledger: the progress that the ranks of a stream report. Used only for status; credits go
// from rank to rank and do not wait for it.
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
  explicit Account(core::Rank ranks, double now = 0) : ranks_(ranks), opened_(now) {}

  /// Replaces the earlier report of the rank: counters are sums since the stream was opened. Ignores a
  /// report of a rank that the group does not have.
  /// @param now  seconds since the server started
  void record(core::Rank rank, const wire::Counters& counters, double now = 0);

  bool has_report(core::Rank rank) const { return reports_.contains(rank); }
  /// Counts the memory of the rank's report; called before record().
  void keep(core::Rank rank, Hold held) {
    if (rank < ranks_) reports_[rank].held = std::move(held);
  }

  /// Returns the reports of all ranks as one. steps: the least of all ranks, i.e. complete on every
  /// rank; packages, bytes, copied_bytes, queued_bytes: sum over ranks; dropped, queued_steps: the most of
  /// all ranks; seconds of waits, plans, copies and the wire: the longest of all ranks; waits_for: one text
  /// for each group that ranks wait for, most ranks first, at most 16; time: the least of all ranks, if
  /// all have one; reported_seconds: the mean of all ranks, so that the bytes that all of them have moved
  /// between two such moments can be divided by the time between.
  wire::StepStatus total() const;

  /// Adds the report of every rank that has made one; the last ones, for which `room` is too small, are only counted.
  /// @param room  bytes that may be added to the message; reduced by those that are
  void list(wire::StepStatus& status, std::size_t& room) const;

private:
  struct Report {
    wire::RankStatus entry;
    double at = 0;
    Hold held{};
  };
  core::Rank ranks_;
  double opened_;
  std::map<core::Rank, Report> reports_;
};

/// Returns how many steps a producer may have sent over a link: `queue_depth` more than the slowest
/// rank of the consumer has taken.
std::uint64_t credit(const wire::StepStatus& consumed, int queue_depth);

}  // namespace tremula::server
