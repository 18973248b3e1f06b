// SPDX-License-Identifier: Apache-2.0
#include "server/state/ledger.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace tremula::server {

namespace {
constexpr std::size_t most_waits = 16;
}

void Account::record(core::Rank rank, const wire::Counters& counters, double now) {
  if (rank.value < 0 || rank.value >= ranks_) return;
  Report& report = reports_[rank];
  report.at = now;
  wire::RankStatus& entry = report.entry;
  entry.set_rank(rank.value);
  entry.set_steps(counters.steps());
  entry.set_packages(counters.packages());
  entry.set_bytes(counters.bytes());
  entry.set_copied_bytes(counters.copied_bytes());
  entry.set_wait_seconds(counters.wait_seconds());
  entry.set_plan_seconds(counters.plan_seconds());
  entry.set_copy_seconds(counters.copy_seconds());
  entry.set_wire_seconds(counters.wire_seconds());
  entry.set_waits_for(counters.waits_for());
  entry.set_dropped(counters.dropped());
  entry.set_queued_steps(counters.queued_steps());
  entry.set_queued_bytes(counters.queued_bytes());
  if (counters.has_time()) entry.set_time(counters.time());
}

void Account::list(wire::StepStatus& status, std::size_t& room) const {
  for (const auto& [rank, report] : reports_) {
    const std::size_t bytes = report.entry.ByteSizeLong() + 8;  // 8: its tag and length
    if (bytes > room) break;
    room -= bytes;
    *status.add_ranks() = report.entry;
  }
  status.set_ranks_left_out(static_cast<core::RankCount>(reports_.size()) - status.ranks_size());
}

wire::StepStatus Account::total() const {
  const double silent = static_cast<double>(ranks_) - static_cast<double>(reports_.size());
  std::uint64_t steps = silent > 0 ? 0 : std::numeric_limits<std::uint64_t>::max();
  std::uint64_t packages = 0, bytes = 0, copied_bytes = 0, dropped = 0, queued_steps = 0,
                queued_bytes = 0;
  double reported_seconds = silent * opened_;
  double wait_seconds = 0, plan_seconds = 0, copy_seconds = 0, wire_seconds = 0;
  std::optional<std::int64_t> time;
  bool have_all_time = silent <= 0;
  std::map<std::string, int> waiting;
  for (const auto& [rank, report] : reports_) {
    const wire::RankStatus& entry = report.entry;
    reported_seconds += report.at;
    steps = std::min(steps, entry.steps());
    packages += entry.packages();
    bytes += entry.bytes();
    copied_bytes += entry.copied_bytes();
    dropped = std::max(dropped, entry.dropped());
    queued_steps = std::max(queued_steps, entry.queued_steps());
    queued_bytes += entry.queued_bytes();
    wait_seconds = std::max(wait_seconds, entry.wait_seconds());
    plan_seconds = std::max(plan_seconds, entry.plan_seconds());
    copy_seconds = std::max(copy_seconds, entry.copy_seconds());
    wire_seconds = std::max(wire_seconds, entry.wire_seconds());
    have_all_time = have_all_time && entry.has_time();
    time = std::min(time.value_or(entry.time()), entry.time());
    if (!entry.waits_for().empty()) ++waiting[entry.waits_for()];
  }
  std::vector<std::pair<std::string, int>> most_first(waiting.begin(), waiting.end());
  std::ranges::stable_sort(most_first, std::greater{}, &std::pair<std::string, int>::second);
  if (most_first.size() > most_waits) most_first.resize(most_waits);

  wire::StepStatus out;
  out.set_steps(steps);
  out.set_packages(packages);
  out.set_bytes(bytes);
  out.set_wait_seconds(wait_seconds);
  out.set_plan_seconds(plan_seconds);
  out.set_copied_bytes(copied_bytes);
  out.set_dropped(dropped);
  out.set_queued_steps(queued_steps);
  out.set_queued_bytes(queued_bytes);
  if (have_all_time && time) out.set_time(*time);
  out.set_copy_seconds(copy_seconds);
  out.set_wire_seconds(wire_seconds);
  out.set_reported_seconds(reported_seconds / static_cast<double>(ranks_));
  for (const auto& [group, ranks] : most_first)
    out.add_waits_for(fmt::format("{} of {} {} for {}", ranks, ranks_,
                                  ranks_ == 1 ? "rank waits" : "ranks wait", group));
  return out;
}

std::uint64_t credit(const wire::StepStatus& consumed, int queue_depth) {
  return consumed.steps() + static_cast<std::uint64_t>(queue_depth);
}

}  // namespace tremula::server
