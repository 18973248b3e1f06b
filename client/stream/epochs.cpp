// SPDX-License-Identifier: Apache-2.0
// The part of InStream for a consumer that outlives its producer. Its ranks agree once for each step,
// in whatever way it ends on each of them, so that a loss leaves all of them at the same place:
//
//     rank 0   begin_step  get  end_step               } agreed: lost       begin_step: the producer
//     rank 1   begin_step  get: lost     begin_step    } the step counts    that follows, a new epoch
//     rank 2   begin_step: lost                        } on no rank
//
// Each says what has become of the step (client/waiting/words.hpp), and only end_step waits for the others.
//
//     whole    counts if all say so
//     in_part  counts as whole does, but is served to no group: a rank has not asked for all fields
//     lost     counts if no rank says more: all begin the next epoch
//     failed   counts at once: the rank that says so throws its own error, the others one that names it
//     no_more  counts at once: the end has come over every link of this rank, so all steps were whole
//
// A rank that says no_more, or failed, need not hear of the others. One that has lost the producer while
// it closed the stream waits for them: it hears that there is no more if any rank has seen the end, and
// nothing else can count, since no rank that has seen it says `lost`. That rank 0 has gone before it
// could tell ends in an error, not in another epoch.
#include <fmt/format.h>

#include <algorithm>

#include "client/stream/in_stream.hpp"
#include "client/waiting/wait.hpp"

namespace tremula::client {

using core::Errc, core::Error;

namespace {
/// Between two attempts to find a producer.
constexpr double longest_pause = 2;
/// How long the server's notice of different calls takes to reach all ranks that it concerns.
constexpr double notified_within_seconds = 0.2;

Begun begun_of(std::optional<bool> is_step) {
  return !is_step ? Begun::not_ready : *is_step ? Begun::step : Begun::end_of_stream;
}

/// Another attempt may find the producer that follows.
bool is_passing(const Error& e) {
  return e.code() == Errc::peer_lost || e.code() == Errc::no_server ||
         e.code() == Errc::cancelled || e.code() == Errc::timed_out || e.code() == Errc::transport;
}

/// The rank may call again.
bool is_of_call(const Error& e) {
  return e.code() == Errc::timed_out || e.code() == Errc::deadlock || e.code() == Errc::interrupted;
}
}  // namespace

Begun InStream::begin(std::optional<core::Deadline> until) {
  if (!outlives_producer()) return begun_of(begin_step_until(until));
  check_may_begin();
  if (state_ == State::ended) return Begun::end_of_stream;
  for (;;) {
    if (!is_between_epochs_) {
      if (state_ == State::declaring && !find_next_producer(until)) return Begun::not_ready;
      if (const auto begun = begin_in_epoch(until)) return *begun;
      leave_epoch();
    }
    // A call of another stream may have opened the links.
    if (state_ == State::declaring && !find_next_producer(until)) return Begun::not_ready;
    is_between_epochs_ = false;
    if (!is_same_epoch()) return Begun::epoch;
  }
}

std::optional<Begun> InStream::begin_in_epoch(std::optional<core::Deadline> until) {
  if (failed_) throw *failed_;
  if (is_void_) return std::nullopt;
  if (!said_) try {
      const auto begun = begun_of(begin_step_until(until));
      if (begun == Begun::end_of_stream) say_last(Fate::no_more);
      return begun;
    } catch (const Error& e) {
      if (!links_.is_lost() || is_of_call(e)) throw;
      if (state_ == State::ended) {  // only its credits were lost
        say_last(Fate::no_more);
        return Begun::end_of_stream;
      }
      say_failure(e);
    }
  const auto counts = hear("begin_step", until);
  if (!counts) return Begun::not_ready;
  if (*counts <= Fate::in_part) return begin_in_epoch(until);  // end_step had timed out
  if (*counts == Fate::lost) return std::nullopt;
  state_ = State::ended;
  return Begun::end_of_stream;
}

void InStream::say(Fate fate, Errc code, const std::string& why) {
  session_.words().say(session_.group(), subject_, round_,
                       {.value = static_cast<std::uint8_t>(fate),
                        .is_final = fate == Fate::failed || fate == Fate::no_more,
                        .code = code,
                        .why = why});
  said_ = fate;
}

void InStream::say_last(Fate fate, Errc code, const std::string& why) {
  say(fate, code, why);
  said_.reset();
  unheard_ = round_++;
}

void InStream::say_failure(const Error& e) {
  session_.control().check_own_group();
  session_.log().warn("client", fmt::format("lost_producer {}", e.what()));
  if (e.code() == Errc::peer_lost) return say(Fate::lost);
  say_last(Fate::failed, e.code(), e.what());
  links_.lose();
  throw failed_.emplace(e);
}

void InStream::throw_lost_in_get(const Error& e) {
  session_.control().check_own_group();
  if (e.code() == Errc::peer_lost) throw step_lost(e.what());
  if (!is_of_call(e)) say_failure(e);
  throw e;
}

std::optional<InStream::Fate> InStream::hear(const char* call,
                                             std::optional<core::Deadline> until) {
  const auto describe = [&] {
    wire::Wait wait;
    wait.set_call(call);
    wait.set_stream(name());
    wait.set_step(step_.value_or(0));
    wait.set_what("to report how the step ended");
    wait.set_group(session_.name());
    wait.mutable_words()->set_subject(subject_);
    wait.mutable_words()->set_count(round_);
    wait.set_is_after_loss(said_ == Fate::lost);
    wait.set_is_for_all_ranks(true);
    return wait;
  };
  LongWait long_wait(session_.control().waits(), describe);
  std::optional<Word> all;
  const auto look = [&] {
    session_.progress().advance();
    all = session_.words().receive(session_.group(), subject_, round_);
    return all.has_value();
  };
  const auto check = [&] {
    session_.control().check_own_group();
    if (!until) long_wait.look();
  };
  wait_for(look, until.value_or(session_.step_deadline()), check);
  if (!all && until) {
    session_.control().check_own_group();
    return std::nullopt;
  }
  if (!all)
    throw Error(
        Errc::timed_out,
        fmt::format("{}: waited {} s in {} for the other ranks of group '{}' to end the "
                    "step; is one of them stuck? step_timeout sets how long a step may take",
                    links_.place(), session_.config().step_timeout, call, session_.name()));
  const auto fate = static_cast<Fate>(all->value);
  // Perhaps the other rank has left because it was notified that its calls differ from those of this one.
  if (fate == Fate::failed && !until) try {
      const auto look_again = [&] {
        long_wait.look();
        return false;
      };
      session_.waits_for(look_again, core::Deadline::after(notified_within_seconds));
    } catch (const Error& e) {
      if (e.code() == Errc::mismatch) throw failed_.emplace(e);
    }
  ++round_;
  has_served_ = false;
  const bool counts = fate <= Fate::in_part;
  if (*std::exchange(said_, {}) <= Fate::in_part && !counts) links_.uncount_step();
  if (counts) {
    links_.let_pass_before(step() + 1);
    if (copy_) copy_->end_version(step(), fate == Fate::whole);
  } else {
    before_step_ = statistics_ = links_.statistics();
    links_.lose();
  }
  if (fate > Fate::no_more)
    throw failed_.emplace(
        Errc::protocol, fmt::format("stream '{}': expected a known end of the step from rank {} of "
                                    "group '{}'; found number {}",
                                    name(), all->from.value, session_.name(), all->value));
  if (fate == Fate::failed)  // no later round ends: that rank says no more
    throw failed_.emplace(all->code,
                          fmt::format("stream '{}': rank {} of group '{}' has failed: {}", name(),
                                      all->from.value, session_.name(), all->why));
  return fate;
}

bool InStream::find_next_producer(std::optional<core::Deadline> until) {
  const auto begin_attempts = [this] {
    restart_ = Restart{.until = core::Deadline::after(config_.restart_timeout)};
  };
  if (least_epoch_ > 0 && !restart_) begin_attempts();
  for (;;) {
    if (restart_) {
      const auto turn = next_attempt(until);
      if (turn == Attempt::later) return false;
      if (turn == Attempt::none) throw_not_restarted();
      restart_->has_tried = true;
    }
    try {
      const bool is_found = find_producer(until);
      if (is_found) restart_.reset();
      return is_found;
    } catch (const Error& e) {
      session_.control().check_own_group();
      // Before it has had a link, only a producer that was lost while it was being linked is none.
      const bool passes = restart_ ? is_passing(e) : e.code() == Errc::peer_lost;
      if (state_ != State::declaring || !passes || std::exchange(goes_on_, false)) {
        restart_.reset();
        throw;
      }
      session_.log().warn("client", fmt::format("lost_producer {}", e.what()));
      if (!restart_) begin_attempts();
      restart_->failure = e;
      restart_->next = core::Deadline::after(restart_->pause);
      restart_->pause = std::min(2 * restart_->pause, longest_pause);
    }
  }
}

InStream::Attempt InStream::next_attempt(std::optional<core::Deadline> until) {
  session_.begin_call("begin_step", name(), 0);
  session_.make_call_after_loss();
  const auto wait = [&] {
    const auto most =
        std::min(restart_->until.remaining(), until ? until->remaining() : longest_pause);
    const bool is_now =
        !restart_->next ||
        session_.waits_for([&] { return restart_->next->expired(); }, core::Deadline::after(most));
    const Attempt turn = restart_->until.expired() && restart_->has_tried ? Attempt::none
                         : is_now                                         ? Attempt::now
                                                                          : Attempt::later;
    return core::Bytes{static_cast<std::byte>(turn)};
  };
  return static_cast<Attempt>(session_.run_on_root(wait, session_.deadline()).at(0));
}

void InStream::throw_not_restarted() {
  const auto last = std::exchange(restart_, {})->failure;
  throw Error(last ? last->code() : Errc::timed_out,
              fmt::format("stream '{}': expected its producer, which was lost, to be started again "
                          "within {} s; found {}; restart_timeout sets how long to wait",
                          name(), config_.restart_timeout, last ? last->what() : "none"));
}

void InStream::leave_epoch() {
  copy_.reset();  // its readers leave it, too
  links_.renew(fmt::format("group '{}' has lost stream '{}'", session_.name(), name()));
  session_.plans().forget_idle();
  state_ = State::declaring;
  incarnation_ = 0;
  least_epoch_ = epoch_ + 1;
  had_copy_ = is_copy_;
  lost_streams_ = std::exchange(streams_, {});
  is_void_ = is_redeclared_ = false;
  adopt(redeclarations_ + asked_.size());  // the next producer is told of the newest
  is_between_epochs_ = true;
}

void InStream::finish_step_together() {
  if (failed_) throw *failed_;
  std::string why = fmt::format(
      "stream '{}', step {}: another rank of this group did not get all of it", name(), step());
  if (links_.is_lost()) {
    say(Fate::lost);
  } else {
    try {
      if (copy_) copy_->got(links_.time(), links_.step_attributes());
      finish_step();
      say(copy_ && !copy_->has_all() ? Fate::in_part : Fate::whole);
    } catch (const Error& e) {
      if (is_of_call(e)) throw;
      state_ = State::between_steps;
      say_failure(e);
      why = e.what();
    }
  }
  state_ = State::between_steps;
  if (*hear("end_step", std::nullopt) <= Fate::in_part) return;
  is_void_ = true;
  throw step_lost(why);
}

void InStream::leave_together() noexcept {
  if (subject_ == 0) return;
  try {
    if (state_ != State::ended)
      say_last(Fate::failed, Errc::peer_lost, "it left the stream before its end");
    else if (unheard_ && session_.rank() != Rank{0})
      // for those that have lost the producer meanwhile
      session_.waits_for(
          [&] {
            return session_.words().receive(session_.group(), subject_, *unheard_).has_value();
          },
          core::Deadline::after(1));
  } catch (...) {  // the group has gone
  }
  session_.words().close(subject_);
}

Error InStream::step_lost(const std::string& why) const {
  return {Errc::peer_lost,
          fmt::format("{}; the step counts on no rank of this group, and begin_step {}", why,
                      is_copy_ ? "links the stream to another group that has it"
                               : "waits for the producer to be started again")};
}

}  // namespace tremula::client
