// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/exchange/memory/memory_view.hpp"
#include "client/exchange/statistics.hpp"
#include "client/stream/link/declared_fields.hpp"
#include "client/stream/producers/producer_links.hpp"
#include "client/stream/serving.hpp"

namespace tremula::client {

/// The steps that a consumer needs at a time t, of a stream whose steps have times.
enum class Needed {
  at,     ///< the newest at or before t
  around  ///< the one at t, or the newest before t and the first after it
};

/// Outcome of a begin_step.
enum class Begun : std::uint8_t {
  not_ready,
  step,
  up_to_date,  ///< begin_step_by: the steps needed have all been delivered already
  end_of_stream,
  epoch,  ///< linked to another producer; the next call begins its first step
};

/// The consumer's end of a stream on one rank. tremula.h states what an application may rely on.
/// The first begin_step is collective over the group; afterwards each rank proceeds and closes at
/// its own pace.
class InStream final : private Moving, private StreamEnd {
public:
  InStream(Session& session, const std::string& name, const InConfig& config = {});
  ~InStream();

  /// Declares a field.  @return its index
  int declare(proto::Field field, const FieldUpdate& update = {});
  /// Gives the labels of the fields' layouts to ranks so that the fewest bytes come from other
  /// hosts. Collective, once, after all fields are declared. Waits for a producer.
  /// @return this rank's label
  Rank relabel(const RelabelConfig& config = {});
  /// Gives fields other layouts of the same shapes, beginning with a step that the producer has not
  /// begun yet; redeclarations() shows which layouts a step has. Collective, between two steps. A
  /// refused call does not change the stream. If the producer has ended the stream or is lost, the
  /// next begin_step reports that.
  /// @throws core::Error invalid_argument, unsupported, mismatch; refused, no_server, timed_out
  void redeclare(std::span<const std::pair<int, index_calc::Layout>> layouts);
  /// Returns how many calls of redeclare() hold for the step begun last.
  std::uint64_t redeclarations() const noexcept { return redeclarations_; }
  /// Begins the next step.  @return false at the end of the stream
  bool begin_step() { return *begin_step_until(std::nullopt); }
  /// Begins the next step. Collective until the stream is linked, and where layouts were declared
  /// again: the call waits for that whatever `until` is. Otherwise each rank calls it for itself.
  /// @param until  time, possibly in the past, from which the call does not wait for the step
  /// @return as begin_step(); nullopt if there is no step yet
  std::optional<bool> begin_step_until(std::optional<core::Deadline> until);
  /// Begins the first step that the application needs at `time` and has not begun yet, and skips
  /// earlier ones. Waits until it is known which step that is, i.e. until the producer has ended a
  /// step at or after `time`, or the stream. Collective: all ranks pass the same time.
  /// @param time  not before that of an earlier call
  /// @param unit  unit of `time`; empty for that of the stream
  /// @return up_to_date if the application has begun every step that it needs
  Begun begin_step_by(Needed needed, std::int64_t time, std::string_view unit);
  /// Begins the next step as begin_step_until() does, for a stream that may outlive its producer
  /// (InConfig::restart_timeout) or not. If it may, the call is also collective from the loss of
  /// the producer until it has returned `epoch`.
  Begun begin(std::optional<core::Deadline> until);
  /// Returns whether begin_step would return at once. Never blocks, and needs no other rank.
  bool poll_ready();
  std::uint64_t step() const;
  /// Returns the time of the step, in the unit of the stream.
  std::int64_t time() const;
  /// Returns a copy of the attributes that the producer has set.
  /// @param of  a field or of_stream, once the stream is linked; or of_step, in a step
  proto::Attributes attributes(int of) const;
  /// Returns the layout of the application's array: as declared or, for a changing field, in this
  /// step.
  const index_calc::Layout& layout(int field) const;
  void get(int field, MemoryView array);
  /// Returns whether get of the step begun last writes every element of this rank's part.
  bool fills(int field) const;
  /// Ends the step. Collective if the stream may outlive its producer: a step counts on all ranks
  /// or on none.
  void end_step();
  void close();
  Statistics statistics() const;
  /// Returns the statistics of the step ended last. The time of a message on the wire counts for
  /// the step in which it became known.
  Statistics step_statistics() const;
  /// Returns the statistics of all open links, each in the order of its plan.
  std::vector<PeerStatistics> peer_statistics() const { return links_.peer_statistics(); }

private:
  enum class State { declaring, between_steps, in_step, ended, closed };
  /// What has become of a step on a rank, or on all: see epochs.cpp.
  enum class Fate : std::uint8_t { whole, in_part, lost, failed, no_more };

  bool outlives_producer() const noexcept { return config_.restart_timeout > 0; }
  /// @return nothing: the producer is lost, as all ranks know
  std::optional<Begun> begin_in_epoch(std::optional<core::Deadline> until);
  /// Once for each step, in whatever call this rank has come to its end.
  void say(Fate fate, core::Errc code = {}, const std::string& why = {});
  /// The same where no word of another rank matters to this one.
  void say_last(Fate fate, core::Errc code = {}, const std::string& why = {});
  /// The stream has failed with `e` on this rank.
  /// @throws e unless it says that the producer is lost
  void say_failure(const core::Error& e);
  [[noreturn]] void throw_lost_in_get(const core::Error& e);
  /// What has become of the step on all ranks.  @pre this rank has said its own
  /// @return nothing: not known before `until`
  /// @throws core::Error of another rank on which the stream has failed; timed_out
  std::optional<Fate> hear(const char* call, std::optional<core::Deadline> until);
  /// Leaves the producer that was lost, for the one that follows.
  void leave_epoch();
  /// Collective: as find_producer, again and again if a producer was lost before.
  /// @throws core::Error the last one, after restart_timeout; peer_lost if the producer goes on
  bool find_next_producer(std::optional<core::Deadline> until);
  /// While a producer that follows is awaited.
  struct Restart {
    core::Deadline until;
    double pause = 0.05;                   // after the next attempt that fails, seconds
    std::optional<core::Deadline> next{};  // attempt; none: at once
    std::optional<core::Error> failure{};  // of the last one
    bool has_tried = false;
  };
  enum class Attempt : std::uint8_t { now, later, none };
  /// Collective. Waits for the time of the next attempt, as rank 0 sees it.
  Attempt next_attempt(std::optional<core::Deadline> until);
  [[noreturn]] void throw_not_restarted();
  /// The link that was lost was to a copy, and the stream goes on in its epoch.
  bool is_same_epoch() const noexcept { return had_copy_ && epoch_ < least_epoch_; }
  void finish_step();
  /// Finishes the step on all ranks, with one outcome. Collective.
  /// @throws core::Error peer_lost if the step is lost on any
  void finish_step_together();
  /// This rank says no more. Waits a second at most.
  void leave_together() noexcept;
  /// Of a rank that can go on with another producer.
  core::Error step_lost(const std::string& why) const;
  /// Of a reader that serves: links others until the next version is here on all ranks, or a rank has
  /// lost its link. Collective, until it has returned true for the step in turn.
  /// @return false if `until` has passed before
  bool serve_until_step(std::optional<core::Deadline> until);

  bool advance() noexcept override { return links_.advance(); }
  void list_waits(WaitWords& words) override { links_.list_waits(words); }
  void list_turns(std::vector<LinkTurns>& turns) override { links_.list_turns(turns); }
  void check_may_begin() const;
  /// Waits for the step in turn, which `call` needs.
  /// @return as begin_step_until; nothing, too, if is_redeclared_
  std::optional<bool> find_step(const char* call, std::optional<core::Deadline> until);
  /// The application has the step in turn.
  void enter_step();
  /// From now on the fields are those of that redeclaration, and earlier ones are over.
  void adopt(std::uint64_t number);
  /// Its time.
  std::int64_t time_in_turn() const;
  /// @throws core::Error unsupported, mismatch if this stream's steps cannot be asked for by their time
  void check_times(std::string_view unit) const;
  /// All ranks ask for the same time. Once a link has ended, each rank goes on for itself.
  void agree_on(const char* call, std::int64_t time);
  [[noreturn]] void throw_too_early(std::int64_t time, std::int64_t first) const;
  /// Waits until all that produce the stream have come and are linked.
  bool find_producer(std::optional<core::Deadline> until);
  /// Returns why a link has ended while others are missing or have not begun; none: none has. Collective.
  std::optional<core::Error> end_of_a_link();
  /// Begins the links, once all are open and have begun as rank 0 sees it. Keeps what fails, as refuse() does.
  /// @return false if `until` has passed before
  bool begin_links(std::optional<core::Deadline> until);
  void end_set_up();
  void withdraw() noexcept;
  std::string key() const override;
  bool is_producer() const noexcept override { return false; }
  double most_wait_seconds(double timeout) const override {
    return restart_ ? restart_->until.remaining() : timeout;
  }
  wire::ToServer introduction() const override;
  void join(const wire::Matched& matched) override;
  void refuse(const core::Error& error) override;
  void end_turn(bool have_begun) override {
    if (have_begun) links_.let_pass();
    links_.report_not_begun();
  }
  std::optional<wire::Wait> awaited_begin() override;
  bool has_awaited_begin() const override { return links_.has_awaited_begin(); }
  bool has_lost_links() override;
  void end() noexcept;  ///< no call of the session concerns the stream any more
  const std::string& name() const noexcept override { return fields_.stream(); }

  Session& session_;
  DeclaredFields fields_;
  InConfig config_;
  State state_ = State::declaring;
  bool is_relabeled_ = false;
  bool is_held_ = false;  // relabel has failed: no rank is told before begin_step is called
  std::optional<core::Error> refusal_;  // why there is no link; until begin_step has thrown it
  ProducerLinks links_;
  std::optional<std::uint64_t> step_;                   // opened last
  std::optional<std::int64_t> first_time_, last_time_;  // of the steps that were opened
  std::optional<std::int64_t> asked_time_;              // last, by begin_step_by
  bool has_waited_for_step_ = false;                    // since a step ended last
  std::uint64_t epoch_ = 0;                             // of the links
  std::uint64_t least_epoch_ = 0;  // that it can be linked to; above 0: its producer was lost
  std::string token_;              // of the links, for the server
  /// Numbers of the streams to which the links are, and to which those were that are lost.
  std::vector<std::uint64_t> streams_, lost_streams_;
  std::uint64_t subject_ = 0;             // of the agreements; 0: it has had no link
  std::uint64_t round_ = 0;               // of them; one for each step
  std::optional<Fate> said_;              // in this one
  std::optional<std::uint64_t> unheard_;  // round that this rank has left
  std::optional<Restart> restart_;
  bool goes_on_ = false;               // the producer that was lost, as the next link has shown
  bool is_void_ = false;               // agreed: the producer is lost
  std::optional<core::Error> failed_;  // what a rank of this group has failed with: no step follows
  bool is_between_epochs_ = false;     // from then until begin() has reported the next one
  bool is_copy_ = false;               // that of another reader: what the link is to
  bool had_copy_ = false;              // the link that was lost was to one
  bool has_served_ = false;            // before the step in turn
  bool is_redeclared_ =
      false;  // the step in turn has other layouts, for which links are set up anew
  std::uint64_t redeclarations_ = 0;    // that hold
  std::deque<DeclaredFields> asked_{};  // of those that follow, one each
  Statistics before_step_, of_last_step_;
  Statistics statistics_;             // up to the last finished step
  std::unique_ptr<ServedCopy> copy_;  // of a reader that serves, while it is linked
};

}  // namespace tremula::client
