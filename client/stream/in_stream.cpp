// SPDX-License-Identifier: Apache-2.0
#include "client/stream/in_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>

#include "client/session/wait.hpp"
#include "client/stream/describe.hpp"
#include "proto/convert.hpp"

namespace tremula::client {

using core::Errc, core::Error, core::expects;

InStream::InStream(Session& session, const std::string& name, const InConfig& config)
    : session_(session), fields_(session, name), config_(config), links_(session, fields_, *this) {
  session_.progress().add(*this);
  session_.set_up().add(*this);
}

InStream::~InStream() {
  if (state_ == State::closed) return;
  end();
  try {
    links_.tell_server(ProducerLinks::Farewell::gave_up,
                       fmt::format("left {} without closing it", links_.place()));
    links_.forget();
  } catch (...) {  // out of memory: what the server still says of it is kept
  }
}

void InStream::end() noexcept {
  session_.progress().remove(*this);
  session_.set_up().remove(*this);
  session_.control().forget(name(), 0);
  if (!links_.is_complete() && is_introduced() && session_.rank() == 0) withdraw();
}

void InStream::withdraw() noexcept {
  try {
    wire::ToServer message;
    message.mutable_unsubscribe()->set_stream(name());
    session_.control().call(std::move(message), core::Deadline::after(1));
  } catch (const std::exception& e) {  // the server has gone, and the subscription with it
    session_.log().warn("client",
                        fmt::format("unsubscribe stream={} error=\"{}\"", name(), e.what()));
  }
}

int InStream::declare(proto::Field field, const FieldUpdate& update) {
  expects(state_ == State::declaring && !is_introduced(), [&] {
    return fmt::format(
        "stream '{}': expected all fields to be declared before the first begin_step of any "
        "stream of the session, which tells the server of all of them; found '{}' after it: "
        "declare the fields of all streams first",
        name(), field.name);
  });
  expects(!is_relabeled_, [&] {
    return fmt::format(
        "stream '{}': expected all fields to be declared before relabel; found '{}' "
        "after it",
        name(), field.name);
  });
  return fields_.declare(std::move(field), update);
}

std::string InStream::key() const {
  const bool is_new = state_ == State::declaring && !is_introduced() && !refusal_ && !is_held_;
  return is_new && fields_.size() > 0 ? fmt::format("in {} {:x}", name(), fields_.hash()) : "";
}

wire::ToServer InStream::introduction() const {
  wire::ToServer message;
  auto& subscribe = *message.mutable_subscribe();
  subscribe.set_stream(name());
  *subscribe.mutable_fields() = fields_.encoded();
  for (const auto& offer : session_.offers()) *subscribe.add_offers() = offer;
  subscribe.set_incarnation(incarnation());
  subscribe.set_wants_latest(config_.steps == Steps::latest);
  subscribe.set_shares(config_.steps == Steps::share);
  subscribe.set_start(static_cast<wire::Start>(config_.start));
  return message;
}

bool InStream::find_producer(std::optional<core::Deadline> until) {
  session_.begin_call("begin_step", name(), 0);
  is_held_ = false;
  if (!is_introduced() && !refusal_) fields_.check_alike();
  if (!refusal_) {
    const Waiting waiting(session_.control(), name(), "a producer");
    const auto outcome = session_.set_up().run(
        *this, false,
        [&] { return links_.is_complete() || refusal_.has_value() || links_.find_end(); }, until);
    if (const auto why = end_of_a_link(); !why.empty()) {
      if (session_.rank() == 0) withdraw();
      refuse(Error(Errc::peer_lost, fmt::format("stream '{}': {}", name(), why)));
      throw *std::exchange(refusal_, {});
    }
    if (!outcome.is_done && until) return false;
    if (!outcome.is_done && outcome.has_come)
      throw Error(Errc::timed_out,
                  fmt::format("stream '{}': expected its producer to open the link within {} s; "
                              "found {}; is it stuck? step_timeout sets how long a step may take",
                              name(), session_.config().step_timeout, outcome.found));
    if (!outcome.is_done) throw no_producer(name(), outcome.found, session_.config().timeout);
  }
  if (refusal_) throw *std::exchange(refusal_, {});
  return true;
}

std::string InStream::end_of_a_link() {
  if (links_.is_empty() || links_.is_complete()) return {};
  const auto why = session_.run_on_root(
      [&] {
        const auto end = links_.find_end();
        const auto bytes = std::as_bytes(std::span(end ? end->why : std::string_view()));
        return core::Bytes(bytes.begin(), bytes.end());
      },
      session_.deadline());
  return {reinterpret_cast<const char*>(why.data()), why.size()};
}

void InStream::refuse(const Error& error) {
  incarnation_ = 0;
  refusal_ = error;
  if (!links_.is_empty()) links_.give_up(error.what());
}

void InStream::join(const wire::Matched& matched) {
  try {
    links_.open(matched);
    if (config_.start != Start::next && matched.keep_steps() == 0)
      session_.log().warn(
          "client",
          fmt::format("stream '{}': expected producer group '{}' to keep steps, as start "
                      "asks for one of them; found that it keeps none, so that this group "
                      "begins with the next one: set keep_steps there",
                      name(), matched.peer_group()));
  } catch (const Error& e) {
    if (matched.missing() > 0 && session_.rank() == 0) withdraw();
    refuse(e);
    return;
  }
  if (!links_.is_complete()) return;
  statistics_ = links_.statistics();
  state_ = State::between_steps;
}

void InStream::check_may_begin() const {
  expects(state_ != State::in_step || links_.is_lost(), [&] {
    return fmt::format("stream '{}': expected end_step before the next begin_step", name());
  });
  expects(state_ != State::closed, [&] {
    return fmt::format("stream '{}' is closed: open it again for further steps", name());
  });
}

std::optional<bool> InStream::begin_step_until(std::optional<core::Deadline> until) {
  check_may_begin();
  if (state_ == State::ended) return false;
  if (links_.is_lost()) links_.throw_lost("the producer was lost before");
  if (state_ == State::declaring && !find_producer(until)) return std::nullopt;
  const auto hold = session_.progress().hold();
  const auto is_step = find_step("begin_step", until);
  if (is_step.value_or(false)) enter_step();
  return is_step;
}

std::optional<bool> InStream::find_step(const char* call, std::optional<core::Deadline> until) {
  // All of the step, so that all its fields are here or none.
  if (!links_.wait([&] { return polled(links_.has_step()); }, call, "send the next step", until))
    return std::nullopt;
  statistics_.dropped = links_.statistics().dropped;
  if (!links_.has_end()) return true;
  links_.take_leave();
  state_ = State::ended;
  links_.report(true);
  session_.control().send_counters();
  return false;
}

void InStream::enter_step() {
  state_ = State::in_step;
  step_ = links_.step();
  last_time_ = links_.time();
  if (!first_time_) first_time_ = last_time_;
}

InStream::Begun InStream::begin_step_by(Needed needed, std::int64_t time, std::string_view unit) {
  const char* const call = needed == Needed::at ? "begin_step_at" : "begin_step_around";
  check_may_begin();
  if (state_ == State::ended) return Begun::end_of_stream;
  if (links_.is_lost()) links_.throw_lost("the producer was lost before");
  if (state_ == State::declaring) find_producer(std::nullopt);
  const auto hold = session_.progress().hold();
  agree_on(call, time);
  check_times(unit);
  expects(!asked_time_ || time >= *asked_time_, [&] {
    return fmt::format(
        "stream '{}': expected a time from {} on, that of the call before, since earlier steps "
        "have gone by; found {}",
        name(), *asked_time_, time);
  });
  asked_time_ = time;
  if (needed == Needed::at && first_time_ && time < *first_time_)
    throw_too_early(time, *first_time_);
  if (last_time_ && *last_time_ >= time) return Begun::none_missing;
  for (;;) {
    if (!*find_step(call, std::nullopt)) return Begun::end_of_stream;
    const std::int64_t found = time_in_turn();
    if (found > time && needed == Needed::at) {
      if (!last_time_) throw_too_early(time, found);
      return Begun::none_missing;
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
    links_.wait([&] { return polled(links_.can_finish_step()); }, call, "send the rest of a step");
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
  // A rank that knows that a link has ended may not come any more. What was sent before can be had.
  if (links_.find_end()) return;
  session_.begin_call(call, name(), step_.value_or(0));
  session_.end_call_with_links(links_.numbers());
  const auto mine = std::as_bytes(std::span(&time, 1));
  std::vector<core::Bytes> all;
  try {
    all = session_.allgather({mine.begin(), mine.end()}, session_.step_deadline());
  } catch (const Error&) {
    if (links_.find_end()) return;
    throw;
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

void InStream::throw_too_early(std::int64_t time, std::int64_t first) const {
  throw Error(Errc::invalid_argument,
              fmt::format("stream '{}': expected a time from {} on, that of the first step that "
                          "group '{}' gets; found {}: a group that comes late calls begin_step "
                          "first, and goes on from the time of that step",
                          name(), first, session_.name(), time));
}

bool InStream::is_ready() {
  if (links_.is_lost()) return true;
  if (state_ != State::between_steps) return state_ != State::declaring || refusal_;
  const auto hold = session_.progress().hold();
  session_.progress().advance(this);
  return links_.is_ready();
}

std::uint64_t InStream::step() const {
  expects(step_.has_value(),
          [&] { return fmt::format("stream '{}': expected begin_step before step", name()); });
  return *step_;
}

std::int64_t InStream::time() const {
  expects(state_ == State::in_step,
          [&] { return fmt::format("stream '{}': expected begin_step before time", name()); });
  return time_in_turn();
}

std::int64_t InStream::time_in_turn() const {
  const auto time = links_.time();
  expects(time.has_value(), [&] {
    return fmt::format(
        "stream '{}': expected steps with a time; found that its producer has set no attribute "
        "'{}'",
        name(), proto::time_unit);
  });
  return *time;
}

proto::Attributes InStream::attributes(int of) const {
  if (of == of_step) {
    expects(state_ == State::in_step, [&] {
      return fmt::format("stream '{}': expected begin_step before the attributes of a step",
                         name());
    });
    return links_.step_attributes();
  }
  expects(links_.is_complete(), [&] {
    return fmt::format(
        "stream '{}': expected begin_step, which links the stream to its producer, before "
        "attributes, and no close; found no link",
        name());
  });
  const Link& link = links_.first_link();
  return proto::decode_attributes(of == of_stream
                                      ? link.attributes
                                      : link.theirs[*link.number_of[fields_.check(of)]].attributes);
}

void InStream::get(int field, std::span<std::byte> local) {
  expects(state_ == State::in_step && !links_.is_lost(),
          [&] { return fmt::format("stream '{}': expected begin_step before get", name()); });
  const std::size_t f = fields_.check(field, local.size());
  const auto hold = session_.progress().hold();
  links_.begin_get(f);
  try {
    auto moved = links_.moved();
    links_.wait(
        [&] {
          if (links_.fetch_some(f, local)) return Polled::done;
          const auto before = std::exchange(moved, links_.moved());
          return before == moved ? Polled::nothing : Polled::moved;
        },
        "get", "send the rest of the step");
  } catch (...) {
    links_.give_up_fetching();  // the buffer is the application's again
    links_.lose();              // what comes next may be what was asked for
    throw;
  }
  try {
    links_.tell_mismatch();
  } catch (const Error& e) {  // of one value: the step and the stream are as they were
    throw Error(e.code(), fmt::format("stream '{}', step {}, field '{}': {}", name(), step(),
                                      fields_[f].name, e.what()));
  }
}

void InStream::end_step() {
  expects(state_ == State::in_step && !links_.is_lost(),
          [&] { return fmt::format("stream '{}': expected begin_step before end_step", name()); });
  const auto hold = session_.progress().hold();
  links_.wait([&] { return polled(links_.can_finish_step()); }, "end_step",
              "send the rest of the step");
  links_.finish_step();
  state_ = State::between_steps;
  statistics_ = links_.statistics();
  of_last_step_ = statistics_.since(before_step_);
  before_step_ = statistics_;
  links_.report();
  session_.progress().wake();
}

void InStream::close() {
  expects(state_ != State::in_step || links_.is_lost(),
          [&] { return fmt::format("stream '{}': expected end_step before close", name()); });
  if (state_ == State::closed) return;
  const auto hold = session_.progress().hold();
  // Each rank for itself: one that has lost the stream would not come to an agreement.
  std::exception_ptr failure;
  try {
    if (state_ == State::between_steps && links_.find_end()) links_.lose();
    if (state_ == State::between_steps && !links_.is_lost()) links_.take_leave();
  } catch (...) {
    failure = std::current_exception();
    links_.lose();
  }
  if (!links_.is_empty()) {
    links_.report(true);
    session_.control().send_counters();
    if (links_.is_lost())
      links_.tell_server(ProducerLinks::Farewell::gave_up, "closed the stream after an error");
    else
      links_.tell_server(ProducerLinks::Farewell::finished, "closed the stream");
  }
  end();
  statistics_.wait_seconds = links_.wait_seconds();
  links_.drop_all();
  session_.plans().forget_idle();
  state_ = State::closed;
  if (failure) std::rethrow_exception(failure);
}

Statistics InStream::statistics() const {
  Statistics s = statistics_;
  s.wait_seconds = links_.wait_seconds();
  return s;
}

Statistics InStream::step_statistics() const { return of_last_step_; }

}  // namespace tremula::client
