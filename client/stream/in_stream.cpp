// SPDX-License-Identifier: Apache-2.0
#include "client/stream/in_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "client/session/wait.hpp"
#include "client/stream/describe.hpp"

namespace tremula::client {

using core::Errc, core::Error, core::expects;

/// What both sides wait for is known to the server by then: two heartbeats.
constexpr double circle_seconds = 2.5;

InStream::InStream(Session& session, const std::string& name, const InConfig& config)
    : session_(session), fields_(session, name), config_(config) {
  session_.progress().add(*this);
  session_.set_up().add(*this);
}

InStream::~InStream() {
  if (state_ == State::closed) return;
  end();
  try {
    if (exchange_ != nullptr) {
      const auto did = fmt::format("left {} without closing it", place());
      tell_server(Farewell::gave_up, did.c_str());
    }
    forget_link();
  } catch (...) {  // out of memory: what the server still says of it is kept
  }
}

void InStream::end() noexcept {
  session_.progress().remove(*this);
  session_.set_up().remove(*this);
  session_.control().forget(name(), 0);
  if (exchange_ == nullptr && is_introduced() && session_.rank() == 0) withdraw();
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

void InStream::forget_link() {
  if (link_.number == 0) return;
  session_.control().forget(name(), link_.number);
  session_.control().forget_link(link_.number);
}

bool InStream::advance() noexcept {
  if (exchange_ == nullptr || failure_ || state_ == State::lost) return false;
  try {
    const bool is_idle = exchange_->advance();
    link_.signs->advance();
    // A producer may close while this rank waits for something else of that producer.
    if (state_ == State::between_steps && exchange_->poll() == Sink::State::end) leave();
    return !is_idle || needs_calls_;
  } catch (...) {
    failure_ = std::current_exception();
    return false;
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
  subscribe.set_wants_latest(config_.wants_latest);
  return message;
}

bool InStream::find_producer(std::optional<core::Deadline> until) {
  session_.begin_call("begin_step", name(), 0);
  is_held_ = false;
  if (!is_introduced() && !refusal_) fields_.check_alike();
  if (!refusal_) {
    const Waiting waiting(session_.control(), name(), "a producer");
    const auto outcome = session_.set_up().run(
        *this, false, [&] { return exchange_ != nullptr || refusal_.has_value(); }, until);
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

void InStream::refuse(const Error& error) {
  incarnation_ = 0;
  refusal_ = error;
}

void InStream::join(const wire::Matched& matched) {
  try {
    link_ = open_link(session_, matched, fields_.all(), {.side = transport::Side::consumer},
                      fields_.targets());
    statistics_.plan_seconds = link_.plan.seconds;
    statistics_.transport = link_.transport;
    std::unique_ptr<Sink> sink;
    session_.run_collectively([&] {  // staging may not fit into memory
      sink = std::make_unique<Sink>(std::move(link_.plan), *link_.endpoint, link_.number,
                                    link_.queue, session_.copy_threads());
      needs_calls_ = std::ranges::any_of(sink->plan().messages, [&](const Message& m) {
        return link_.endpoint->needs_calls(m.peer);
      });
      if (needs_calls_) session_.progress().start_thread();
    });
    const auto hold = session_.progress().hold();
    exchange_ = std::move(sink);
    state_ = State::between_steps;
  } catch (const Error& e) {
    link_.signs.reset();  // before its endpoint
    link_ = {};
    link_.number = matched.link();
    if (session_.rank() == 0) tell_server(Farewell::of_all, e.what());
    forget_link();
    link_ = {};
    refuse(e);
  }
}

void InStream::throw_lost(const std::string& why) {
  const std::string where = place();
  state_ = State::lost;
  throw Error(Errc::peer_lost, fmt::format("{}: {}", where, why));
}

std::string InStream::place() const {
  if (!step_) return fmt::format("stream '{}', first step", name());
  return fmt::format("stream '{}', step {}", name(), *step_ + (state_ == State::in_step ? 0 : 1));
}

void InStream::warn_of_circle() {
  wire::Explain question;
  question.set_incarnation(incarnation());
  const auto known = session_.control().explain(question);
  if (known.is_warning())
    session_.log().warn("client", fmt::format("waiting stream={} for={} found=\"{}\"", name(),
                                              link_.peer_group, known.text()));
}

std::string InStream::complaint_of_producer() {
  return complaint(session_, link_, [this](std::size_t m) { return exchange_->is_owed(m); });
}

template <class Poll>
bool InStream::wait_for_producer(Poll&& poll, const std::string& what,
                                 std::optional<core::Deadline> until) {
  const auto hold = session_.progress().hold();
  Control& control = session_.control();
  bool is_reported = false, is_lost = false;
  std::optional<Control::LinkEnd> end;
  core::Deadline grace = core::Deadline::after(0);
  const auto long_wait = core::Deadline::after(circle_seconds);
  auto moved = exchange_->moved();
  const auto check = [&] {
    if (std::exchange(moved, exchange_->moved()) != exchange_->moved()) link_.signs->heard_all();
    if (const auto wrong = end ? std::string() : complaint_of_producer(); !wrong.empty())
      throw Error(Errc::peer_lost, wrong);
    if (session_.rank() == 0 && long_wait.expired() && !std::exchange(is_warned_, true))
      warn_of_circle();
    if (!is_reported) control.report_waiting(name(), link_.number, link_.peer_group);
    is_reported = true;
    if (end) {
      is_lost = grace.expired();
    } else if ((end = control.link_end(link_.number))) {
      grace = core::Deadline::after(0.5);  // for what the producer sent before it died
    }
  };
  const auto start = core::Deadline::Clock::now();
  const auto finish = [&] {
    statistics_.wait_seconds +=
        core::Deadline::Seconds(core::Deadline::Clock::now() - start).count();
    if (is_reported) control.report_waiting(name(), link_.number, "");
  };
  try {
    const bool is_done = wait_for(
                             [&] {
                               session_.progress().advance(this);
                               link_.signs->advance();
                               if (failure_) std::rethrow_exception(std::exchange(failure_, {}));
                               return is_lost ? Polled::done : polled(poll());
                             },
                             until.value_or(session_.step_deadline()), check,
                             [this] { return session_.progress().sleep(); })
                             .second;
    finish();
    if (is_done && !is_lost) return true;
  } catch (...) {
    const Error e = core::current_error();
    finish();
    if (e.code() != Errc::transport && e.code() != Errc::peer_lost) {
      state_ = State::lost;  // what comes next cannot be trusted
      throw e;
    }
    // Perhaps because the producer died: the server knows within a moment.
    const auto knows = [&] { return (end = control.link_end(link_.number)).has_value(); };
    session_.waits_for(knows, core::Deadline::after(2));
    const auto why = fmt::format("producer group '{}': {}", link_.peer_group, e.what());
    if (!end) {  // the others hear of this cause, and not of what this rank does next
      const auto did = fmt::format("lost the stream: {}", why);
      tell_server(Farewell::gave_up, did.c_str());
    }
    throw_lost(end ? end->why : why);
  }
  if (is_lost) throw_lost(end->why);
  if (until && !control.link_end(link_.number)) return false;
  if (until) return wait_for_producer(poll, what);  // for what came before it was lost
  throw Error(Errc::timed_out,
              fmt::format("{}: waited {} s for producer group '{}' to {}; is it "
                          "stuck? step_timeout sets how long a step may take",
                          place(), session_.config().step_timeout, link_.peer_group, what));
}

std::optional<bool> InStream::begin_step_until(std::optional<core::Deadline> until) {
  expects(state_ != State::in_step, [&] {
    return fmt::format("stream '{}': expected end_step before the next begin_step", name());
  });
  expects(state_ != State::closed, [&] {
    return fmt::format("stream '{}' is closed: open it again for further steps", name());
  });
  if (state_ == State::ended) return false;
  if (state_ == State::lost) throw_lost("the producer was lost before");
  if (state_ == State::declaring && !find_producer(until)) return std::nullopt;
  const auto hold = session_.progress().hold();
  // All of the step, so that all its fields are here or none.
  if (!wait_for_producer([&] { return has_step(); }, "send the next step", until))
    return std::nullopt;
  if (exchange_->poll() != Sink::State::end) {
    state_ = State::in_step;
    step_ = exchange_->step();
    statistics_.dropped = exchange_->dropped();
    return true;
  }
  statistics_.dropped = exchange_->dropped();
  tell_producer();
  state_ = State::ended;
  report(true);
  session_.control().send_counters();
  return false;
}

bool InStream::is_ready() {
  if (state_ != State::between_steps) return state_ != State::declaring || refusal_;
  const auto hold = session_.progress().hold();
  session_.progress().advance(this);
  link_.signs->advance();
  if (failure_ || session_.control().link_end(link_.number)) return true;
  try {
    return has_step() || !complaint_of_producer().empty();
  } catch (...) {  // begin_step tells it
    failure_ = std::current_exception();
    return true;
  }
}

void InStream::list_waits(WaitWords& words) {
  if (exchange_ != nullptr && state_ != State::lost) exchange_->list_waits(words);
}

void InStream::leave() {
  if (has_left_ || !exchange_->is_told()) return;
  exchange_->leave();
  link_.signs->end_all();
  has_left_ = true;
}

void InStream::tell_producer() {
  wait_for_producer([&] { return exchange_->is_told(); }, "take the credits");
  try {
    const auto hold = session_.progress().hold();
    leave();
    session_.waits_for([&] { return exchange_->is_told(); }, core::Deadline::after(1));
  } catch (const Error& e) {  // the producer has gone meanwhile: it needs no word any more
    session_.log().debug("client", fmt::format("leave stream={} error=\"{}\"", name(), e.what()));
  }
}

std::uint64_t InStream::step() const {
  expects(step_.has_value(),
          [&] { return fmt::format("stream '{}': expected begin_step before step", name()); });
  return *step_;
}

void InStream::get(int field, std::span<std::byte> local) {
  expects(state_ == State::in_step,
          [&] { return fmt::format("stream '{}': expected begin_step before get", name()); });
  const std::size_t f = fields_.check(field, local.size());
  const std::size_t i = *link_.number_of[f];  // a consumer gets every field that it declares
  const auto hold = session_.progress().hold();
  exchange_->begin_again(i);
  try {
    auto moved = exchange_->moved();
    wait_for_producer(
        [&] {
          if (exchange_->fetch_some(i, local)) return Polled::done;
          const auto before = std::exchange(moved, exchange_->moved());
          return before == moved ? Polled::nothing : Polled::moved;
        },
        "send the rest of the step");
  } catch (...) {
    exchange_->give_up_fetching();  // the buffer is the application's again
    state_ = State::lost;           // what comes next may be what was asked for
    throw;
  }
  try {
    exchange_->tell_mismatch();
  } catch (const Error& e) {  // of one value: the step and the stream are as they were
    throw Error(e.code(), fmt::format("stream '{}', step {}, field '{}': {}", name(), step(),
                                      fields_[f].name, e.what()));
  }
}

void InStream::end_step() {
  expects(state_ == State::in_step,
          [&] { return fmt::format("stream '{}': expected begin_step before end_step", name()); });
  const auto hold = session_.progress().hold();
  wait_for_producer([&] { return exchange_->can_finish_step(); }, "send the rest of the step");
  exchange_->finish_step();
  state_ = State::between_steps;
  statistics_.steps = exchange_->steps();
  statistics_.traffic = exchange_->traffic();
  of_last_step_ = statistics_.since(before_step_);
  before_step_ = statistics_;
  report();
  session_.progress().wake();
}

void InStream::close_link(Farewell farewell, const std::string& why) {
  wire::ToServer message;
  auto& close = *message.mutable_close_link();
  close.set_link(link_.number);
  close.set_of_rank(farewell == Farewell::finished);
  close.set_gave_up(farewell != Farewell::finished);
  close.set_why(why);
  session_.control().call(message, core::Deadline::after(std::min(5.0, session_.config().timeout)));
}

void InStream::tell_server(Farewell farewell, const char* what) noexcept {
  try {
    close_link(farewell,
               farewell == Farewell::of_all ? what
               : farewell == Farewell::gave_up
                   ? fmt::format("rank {} of group '{}' {}", session_.rank(), session_.name(), what)
                   : fmt::format("group '{}' {}", session_.name(), what));
  } catch (...) {  // the producer's ranks know, or the server has gone
    session_.log().try_warn("client", [&] {
      return fmt::format("{} stream={} error=\"{}\"", what, name(), core::current_error().what());
    });
  }
}

void InStream::close() {
  expects(state_ != State::in_step,
          [&] { return fmt::format("stream '{}': expected end_step before close", name()); });
  if (state_ == State::closed) return;
  const auto hold = session_.progress().hold();
  if (state_ == State::between_steps && !has_left_ && session_.control().link_end(link_.number))
    state_ = State::lost;
  // Each rank for itself: one that has lost the stream would not come to an agreement.
  const bool is_linked = exchange_ != nullptr;
  std::exception_ptr failure;
  try {
    if (state_ == State::between_steps) tell_producer();
  } catch (...) {
    failure = std::current_exception();
    state_ = State::lost;
  }
  if (is_linked) {
    report(true);
    session_.control().send_counters();
    if (state_ == State::lost)
      tell_server(Farewell::gave_up, "closed the stream after an error");
    else
      tell_server(Farewell::finished, "closed the stream");
  }
  end();
  exchange_.reset();
  link_.signs.reset();
  link_.endpoint.reset();
  forget_link();
  session_.plans().forget_idle();
  state_ = State::closed;
  if (failure) std::rethrow_exception(failure);
}

Statistics InStream::statistics() const { return statistics_; }

Statistics InStream::step_statistics() const { return of_last_step_; }

std::vector<PeerStatistics> InStream::peer_statistics() const {
  std::vector<PeerStatistics> peers;
  if (exchange_ == nullptr) return peers;
  const auto& messages = exchange_->plan().messages;
  for (std::size_t m = 0; m < messages.size(); ++m)
    peers.push_back({link_.peer_group, messages[m].peer, exchange_->traffic(m),
                     std::string(exchange_->path(m))});
  return peers;
}

void InStream::report(bool is_last) {
  const auto now = core::Deadline::Clock::now();
  if (!is_last && now < next_report_) return;
  next_report_ = now + std::chrono::milliseconds(5);
  wire::Counters counters;
  counters.set_stream(name());
  counters.set_link(link_.number);
  counters.set_steps(statistics_.steps);
  counters.set_packages(statistics_.traffic.packages);
  counters.set_bytes(statistics_.traffic.bytes);
  counters.set_wait_seconds(statistics_.wait_seconds);
  counters.set_plan_seconds(statistics_.plan_seconds);
  counters.set_copied_bytes(statistics_.traffic.copied_bytes);
  counters.set_copy_seconds(statistics_.traffic.copy_seconds);
  counters.set_dropped(statistics_.dropped);
  session_.control().report(counters);
}

}  // namespace tremula::client
