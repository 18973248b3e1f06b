// SPDX-License-Identifier: Apache-2.0
#pragma once
// How the streams of a session meet their other sides. Every collective call of a session that waits
// for another group opens all links that both groups can open now, whichever stream they belong to.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/deadline.hpp"
#include "core/error.hpp"
#include "proto/control.pb.h"

namespace tremula::client {

class Session;

/// One end of a stream on one rank, as the set-up sees it.
class StreamEnd {
public:
  /// Returns the number by which the session identifies the stream to the server; 0 while the server does not know
  /// the stream.
  std::uint64_t incarnation() const noexcept { return incarnation_; }
  bool is_introduced() const noexcept { return incarnation_ != 0; }

  /// Returns a text that is equal on two ranks if both have made the same declarations; empty if there is
  /// nothing to announce to the server now.
  virtual std::string key() const = 0;
  virtual bool is_producer() const noexcept = 0;
  /// Returns how many links the stream of a producer needs.
  virtual int needed_consumers() const noexcept { return 0; }
  virtual const std::string& name() const noexcept = 0;
  /// Returns the Announce or Subscribe of the stream.
  virtual wire::ToServer introduction() const = 0;
  /// Opens a link. Collective. A failure is kept for a later call of the stream, and is the same on all ranks.
  /// @throws core::Error only if the group can no longer be used
  virtual void join(const wire::Matched& matched) = 0;
  /// Keeps an error that the server has reported, for a later call of the stream.
  virtual void refuse(const core::Error& error) = 0;
  /// Returns how many seconds a call waits for the other side to arrive.
  /// @param timeout  timeout of the session
  virtual double most_wait_seconds(double timeout) const { return timeout; }
  /// Ends a turn of a call that waits for links of the stream. Called on every rank.
  /// @param have_begun  whether the producers to which a consumer is not linked yet have already begun the stream
  virtual void end_turn([[maybe_unused]] bool have_begun) {}
  /// Returns the wait of a consumer whose links are all open, while one of its producers has yet to admit it; nullopt
  /// if it waits for no producer. Moves the session's data.
  virtual std::optional<wire::Wait> awaited_begin() { return std::nullopt; }
  /// Returns whether that wait has lasted so long that the producer must have begun the stream.
  virtual bool has_awaited_begin() const { return false; }
  /// Returns whether a consumer takes no further steps over its previous links.
  virtual bool has_lost_links() { return true; }

protected:
  ~StreamEnd() = default;
  std::uint64_t incarnation_ = 0;

private:
  friend class SetUp;
  /// Time at which a consumer that polls with short calls next asks the server why links are missing.
  std::optional<core::Deadline> look_at_;
};

/// The calls of one rank that open links. README.md of this folder explains why such calls cannot
/// wait for each other in a circle.
class SetUp {
public:
  explicit SetUp(Session& session) : session_(session) {}
  SetUp(const SetUp&) = delete;

  /// @param end  must stay valid until it is removed
  void add(StreamEnd& end) { ends_.push_back(&end); }
  void remove(StreamEnd& end) noexcept { std::erase(ends_, &end); }

  /// Returns the names of the streams that are neither closed nor freed.
  std::vector<std::string> open_streams() const;

  /// Returns whether this rank takes no further steps of a stream, because it has lost, closed or freed it.
  bool has_lost(const std::string& stream) const;

  /// Announces to the server all producing ends that all ranks have declared alike. Collective.
  void introduce_producers();

  struct Outcome {
    bool is_done = false;
    std::string found;  ///< if not done: what the server knows instead, in words
    /// If not done: the other side is known, but has not opened the link in time.
    bool has_come = false;
  };
  /// Announces to the server all ends that all ranks have declared alike, and opens links until is_done().
  /// Waits at most own.most_wait_seconds() for the other side to arrive, then at most `step_timeout` for it to open
  /// the link and, if it admits this side later, at most another `step_timeout` for that. Collective.
  /// @param own      the stream whose call this is
  /// @param begins   whether the call begins a step of `own`
  /// @param is_done  called on rank 0
  /// @param until    time at which the call stops waiting, even for a server, by rank 0's clock;
  ///                 may be in the past; nullopt: the call's own limits apply
  /// @param chosen_by  time until which the server may hold the call for missing provider choices;
  ///                   nullopt: `until` or, without it, one step_timeout from when the call could return
  Outcome run(StreamEnd& own, bool begins, const std::function<bool()>& is_done,
              std::optional<core::Deadline> until = std::nullopt,
              std::optional<core::Deadline> chosen_by = std::nullopt);

private:
  struct Wait;
  /// Returns the ends that all ranks have declared alike and that have something to announce. Collective.
  std::vector<StreamEnd*> alike(bool with_consumers) const;
  /// Announces to the server all ends that all ranks have declared alike. Collective.
  /// @param deadline  deadline of the server's answers
  /// @param look      as for Control::call; used on rank 0
  void introduce(bool with_consumers, core::Deadline deadline,
                 const std::function<void()>& look = {});
  /// Withdraws the announcement of an end.
  void take_back(const StreamEnd& end);
  wire::SetUpTurn next_turn(Wait& wait);
  static bool is_over(const Wait& wait);
  /// Returns whether the call has waited long enough, or is past its own time limit.
  bool is_late_or_over(Wait& wait);
  /// Asks the server why links are missing, and logs a warning if the reason persists.
  /// @return whether the call has waited long enough
  bool is_late(Wait& wait);
  /// Returns whether the wait for a linked producer has lasted too long. Does not ask the server.
  bool is_late(Wait& wait, const wire::Wait& begin);
  /// Returns what the server knows about missing links. Once the call's time is over, waits at most
  /// one more second, and returns an empty answer if the server does not reply.
  wire::Explained explain(const Wait& wait, bool is_served);
  /// Sets `until` to the end of a step's time limit if it is empty. Returns whether `until` has passed.
  bool lasts_a_step(std::optional<core::Deadline>& until) const;
  void carry_out(const wire::ToClient& event);
  void join_without_end(const wire::Matched& matched);
  /// Sends the server the choices of `offer` that all ranks have. Collective.
  void send_choices(const std::string& offer);

  Session& session_;
  std::vector<StreamEnd*> ends_;
  std::uint64_t last_incarnation_ = 0;  // equal on all ranks
};

}  // namespace tremula::client
