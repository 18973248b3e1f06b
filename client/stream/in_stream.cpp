// SPDX-License-Identifier: Apache-2.0
#include "client/stream/in_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "client/stream/describe.hpp"
#include "client/waiting/wait.hpp"
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
  leave_together();
  session_.progress().remove(*this);
  session_.set_up().remove(*this);
  session_.control().forget(name(), 0);
  const bool is_awaited = links_.is_complete() ? outlives_producer() && links_.is_lost()
                                               : is_introduced() || least_epoch_ > 0;
  if (is_awaited && session_.rank() == Rank{0}) withdraw();
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
        "stream of the session, which announces all of them to the server; found '{}' after it: "
        "declare the fields of all streams first",
        name(), field.name);
  });
  expects(!is_relabeled_, [&] {
    return fmt::format(
        "stream '{}': expected all fields to be declared before relabel; found '{}' "
        "after it",
        name(), field.name);
  });
  expects(!config_.serves || (update.is_none() && !has_sums(field.layout)), [&] {
    return fmt::format(
        "stream '{}', field '{}': expected no update and no partial sums of a field that is served "
        "to others (serve) as its producer put it; found one: leave serve out, or get the field "
        "unchanged",
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
  subscribe.set_outlives(outlives_producer());
  subscribe.set_least_epoch(least_epoch_);
  subscribe.set_token(token_);
  subscribe.set_serves(config_.serves);
  subscribe.mutable_lost_streams()->Assign(lost_streams_.begin(), lost_streams_.end());
  return message;
}

bool InStream::find_producer(std::optional<core::Deadline> until) {
  session_.begin_call("begin_step", name(), 0);
  if (restart_) session_.make_call_after_loss();
  is_held_ = false;
  if (!is_introduced() && !refusal_) fields_.check_alike();
  if (!refusal_) {
    const Waiting waiting(session_.control(), name(), "a producer");
    const auto outcome = session_.set_up().run(
        *this, false,
        [&] {
          links_.await_begin();
          return links_.is_complete() || links_.can_begin() || refusal_.has_value() ||
                 links_.find_end() || links_.why_not_begun();
        },
        until);
    if (const auto end = end_of_a_link()) {
      if (session_.rank() == Rank{0}) withdraw();
      refuse(Error(end->code(), fmt::format("stream '{}': {}", name(), end->what())));
      throw *std::exchange(refusal_, {});
    }
    if (!outcome.is_done && until) return false;
    if (!outcome.is_done && restart_)
      throw Error(Errc::timed_out, outcome.found.empty() ? "none" : outcome.found);
    if (!outcome.is_done && outcome.has_come)
      throw Error(Errc::timed_out,
                  fmt::format("stream '{}': expected its producer to open the link within {} s; "
                              "found {}; is it stuck? step_timeout sets how long a step may take",
                              name(), session_.config().step_timeout, outcome.found));
    if (!outcome.is_done) throw no_producer(name(), outcome.found, session_.config().timeout);
    if (!refusal_ && !links_.is_complete() && !begin_links(until)) return false;
  }
  if (refusal_) throw *std::exchange(refusal_, {});
  return true;
}

std::optional<Error> InStream::end_of_a_link() {
  if (links_.is_empty() || links_.is_complete()) return std::nullopt;
  try {  // but for the loss of a peer, of which rank 0 hears the cause
    session_.run_collectively([&] {
      const auto own = links_.why_not_begun();
      if (own && own->code() != Errc::peer_lost && own->code() != Errc::transport) throw *own;
    });
  } catch (const Error& e) {
    if (e.code() == Errc::interrupted) throw;
    return e;
  }
  const auto find = [&] {
    const auto end = links_.find_end();
    const auto found = end ? Error(Errc::peer_lost, end->why) : links_.why_not_begun();
    return to_bytes(found ? proto::encode(*found) : wire::Refused{});
  };
  const auto told = from_bytes<wire::Refused>(session_.run_on_root(find, session_.deadline()));
  if (told.code() == 0) return std::nullopt;
  return proto::decode(told);
}

void InStream::refuse(const Error& error) {
  incarnation_ = 0;
  streams_.clear();
  refusal_ = error;
  if (!links_.is_empty()) links_.give_up(error.what());
}

void InStream::join(const wire::Matched& matched) {
  try {
    links_.open(matched);
    if (matched.epoch() < least_epoch_ && !had_copy_) {
      goes_on_ = true;
      throw Error(
          Errc::peer_lost,
          fmt::format("stream '{}': the link was lost but the producer goes on: group '{}' has "
                      "missed steps; close the stream, and open it again for later steps",
                      name(), session_.name()));
    }
    epoch_ = matched.epoch();
    token_ = matched.token();
    is_copy_ = matched.is_copy();
    streams_.push_back(matched.stream_number());
    if (!is_same_epoch()) links_.let_pass_before(0);
    if (config_.serves) copy_ = std::make_unique<ServedCopy>(session_, fields_, matched);
    if (config_.start != Start::next && matched.keep_steps() == 0)
      session_.log().warn(
          "client",
          fmt::format("stream '{}': expected producer group '{}' to keep steps, as start "
                      "asks for one of them; found that it keeps none, so that this group "
                      "begins with the next one: set keep_steps there",
                      name(), matched.peer_group()));
  } catch (const Error& e) {
    if (matched.missing() > 0 && session_.rank() == Rank{0}) withdraw();
    if (e.code() == Errc::interrupted) throw;
    refuse(e);
    return;
  }
  if (links_.is_complete()) end_set_up();
}

bool InStream::begin_links(std::optional<core::Deadline> until) {
  try {
    if (!links_.begin(until)) return false;
    end_set_up();
  } catch (const Error& e) {
    if (e.code() == Errc::interrupted) throw;
    refuse(e);
  }
  return true;
}

void InStream::end_set_up() {
  if (outlives_producer() && subject_ == 0) session_.words().open(subject_ = incarnation());
  statistics_ = links_.statistics();
  state_ = State::between_steps;
}

std::optional<wire::Wait> InStream::awaited_begin() {
  if (!links_.awaits_begin()) return std::nullopt;
  return links_.describe_wait("begin_step", "let this group in");
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
  if (links_.is_lost()) links_.throw_lost("the producer was lost earlier");
  if (state_ == State::declaring && !find_producer(until)) return std::nullopt;
  if (copy_ && !serve_until_step(until)) return std::nullopt;
  has_waited_for_step_ = true;
  for (;;) {
    {
      const auto hold = session_.progress().hold();
      const auto is_step = find_step("begin_step", until);
      if (is_step.value_or(false)) enter_step();
      if (is_step || !is_redeclared_) return is_step;
    }
    session_.begin_call("begin_step", name(), links_.step());
    links_.reopen([this](const wire::Redeclared& told) {
      adopt(told.number());
      session_.control().note_agreed(told.link(), told.number());
    });
  }
}

std::optional<bool> InStream::find_step(const char* call, std::optional<core::Deadline> until) {
  is_redeclared_ = false;
  // All of the step, so that all its fields are here or none.
  if (!links_.wait([&] { return polled(links_.poll_step()); }, call, "send the next step", until))
    return std::nullopt;
  statistics_.dropped = links_.dropped();
  if (!links_.poll_end()) return true;
  is_redeclared_ = links_.is_redeclared();
  if (is_redeclared_) return std::nullopt;
  for (const std::uint64_t link : links_.numbers()) session_.control().forget_asked(link);
  if (outlives_producer()) state_ = State::ended;  // whatever becomes of its credits
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

bool InStream::poll_ready() {
  if (links_.is_lost()) return true;
  // One that a call of another stream has linked needs a call of its own to begin.
  if (state_ == State::declaring)
    return refusal_ || links_.can_begin() || links_.find_end() || links_.why_not_begun();
  if (state_ != State::between_steps) return true;
  const auto hold = session_.progress().hold();
  session_.progress().advance(this);
  return links_.poll_ready();
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
        "stream '{}': expected attributes after begin_step, which links the stream to its "
        "producer, and before close; found no link",
        name());
  });
  const Link& link = links_.first_link();
  return proto::decode_attributes(of == of_stream
                                      ? link.attributes
                                      : link.theirs[*link.number_of[fields_.check(of)]].attributes);
}

const index_calc::Layout& InStream::layout(int field) const {
  const std::size_t f = fields_.check(field);
  if (!fields_.is_changing(f)) return fields_.layout(f);
  expects(state_ == State::in_step && !links_.is_lost(), [&] {
    return fmt::format(
        "stream '{}': expected begin_step before the layout of field '{}', which "
        "changes with every step",
        name(), fields_[f].name);
  });
  return links_.layout(f);
}

void InStream::get(int field, MemoryView array) {
  expects(state_ == State::in_step && !links_.is_lost(),
          [&] { return fmt::format("stream '{}': expected begin_step before get", name()); });
  const bool changes = fields_.is_changing(fields_.check(field));
  const std::size_t f = changes ? fields_.check(field, layout(field), array.bytes.size())
                                : fields_.check(field, array.bytes.size());
  const auto local = host_bytes(array);
  const auto hold = session_.progress().hold();
  try {
    links_.get(f, local);
  } catch (...) {
    links_.give_up_fetching();  // the buffer is the application's again
    links_.lose();              // what comes next may be what was asked for
    if (!outlives_producer()) throw;
    throw_lost_in_get(core::current_error());
  }
  try {
    links_.rethrow_mismatch();
    fields_.scale_idle(f, local);
  } catch (const Error& e) {  // of one value: the step and the stream are as they were
    throw Error(e.code(), fmt::format("stream '{}', step {}, field '{}': {}", name(), step(),
                                      fields_[f].name, e.what()));
  }
  if (copy_) copy_->got(f, local);
}

bool InStream::fills(int field) const {
  const std::size_t f = fields_.check(field);
  expects(links_.is_complete(), [&] {
    return fmt::format("stream '{}': expected begin_step before fills; found no link", name());
  });
  if (fields_.targets()[f].transformation.beta != 0.0) return false;
  if (fields_.is_changing(f)) return true;
  const index_calc::LocalPart& part = fields_.part(f);
  // Places of a list without an element, or outside the box, are never written.
  const bool has_idle_places =
      fields_[f].layout.listed() != nullptr && part.elements < part.allocated;
  return !has_idle_places && links_.arriving_elements(f) == part.elements;
}

void InStream::end_step() {
  expects(state_ == State::in_step && (outlives_producer() || !links_.is_lost()),
          [&] { return fmt::format("stream '{}': expected begin_step before end_step", name()); });
  if (outlives_producer())
    finish_step_together();
  else
    finish_step();
}

void InStream::finish_step() {
  const auto hold = session_.progress().hold();
  links_.wait([&] { return polled(links_.poll_finish()); }, "end_step",
              "send the rest of the step");
  links_.finish_step();
  state_ = State::between_steps;
  has_waited_for_step_ = false;
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
  std::exception_ptr failure;
  try {
    if (copy_ && state_ == State::ended) copy_->close();
  } catch (...) {
    failure = std::current_exception();
  }
  copy_.reset();  // before the end: its readers are linked to another group
  const auto hold = session_.progress().hold();
  // Each rank for itself: one that has lost the stream would not come to an agreement.
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
