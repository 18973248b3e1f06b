// SPDX-License-Identifier: Apache-2.0
#include "client/stream/consumers/consumer_links.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "proto/control.pb.h"

namespace tremula::client {

using core::Errc, core::Error;

namespace {
void add(Statistics& statistics, const Source& exchange) {
  statistics.traffic += exchange.traffic();
  statistics.dropped += exchange.dropped();
  statistics.queued_steps = std::max(statistics.queued_steps, exchange.most_steps());
  statistics.queued_bytes = std::max(statistics.queued_bytes, exchange.most_bytes());
}
}  // namespace

std::span<const std::vector<Index>> ConsumerLinks::counts_over(
    const Link& link, std::span<const std::vector<Index>> counts) {
  if (counts.empty()) return {};
  counts_.resize(link.mine.size());
  for (std::size_t f = 0; f < counts.size(); ++f)
    if (const auto number = link.number_of[f]) counts_[*number] = counts[f];
  return counts_;
}

bool ConsumerLinks::feed(Open& open) {
  const auto end = std::min(open.first_step, step_);
  for (; open.next_kept < end && open.exchange->poll_slot(); ++open.next_kept) {
    const KeptSteps::Step& kept = kept_.get(open.next_kept);
    for (std::size_t f = 0; f < fields_.size(); ++f)
      if (const auto number = open.link.number_of[f])
        open.exchange->put(open.next_kept, *number, std::span(kept.arrays[f]), false);
    open.exchange->send(open.next_kept, {.time = kept.time,
                                         .attributes = kept.attributes,
                                         .counts = counts_over(open.link, kept.counts)});
  }
  return open.next_kept >= end;
}

void ConsumerLinks::put(std::size_t field, ConstMemoryView array, bool may_lend) {
  const auto hold = session_.progress().hold();
  kept_.put(step_, field, host_bytes(array));
  for (Open& open : links_) {
    if (!takes_step(open)) continue;
    try {
      if (const auto number = open.link.number_of[field])
        open.exchange->put(step_, *number, array, may_lend);
    } catch (...) {
      keep_failure(open);
    }
  }
}

void ConsumerLinks::check_rows(std::span<const std::vector<Index>> counts) const {
  for (const Open& open : links_)
    for (std::size_t f = 0; f < counts.size(); ++f) {
      const auto number = open.link.number_of[f];
      const auto& fields = open.exchange->plan().fields;
      if (!number || !fields[*number].changing || !fields[*number].changing->has_key()) continue;
      const auto& rows = counts[f];
      const auto key = std::ranges::find(open.link.number_of, fields[*number].changing->key) -
                       open.link.number_of.begin();
      const auto& keys = counts[static_cast<std::size_t>(key)];
      const auto differs = std::ranges::mismatch(rows, keys).in1 - rows.begin();
      if (rows == keys) continue;
      const auto at = static_cast<std::size_t>(differs);
      throw Error(
          Errc::mismatch,
          fmt::format("stream '{}', step {}: expected as many rows of field '{}' as keys '{}', by "
                      "which group '{}' takes them; found {} and {} at coordinate {}",
                      stream(), step_, fields_[f].name, fields_[static_cast<std::size_t>(key)].name,
                      open.link.peer_group, rows[at], keys[at], at));
    }
}

void ConsumerLinks::send(const StepMetadata& metadata) {
  const auto hold = session_.progress().hold();
  kept_.put(step_, metadata.time, metadata.attributes, metadata.counts);
  for (Open& open : links_) {
    if (!open.exchange->takes_step()) open.exchange->leave_out();
    if (!takes_step(open)) continue;
    try {
      StepMetadata of_link = metadata;
      of_link.counts = counts_over(open.link, metadata.counts);
      open.exchange->send(step_, of_link);
    } catch (...) {
      keep_failure(open);
    }
  }
  ++step_;
  for (Open& open : links_) {
    open.most_behind = std::max(open.most_behind, open.exchange->behind(step_));
    try {
      if (open.failure.empty()) feed(open);  // one that was opened while the step was put
    } catch (...) {
      keep_failure(open);
    }
  }
}

void ConsumerLinks::send_end() {
  const auto hold = session_.progress().hold();
  has_told_end_ = true;
  for (Open& open : links_) try {
      if (open.failure.empty()) open.exchange->send_end(step_);
    } catch (...) {
      keep_failure(open);
    }
}

bool ConsumerLinks::poll_room() {
  const auto hold = session_.progress().hold();
  const auto has_room = [this](Open& open) {
    try {
      // When a step begins, a link that drops makes room or leaves the step out.
      if (!open.failure.empty() || take_end(open) || open.exchange->is_agreed() ||
          (feed(open) && open.exchange->poll_room()))
        return true;
      judge(open);
    } catch (...) {
      keep_failure(open);
    }
    return !open.failure.empty();
  };
  return std::ranges::all_of(links_, has_room) && poll_shared_room();
}

void ConsumerLinks::count_ended(const Source& exchange) { add(ended_, exchange); }

bool ConsumerLinks::advance() noexcept {
  bool is_idle = true;
  for (Open& open : links_) {
    try {
      if (!open.failure.empty()) continue;
      is_idle = open.exchange->advance() && is_idle;
      feed(open);
      for (std::size_t m = 0; m < open.link.signs->size(); ++m)
        if (open.exchange->has_left(m)) open.link.signs->end(m);
      if (has_told_end_ && open.exchange->has_credited(step_)) open.link.signs->fall_silent();
      open.link.signs->advance();
    } catch (...) {
      keep_failure(open);
    }
  }
  return !is_idle;
}

void ConsumerLinks::list_waits(WaitWords& words) {
  for (Open& open : links_)
    if (open.failure.empty()) open.exchange->list_waits(words);
}

void ConsumerLinks::list_turns(std::vector<LinkTurns>& turns) const {
  turns.insert(turns.end(), reopening_.begin(), reopening_.end());
  for (const Open& open : links_)
    turns.push_back({open.link.number, open.turns_before + open.exchange->turns()});
  // Behind the links: of one that is just let in the first number counts.
  turns.insert(turns.end(), opening_turns_.begin(), opening_turns_.end());
}

void ConsumerLinks::list_lags(wire::Counters& counters) const {
  for (const Open& open : links_) {
    wire::Lag& lag = *counters.add_lags();
    lag.set_link(open.link.number);
    lag.set_steps(open.most_behind);
    lag.set_waited_seconds(open.waited_seconds);
  }
}

Statistics ConsumerLinks::statistics() const {
  Statistics s = ended_;
  s.steps = steps();
  s.wait_seconds = wait_seconds_;
  for (const Open& open : links_) add(s, *open.exchange);
  return s;
}

std::vector<PeerStatistics> ConsumerLinks::peer_statistics() const {
  std::vector<PeerStatistics> peers;
  for (const Open& open : links_) list_peers(open.link.peer_group, *open.exchange, peers);
  return peers;
}

}  // namespace tremula::client
