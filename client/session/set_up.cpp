// SPDX-License-Identifier: Apache-2.0
#include "client/session/set_up.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "client/session/agreement.hpp"
#include "client/session/session.hpp"
#include "proto/convert.hpp"

namespace tremula::client {

using core::Errc, core::Error;

namespace {

/// Seconds between two questions to the server about why links are missing.
constexpr double turn_seconds = 0.4;
/// Seconds that one turn waits for a linked producer to admit a consumer; short, because no notice
/// ends that wait.
constexpr double begin_turn_seconds = 0.02;
/// Seconds after which a call that could return checks again whether choices are still missing.
constexpr double choice_turn_seconds = 0.05;
/// The server always has at least this many seconds to answer, however short the time limit is.
constexpr double least_wait_seconds = 1;
/// The largest number of warnings that one waiting call logs.
constexpr std::size_t most_warnings = 3;

std::vector<std::string_view> lines_of(core::BytesView bytes) {
  std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::vector<std::string_view> lines;
  for (std::size_t end = 0; (end = rest.find('\n')) != rest.npos; rest.remove_prefix(end + 1))
    lines.push_back(rest.substr(0, end));
  return lines;
}

/// Returns how many seconds one turn may wait.
double turn_until(const std::optional<core::Deadline>& until) {
  return until ? std::min(turn_seconds, until->remaining()) : turn_seconds;
}

/// Returns whether an error concerns only the stream, not the session.
bool is_of_stream(const Error& error) {
  return error.code() == Errc::refused || error.code() == Errc::mismatch ||
         error.code() == Errc::invalid_argument || error.code() == Errc::unsupported;
}

}  // namespace

struct SetUp::Wait {
  StreamEnd& own;
  bool begins;
  const std::function<bool()>& is_done;
  std::optional<core::Deadline> until;
  core::Deadline none_came;                     // deadline for the other side to arrive
  std::optional<core::Deadline> is_busy{};      // ... to open the link; set when it arrives
  std::optional<core::Deadline> is_kept_out{};  // ... to admit this side; set when all are open
  /// When to warn that a producer does not admit a consumer.
  core::Deadline is_said = core::Deadline::after(least_wait_seconds);
  bool is_present = false, has_left = false;
  /// Time until which the server may hold the call; nullopt: set to one step_timeout from when the call could
  /// first return.
  std::optional<core::Deadline> chosen_by;
  bool is_choosing = false;    // the server held the call when it last tried to return
  LongWait* longer = nullptr;  // null if the call has its own time limit
  std::string found{};
  bool has_come = false, has_begun = false;
  std::set<std::string> said{};
};

std::vector<std::string> SetUp::open_streams() const {
  std::vector<std::string> names;
  names.reserve(ends_.size());
  for (const StreamEnd* const end : ends_) names.push_back(end->name());
  return names;
}

bool SetUp::has_lost(const std::string& stream) const {
  return std::ranges::all_of(
      ends_, [&](StreamEnd* end) { return end->name() != stream || end->has_lost_links(); });
}

std::vector<StreamEnd*> SetUp::alike(bool with_consumers) const {
  std::map<std::string, StreamEnd*, std::less<>> mine;
  std::vector<StreamEnd*> in_order;
  std::string keys;
  for (StreamEnd* const end : ends_) {
    if (!with_consumers && !end->is_producer()) continue;
    const std::string key = end->key();
    if (key.empty() || !mine.emplace(key, end).second) continue;
    in_order.push_back(end);
    keys += key + '\n';
  }
  if (session_.size() == 1) return in_order;
  const auto view = std::as_bytes(std::span(keys));
  const auto all = session_.allgather({view.begin(), view.end()}, session_.deadline());
  if (std::ranges::all_of(all, [&](const auto& theirs) { return theirs == all[0]; }))
    return in_order;
  std::map<std::string_view, std::size_t> ranks_with;
  for (const auto& theirs : all) {
    const auto lines = lines_of(theirs);
    for (const auto key : std::set(lines.begin(), lines.end())) ++ranks_with[key];
  }
  in_order.clear();
  for (const auto key : lines_of(all[0])) {
    const auto own = mine.find(key);
    if (own == mine.end() || ranks_with[key] != all.size()) continue;
    in_order.push_back(own->second);
    mine.erase(own);  // rank 0 may have sent the key twice
  }
  return in_order;
}

void SetUp::introduce_producers() { introduce(false, session_.deadline()); }

void SetUp::introduce(bool with_consumers, core::Deadline deadline,
                      const std::function<void()>& look) {
  const auto ends = alike(with_consumers);
  if (ends.empty()) return;
  for (StreamEnd* const end : ends) end->incarnation_ = ++last_incarnation_;
  const auto introduce_all = [&] {
    wire::Introduced answers;
    for (StreamEnd* const end : ends) {
      wire::Refused& refusal = *answers.add_refusals();
      try {
        session_.control().call(end->introduction(), deadline, look);
      } catch (const Error& error) {
        if (!is_of_stream(error)) {
          std::for_each(ends.begin(), std::ranges::find(ends, end),
                        [this](const StreamEnd* earlier) { take_back(*earlier); });
          throw;
        }
        refusal = proto::encode(error);
      }
    }
    return to_bytes(answers);
  };
  wire::Introduced introduced;
  try {
    introduced = from_bytes<wire::Introduced>(session_.run_on_root(introduce_all, deadline));
    if (static_cast<std::size_t>(introduced.refusals_size()) != ends.size())
      throw Error(Errc::protocol,
                  fmt::format("group '{}': expected the server's answers for {} streams from rank "
                              "0; found {}",
                              session_.name(), ends.size(), introduced.refusals_size()));
  } catch (...) {
    for (StreamEnd* const end : ends) end->incarnation_ = 0;
    throw;
  }
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const wire::Refused& refusal = introduced.refusals(static_cast<int>(i));
    if (refusal.code() == 0) continue;
    ends[i]->incarnation_ = 0;
    ends[i]->refuse(proto::decode(refusal));
  }
}

void SetUp::take_back(const StreamEnd& end) {
  wire::ToServer message;
  if (end.is_producer())
    message.mutable_close_stream()->set_stream(end.name());
  else
    message.mutable_unsubscribe()->set_stream(end.name());
  try {
    session_.control().call(std::move(message), core::Deadline::after(1));
  } catch (const Error& error) {  // the server may be gone; the next one does not learn of it
    session_.log().debug("client", fmt::format("take_back error=\"{}\"", error.what()));
  }
}

SetUp::Outcome SetUp::run(StreamEnd& own, bool begins, const std::function<bool()>& is_done,
                          std::optional<core::Deadline> until,
                          std::optional<core::Deadline> chosen_by) {
  const auto from_now = [&] {
    return core::Deadline::after(
        std::max(least_wait_seconds, own.most_wait_seconds(session_.config().timeout)));
  };
  const core::Deadline deadline = from_now();
  const std::function<void()> look = [&] {
    if (!until) session_.control().waits().ask_whether_to_wait(own.name());
  };
  for (;;) {  // until there is a server; if the time is up, introduce() reports that there is none
    const auto away = session_.run_on_root(
        [&] {
          if (!session_.control().is_served()) look();
          const auto turn = core::Deadline::after(turn_until(until ? until : deadline));
          const bool is_served = session_.control().wait_for_server(turn);
          const bool is_over = until ? until->expired() : deadline.expired();
          return core::Bytes(is_served ? 0 : is_over ? 2 : 1);
        },
        session_.deadline());
    if (away.size() == 2 && until) return {};
    if (away.size() != 1) break;
  }
  // `until` may be later than `deadline`. The loss of a server may not have been noticed yet.
  introduce(true, until ? from_now() : deadline, look);
  session_.end_call_with(own.is_producer() ? own.incarnation() : 0);
  Wait wait{.own = own,
            .begins = begins,
            .is_done = is_done,
            .until = until,
            .none_came = core::Deadline::after(own.most_wait_seconds(session_.config().timeout)),
            .chosen_by = chosen_by ? chosen_by : until};
  // All ranks are in this call and return when rank 0 does, so they all wait for the same event.
  const auto describe = [&] {
    if (own.has_awaited_begin())
      if (auto begin = own.awaited_begin()) return *std::move(begin);
    wire::Wait awaited;
    awaited.set_call("begin_step");
    awaited.set_stream(own.name());
    awaited.set_incarnation(own.incarnation());
    awaited.set_consumers(own.needed_consumers());
    return awaited;
  };
  std::optional<LongWait> long_wait;
  if (!until) wait.longer = &long_wait.emplace(session_.control().waits(), describe);
  try {
    for (;;) {
      const auto turn = from_bytes<wire::SetUpTurn>(
          session_.run_on_root([&] { return to_bytes(next_turn(wait)); }, session_.deadline()));
      for (const wire::ToClient& event : turn.events()) carry_out(event);
      own.end_turn(turn.has_begun());
      if (turn.is_over()) return {turn.is_done(), turn.found(), turn.has_come()};
    }
  } catch (...) {
    try {
      if (wait.is_present && !wait.has_left)
        session_.control().end_presence(core::Deadline::after(1));
    } catch (const Error& error) {  // the first error counts
      session_.log().debug("client", fmt::format("end_presence error=\"{}\"", error.what()));
    }
    throw;
  }
}

wire::SetUpTurn SetUp::next_turn(Wait& wait) {
  Control& control = session_.control();
  wire::SetUpTurn turn;
  if (wait.longer != nullptr && !wait.has_left) wait.longer->look();
  if (!std::exchange(wait.is_present, true))
    control.begin_presence(wait.begins ? wait.own.incarnation() : 0, session_.deadline());
  std::optional<wire::ToClient> event;
  const bool is_choosing = std::exchange(wait.is_choosing, false);
  bool is_leaving = !wait.has_left && !is_choosing && wait.is_done();
  if (!is_leaving && !wait.has_left) {
    const auto begin = wait.own.awaited_begin();
    const double most = is_choosing ? choice_turn_seconds
                        : begin     ? begin_turn_seconds
                                    : turn_seconds;
    const double left = is_choosing ? wait.chosen_by->remaining() : turn_until(wait.until);
    event = control.next_event(core::Deadline::after(std::min(most, left)));
    if (!event && is_choosing && wait.is_done()) is_leaving = true;
    if (!event && !is_leaving)
      is_leaving = begin ? is_over(wait) || is_late(wait, *begin) : is_late_or_over(wait);
  }
  if (is_leaving) {
    // Links to groups that have yet to send their choices may still be opened in this call.
    if (!wait.chosen_by) wait.chosen_by = session_.step_deadline();
    wait.is_choosing = control.end_presence(session_.deadline(), !wait.chosen_by->expired());
    wait.has_left = !wait.is_choosing;
  }
  for (; event || (event = control.next_event(core::Deadline::after(0))); event.reset())
    *turn.add_events() = std::move(*event);
  turn.set_has_begun(wait.has_begun || wait.own.has_awaited_begin());
  // No event follows the end of the presence, but the call may wait for an event that arrived before it.
  turn.set_is_over(wait.has_left && turn.events().empty());
  if (turn.is_over()) {
    turn.set_is_done(wait.is_done());
    turn.set_found(wait.found);
    turn.set_has_come(wait.has_come);
  }
  return turn;
}

bool SetUp::is_over(const Wait& wait) { return wait.until && wait.until->expired(); }

bool SetUp::is_late_or_over(Wait& wait) {
  if (!is_over(wait)) return is_late(wait);
  // A consumer that polls with short calls must also learn that its producers have begun the stream, because
  // they may be waiting for it to skip steps.
  std::optional<core::Deadline>& look = wait.own.look_at_;
  const bool looks = !wait.own.is_producer() && look && look->expired();
  if (!look || looks) look = core::Deadline::after(turn_seconds);
  if (looks) is_late(wait);
  return true;
}

bool SetUp::is_late(Wait& wait) {
  Control& control = session_.control();
  const bool is_served = control.wait_for_server(core::Deadline::after(turn_until(wait.until)));
  if (!is_served && (wait.until || !wait.none_came.expired())) return false;
  const wire::Explained explained = explain(wait, is_served);
  // The cause that one check finds may be gone at the next, e.g. if the ranks of a group arrive at
  // different times.
  const bool lasts = std::exchange(wait.found, explained.text()) == explained.text();
  wait.has_come = explained.has_come();
  wait.has_begun = explained.has_begun();
  if (explained.is_warning() && lasts && wait.said.size() < most_warnings &&
      wait.said.insert(wait.found).second)
    session_.log().warn("client",
                        fmt::format("waiting stream={} for={} found=\"{}\"", wait.own.name(),
                                    wait.own.is_producer() ? "consumer" : "producer", wait.found));
  if (!wait.has_come) wait.is_busy.reset();
  return wait.has_come ? lasts_a_step(wait.is_busy) : wait.none_came.expired();
}

wire::Explained SetUp::explain(const Wait& wait, bool is_served) {
  wire::ToServer message;
  message.mutable_explain()->set_incarnation(wait.own.incarnation());
  if (is_over(wait)) return session_.control().explain(message.explain());
  return session_.control()
      .call(std::move(message), is_served ? session_.deadline() : core::Deadline::after(0),
            [&] { wait.longer != nullptr ? wait.longer->look() : void(); })
      .explained();
}

bool SetUp::is_late(Wait& wait, const wire::Wait& begin) {
  wait.has_come = true;
  wait.found = fmt::format("group '{}' is linked, but has not begun its next step", begin.group());
  if (wait.is_said.expired() && wait.said.insert(wait.found).second)
    session_.log().warn("client", fmt::format("waiting stream={} for=producer found=\"{}\"",
                                              wait.own.name(), wait.found));
  return lasts_a_step(wait.is_kept_out);
}

bool SetUp::lasts_a_step(std::optional<core::Deadline>& until) const {
  if (!until) until = session_.step_deadline();
  return until->expired();
}

void SetUp::carry_out(const wire::ToClient& event) {
  if (event.has_choices_wanted()) return send_choices(event.choices_wanted().offer());
  const bool is_match = event.has_matched();
  const std::uint64_t incarnation =
      is_match ? event.matched().incarnation() : event.stream_refused().incarnation();
  const auto end = std::ranges::find(ends_, incarnation, &StreamEnd::incarnation);
  if (end == ends_.end()) {
    if (is_match) join_without_end(event.matched());
  } else if (is_match) {
    (*end)->join(event.matched());
  } else {
    (*end)->refuse(proto::decode(event.stream_refused().refused()));
  }
}

void SetUp::send_choices(const std::string& offer) {
  wire::ToServer message;
  wire::OfferChoices& out = *message.mutable_offer_choices();
  out.set_offer(offer);
  try {
    const auto choices = session_.choices(offer);
    out.mutable_choices()->Assign(choices.begin(), choices.end());
  } catch (const Error& error) {  // on every rank
    if (error.code() != Errc::unsupported && error.code() != Errc::transport) throw;
    out.set_why(error.what());
  }
  session_.run_on_root(
      [&] {
        try {
          session_.control().call(std::move(message), session_.deadline());
        } catch (const Error& error) {  // the next server requests the choices itself
          if (error.code() != Errc::no_server && error.code() != Errc::refused) throw;
          session_.log().debug(
              "client", fmt::format("offer_choices offer={} error=\"{}\"", offer, error.what()));
        }
        return core::Bytes{};
      },
      session_.deadline());
}

void SetUp::join_without_end(const wire::Matched& matched) {
  std::string why;
  try {
    session_.run_collectively(
        [&] {  // a consumer's open_link begins like this; a producer agrees on opening_terms first
          throw Error(Errc::cancelled,
                      fmt::format("stream '{}' was closed before it was linked", matched.stream()));
        });
  } catch (const Error& error) {
    if (error.code() != Errc::cancelled) throw;
    why = error.what();
  }
  session_.control().forget_link(matched.link());
  if (session_.rank() != core::Rank{0}) return;
  wire::ToServer message;
  message.mutable_close_link()->set_link(matched.link());
  message.mutable_close_link()->set_why(why);
  session_.control().call(std::move(message), session_.deadline());
}

}  // namespace tremula::client
