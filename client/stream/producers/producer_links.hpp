// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/exchange/memory/memory_view.hpp"
#include "client/exchange/sink.hpp"
#include "client/exchange/statistics.hpp"
#include "client/stream/link/declared_fields.hpp"
#include "client/stream/link/link.hpp"
#include "client/waiting/wait.hpp"

namespace tremula::client {

/// The links of a consumer's stream on one rank, one for each group that produces a part of the
/// arrays. A step has arrived when all of them have it.
///
/// Groups that produce together may be at different steps when a consumer joins late. A link that
/// lags catches up: its steps pass without being fetched.
///
///     links open     'west' begins with step 10     'east' begins with step 12
///     first step     10 and 11 of 'west' pass, then both are at 12, on every rank
///
/// A group that already has consumers lets this one in while its stream runs, and only then sends
/// the number of the first step: links are first open, then begun, then complete.
///
/// ../README.md explains why groups never wait for each other in a circle meanwhile.
class ProducerLinks {
public:
  /// @param fields  fields of the stream; all three must outlive this object
  /// @param owner   stream that moves these links
  ProducerLinks(Session& session, const DeclaredFields& fields, const Moving& owner)
      : session_(session), fields_(fields), owner_(owner) {}

  /// Opens one more link, which may be the last one of the stream. Collective.
  /// @throws core::Error on every rank; links that were opened before stay open
  void open(const wire::Matched& matched);
  bool is_empty() const noexcept { return links_.empty(); }
  /// Returns whether all links of the stream are open and begin with the same step.
  bool is_complete() const noexcept { return is_complete_; }
  /// Returns whether all links are open, and a group has yet to let this one in. Moves the session.
  bool awaits_begin();
  /// Returns whether all links are open and begun, but not complete: begin() is next. Moves the session.
  bool can_begin();
  /// Notes that this rank waits for a group that has yet to let this one in, if it does.
  void await_begin();
  /// Returns whether await_begin() was so long ago that the group must be inside a step, and may be
  /// waiting for steps of others.
  bool has_awaited_begin() const noexcept {
    return !is_complete_ && kept_until_ && kept_until_->expired();
  }
  /// Returns what is wrong with a link while a group has yet to come or to let this one in, as this
  /// rank found it first, and once the server has had time to report the cause; nullopt if nothing
  /// is wrong. Moves the session.
  std::optional<core::Error> why_not_begun();
  /// Reports that failure to all sides, once. Rank 0 reports nothing: it has a call in which all
  /// ranks learn what it finds.
  void report_not_begun() noexcept;
  /// Waits until all groups have let in this rank as well, and agrees with the other ranks on the
  /// first step. Collective.  @pre can_begin() on rank 0
  /// @param until  time from which it does not wait
  /// @return false on every rank if `until` has passed first on any
  /// @throws core::Error on every rank; the links stay open
  bool begin(std::optional<core::Deadline> until);
  /// Lets all steps pass unfetched until is_complete().
  void let_pass();
  /// Lets the steps before `step` pass unfetched: they were delivered over an earlier link.
  void let_pass_before(std::uint64_t step) noexcept { had_before_ = step; }
  /// Closes all links. Collective, before is_complete().
  void give_up(const std::string& why);
  /// Closes all links, so that others can be opened, and keeps their statistics. Collective.
  void renew(const std::string& why);
  /// Uncounts the step finished last, because it was not whole on another rank.
  void uncount_step() noexcept { --steps_; }

  /// Takes what has arrived. The next wait throws a failure.
  /// @return whether anything may still be in flight
  bool advance() noexcept;
  void list_waits(WaitWords& words);
  void list_turns(std::vector<LinkTurns>& turns) const;
  /// Describes the wait for the first link that owes something.
  wire::Wait describe_wait(const char* call, std::string_view what) const;
  /// Waits until poll() is done. After any failure but timed_out, deadlock and interrupted,
  /// is_lost().
  /// @param call   name of the waiting call, if the producers' applications have to act; null if
  ///               not
  /// @param what   what the producers have to do, e.g. "send the next step"
  /// @param until  time from which it does not wait
  /// @return false if `until` has passed first
  /// @throws core::Error peer_lost, timed_out, transport, deadlock
  bool wait(const std::function<Polled()>& poll, const char* call, std::string_view what,
            std::optional<core::Deadline> until = std::nullopt);
  /// Returns whether further steps cannot be delivered, or cannot be trusted.
  bool is_lost() const noexcept { return is_lost_; }
  void lose() noexcept { is_lost_ = true; }
  [[noreturn]] void throw_lost(const std::string& why);
  /// Returns the numbers of all links.
  std::vector<std::uint64_t> numbers() const;
  /// Returns the first end that the server has reported of a link that is still needed; nullopt if
  /// none.
  std::optional<Control::LinkEnd> find_end();
  /// Returns whether a wait for the current step would end at once. Never blocks.
  bool poll_ready();
  /// Returns whether a link has ended or failed, which the next wait reports.
  bool poll_failed();

  /// Asks for the current step. True if all of it has arrived, or the end.
  /// @throws core::Error mismatch if one group has ended the stream before another
  bool poll_step();
  /// Returns whether the end has arrived over every link.
  bool poll_end();
  /// Returns whether, after that end, the stream continues with layouts that were declared again;
  /// see reopen().
  bool is_redeclared() const;
  /// Sets up the link anew. Collective, as all ranks reach that end.
  /// @param adopt  changes the fields to those that this group wants with the next step; called
  ///               before the link is opened
  /// @throws core::Error on every rank; then is_lost()
  void reopen(const std::function<void(const wire::Redeclared&)>& adopt);
  /// Returns the number of the current step.  @pre poll_step(), not poll_end()
  std::uint64_t step() const noexcept { return links_.front().exchange->step(); }
  /// Returns the time of the current step.  @pre poll_step(), not poll_end()
  std::optional<std::int64_t> time() const noexcept { return links_.front().exchange->time(); }
  /// Returns the attributes of the current step, as set by the group whose name sorts first.
  /// @pre poll_step(), not poll_end()
  const proto::Attributes& step_attributes() const noexcept {
    return links_.front().exchange->attributes();
  }
  /// Looks at the step after the current one, over all links; see Sink::look_ahead.
  /// @pre poll_step(), not poll_end(), why_no_look_ahead() is empty
  Sink::Next look_ahead();
  /// Returns why the links cannot look ahead, with what was expected and what was found; empty if
  /// they can.
  std::string why_no_look_ahead() const;
  /// Returns the link that holds the attributes of the stream and of its fields.  @pre
  /// is_complete()
  const Link& first_link() const noexcept { return links_.front().link; }
  /// Returns how many elements of this rank's part of `field`, whose extent is fixed, a step brings.
  /// @pre is_complete()
  core::Index arriving_elements(std::size_t field) const;
  /// Returns the stream and the step that this rank is in, or expects next, for people.
  std::string place() const;
  /// Returns the layout of a changing field in the current step.  @pre poll_step(), not poll_end()
  const index_calc::Layout& layout(std::size_t field) const {
    const Open& open = links_.front();  // such a field has one producer
    return open.exchange->layout(*open.link.number_of[field]);
  }
  /// Brings `field` of the current step into `array`, and waits for whatever has not arrived. For a
  /// short field that has arrived it moves nothing else of the session and reads no clock: many
  /// small fields cost no more than their bytes.
  /// @throws core::Error as wait(); the caller then calls give_up_fetching()
  void get(std::size_t field, MemoryView array);
  void give_up_fetching() noexcept;
  /// Throws if fetched data differs from what was put, or does not fit its type.
  /// @throws core::Error mismatch
  void rethrow_mismatch();
  bool poll_finish();
  void finish_step();
  /// Finishes the current step without giving it to the application, in place of finish_step().
  void pass_step();
  /// Reports to all producers, once, that this rank has seen the end or wants no more steps.
  void take_leave();

  /// How this rank, or rank 0 for all, leaves a link.
  enum class Farewell { of_all, finished, gave_up };
  void tell_server(Farewell farewell, const std::string& what) noexcept;
  /// Reports to the server how far this rank has come, at most once in 5 ms unless `is_last`.
  void report(bool is_last = false);
  /// Makes the session forget all links: later notices of the server about them are ignored.
  void forget();
  void drop_all();

  Statistics statistics() const;
  /// Returns the number of dropped steps, as in statistics().  @pre the progress engine is held
  std::uint64_t dropped() const;
  double wait_seconds() const noexcept { return wait_seconds_; }
  /// Returns the statistics of all peers, in the order of the links and of each link's plan.
  std::vector<PeerStatistics> peer_statistics() const;

private:
  /// What exchanges have counted that the link had before.
  struct Before {
    std::uint64_t steps = 0, turns = 0, dropped = 0;
    Traffic traffic{};
    double plan_seconds = 0;
  };
  struct Open {
    Link link;
    wire::Matched matched;  // of it
    Before before{};
    std::unique_ptr<Sink> exchange;  // uses link.endpoint: destroyed first
    std::exception_ptr failure;      // of advance()
    bool has_left = false;           // told the producer so
    bool has_answered = false;       // that it has seen the end, or wants no more
    bool is_fetched = false;         // of the field that is fetched now
    bool needs_calls = false;        // bytes come only inside calls
    std::uint64_t moved = 0;         // when the peers were judged last
    /// Of the step in turn. Only where nothing is dropped: `step` is not known before it has come.
    std::uint64_t next() const noexcept {
      return link.signs->first_step().value_or(link.first_step) + exchange->steps();
    }
  };

  /// Opens one more link; `before` counts what arrived over the one that it replaces.
  /// @throws core::Error on every rank, which then calls give_up()
  void add_link(const wire::Matched& matched, const Before& before);
  /// Reports to the server that a link could not be opened, and forgets it. Called on every rank.
  void give_up(std::uint64_t link, const core::Error& error);
  /// Agrees with the other ranks on the first step: the greatest of any link of any rank. All links are open.
  void complete();
  /// Finishes the steps that go by, as far as they have come.
  /// @return whether the step in turn is one that the application gets
  bool catch_up(Open& open);
  /// Tells the producer that this rank has seen the end, or wants no more.
  void answer(Open& open);
  /// The same, and takes nothing more of the link.
  void leave(Open& open);
  /// True when all of `field` is in `array`.
  bool fetch_some(std::size_t field, MemoryView array);
  /// Bytes that had to be waited for.
  std::uint64_t moved() const noexcept;
  /// Moves the session once, but for these links, and looks at their peers.
  void move_others();
  /// What advance() has found wrong, at_ being its link.
  void rethrow_failure();
  /// Throws what a link has failed to send, `grace` after the first call that finds such a failure:
  /// the step in turn may still come from other ranks of the producer.
  void rethrow_unsent(std::optional<core::Deadline>& grace);
  /// A look at the links, at_ being the last, has failed with `e`. Asks the server for the cause.
  /// @param look_for_circle  may throw, too
  [[noreturn]] void throw_cause(const core::Error& e, const std::function<void()>& look_for_circle);
  bool is_owed(const Open& open) const;
  /// Returns what why_not_begun() keeps.  @pre the progress engine is held
  std::optional<core::Error> find_failure();
  /// Groups that owe something, for people.
  std::string owing() const;
  /// What is wrong with a rank that owes something; empty: nothing.
  std::string complaint_of_any();
  /// Checks that each group is at the step that follows from its promised first step and the steps taken
  /// since. Another step holds other values.
  /// @throws core::Error mismatch
  void check_steps() const;
  /// @throws core::Error mismatch if the groups have told different times of the step
  void check_times() const;
  [[noreturn]] void throw_uneven();
  void report_waiting(bool waits);
  /// Sends the failure of this rank to all sides, as far as the server answers.
  void report_own_failure(const core::Error& e) noexcept;
  void tell_server(std::uint64_t link, Farewell farewell, const std::string& what) noexcept;
  const std::string& stream() const noexcept { return fields_.stream(); }

  Session& session_;
  const DeclaredFields& fields_;
  const Moving& owner_;
  std::vector<Open> links_;
  std::size_t at_ = 0;             // the link that a call is about: if it throws, it is of that one
  std::uint64_t incarnation_ = 0;  // of the stream, as the server knows it
  bool is_open_ = false, is_complete_ = false;  // all links
  std::optional<core::Deadline> kept_until_;    // steps of links that wait for others to begin
  bool is_not_begun_reported_ = false;
  std::optional<core::Deadline> explained_by_;  // why a link has failed while it waited to begin
  std::optional<core::Error> not_begun_;        // for which others need not be waited for
  std::atomic<bool> is_lost_ = false;           // the application sets it, the engine reads it
  std::uint64_t pass_until_ = 0;                // steps before this one go by
  std::uint64_t had_before_ = 0;                // likewise
  std::uint64_t steps_ = 0, passed_ = 0;        // that the application has had, has not asked for
  std::optional<std::int64_t> time_;            // of the last of them
  std::size_t got_bytes_ = 0;                   // since all of the session was moved
  Statistics ended_;                            // of links that are no more
  double wait_seconds_ = 0;
  core::Deadline::Clock::time_point next_report_;
};

}  // namespace tremula::client
