// SPDX-License-Identifier: Apache-2.0
// The part of InStream for a consumer with time steps of its own, which asks for the steps that it needs
// at a time. Each rank finds them by itself, in the headers of the step in turn and of the one after it.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "client/stream/in_stream.hpp"

namespace tremula::client {

using core::Errc, core::Error, core::expects;

Begun InStream::begin_step_by(Needed needed, std::int64_t time, std::string_view unit) {
  const char* const call = needed == Needed::at ? "begin_step_at" : "begin_step_around";
  check_may_begin();
  if (outlives_producer())
    throw Error(Errc::unsupported,
                fmt::format("stream '{}', steps by their time: expected a consumer that ends with "
                            "its producer; found a restart_timeout: leave that out, or take every "
                            "step with begin_step",
                            name()));
  if (state_ == State::ended) return Begun::end_of_stream;
  if (links_.is_lost()) links_.throw_lost("the producer was lost earlier");
  if (state_ == State::declaring) find_producer(std::nullopt);
  const auto hold = session_.progress().hold();
  agree_on(call, time);
  check_times(unit);
  expects(!asked_time_ || time >= *asked_time_, [&] {
    return fmt::format(
        "stream '{}': expected a time of at least {}, that of the previous call, since earlier "
        "steps have passed; found {}",
        name(), *asked_time_, time);
  });
  asked_time_ = time;
  if (needed == Needed::at && first_time_ && time < *first_time_)
    throw_too_early(time, *first_time_);
  if (last_time_ && *last_time_ >= time) return Begun::up_to_date;
  has_waited_for_step_ = true;
  for (;;) {
    const auto is_step = find_step(call, std::nullopt);
    if (!is_step)
      throw Error(
          Errc::unsupported,
          fmt::format("stream '{}': expected layouts to stay unchanged while steps are requested "
                      "by their time; found that they were declared again: take every step",
                      name()));
    if (!*is_step) return Begun::end_of_stream;
    const std::int64_t found = time_in_turn();
    if (found > time && needed == Needed::at) {
      if (!last_time_) throw_too_early(time, found);
      return Begun::up_to_date;
    }
    if (found >= time) break;
    Sink::Next next;
    links_.wait(
        [&] {
          next = links_.look_ahead();
          return polled(next.state != Sink::State::nothing);
        },
        call, "send the step after the next one, or the end");
    if (next.state == Sink::State::end || next.time.value_or(time) > time) break;
    links_.wait([&] { return polled(links_.poll_finish()); }, call, "send the rest of a step");
    links_.pass_step();
  }
  enter_step();
  return Begun::step;
}

void InStream::check_times(std::string_view unit) const {
  if (const auto why = links_.why_no_look_ahead(); !why.empty())
    throw Error(Errc::unsupported,
                fmt::format("stream '{}', steps by their time: {}", name(), why));
  const auto theirs = attributes(of_stream);
  const auto* const known = theirs.find(proto::time_unit);
  if (known == nullptr)
    throw Error(Errc::unsupported,
                fmt::format("stream '{}': expected steps with a time; found that its producer has "
                            "set no attribute '{}'",
                            name(), proto::time_unit));
  const auto* const texts = std::get_if<std::vector<std::string>>(&known->values);
  if (!unit.empty() && (texts == nullptr || texts->size() != 1 || texts->front() != unit))
    throw Error(Errc::mismatch,
                fmt::format("stream '{}': expected a time in the unit of the stream, {}; found one "
                            "in {}: convert it",
                            name(), proto::to_json(known->values), proto::quoted(unit)));
}

void InStream::agree_on(const char* call, std::int64_t time) {
  // From here on each rank for itself: what was sent before can be had.
  if (links_.find_end()) return;
  session_.begin_call(call, name(), step_.value_or(0));
  const auto mine = std::as_bytes(std::span(&time, 1));
  std::vector<core::Bytes> all;
  try {
    all = session_.allgather_over(links_.numbers(), {mine.begin(), mine.end()},
                                  session_.step_deadline());
  } catch (const Error& e) {
    if (e.code() != Errc::peer_lost) throw;
    session_.control().check_own_group();
    const auto has_ended = [this] { return links_.find_end().has_value(); };
    if (session_.waits_for(has_ended, core::Deadline::after(explained_within_seconds))) return;
    links_.throw_lost(e.what());
  }
  const auto time_of = [](const core::Bytes& bytes) {
    std::int64_t told = 0;
    std::memcpy(&told, bytes.data(), std::min(bytes.size(), sizeof told));
    return told;
  };
  const auto other = std::ranges::find_if(
      all, [&](const core::Bytes& bytes) { return time_of(bytes) != time_of(all.front()); });
  if (other == all.end()) return;
  throw Error(Errc::mismatch,
              fmt::format("stream '{}': expected all ranks of group '{}' to ask for the same time "
                          "in {}; found {} on rank 0 and {} on rank {}",
                          name(), session_.name(), call, time_of(all.front()), time_of(*other),
                          other - all.begin()));
}

bool InStream::has_lost_links() {
  const bool is_linked = state_ == State::between_steps || state_ == State::in_step;
  return !is_linked || links_.is_lost() || links_.find_end();
}

void InStream::throw_too_early(std::int64_t time, std::int64_t first) const {
  throw Error(Errc::invalid_argument,
              fmt::format("stream '{}': expected a time of at least {}, that of the first step "
                          "that group '{}' gets; found {}: a group that joins late calls "
                          "begin_step first, and continues from the time of that step",
                          name(), first, session_.name(), time));
}

}  // namespace tremula::client
