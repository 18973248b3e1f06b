// SPDX-License-Identifier: Apache-2.0
#pragma once
// One rank's membership in a group that is connected to a server: the state that all streams of the rank share.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/exchange/memory/copy_threads.hpp"
#include "client/session/agreement.hpp"
#include "client/session/config.hpp"
#include "client/session/control.hpp"
#include "client/session/progress.hpp"
#include "client/session/set_up.hpp"
#include "client/waiting/dump.hpp"
#include "client/waiting/wait.hpp"
#include "client/waiting/words.hpp"
#include "core/error.hpp"
#include "index_calc/plan/plan_cache.hpp"
#include "transport/group.hpp"
#include "transport/transport.hpp"

namespace tremula::client {

class Session {
public:
  /// Opens the session of a group that has no MPI: its ranks meet through the server, and then agree over a
  /// transport. Collective.
  /// @param rank, size  both -1: RANK and WORLD_SIZE from the environment
  static std::unique_ptr<Session> open(const std::string& group, int rank, int size,
                                       const SessionConfig& config);

  using Transports = std::vector<std::unique_ptr<transport::Transport>>;
  /// Makes the transports of one rank from a configuration that has an address in `ofi_bind`.
  using MakeTransports = std::function<Transports(const SessionConfig&)>;

  /// Opens the session of a group with its own channel and transports (MPI, or a test's).
  /// Collective over `channel`.
  /// @param make  called when the rank has joined the server, which determines where the rank
  /// listens
  static std::unique_ptr<Session> open(const std::string& group,
                                       std::unique_ptr<transport::Group> channel,
                                       const MakeTransports& make, const SessionConfig& config);
  /// Opens such a session with transports that do not depend on the server.
  static std::unique_ptr<Session> open(const std::string& group,
                                       std::unique_ptr<transport::Group> channel,
                                       Transports transports, const SessionConfig& config);

  /// Returns the transports that need no launcher, according to `config.transport`: local, tcp, and ofi if
  /// it is in this build. With auto, each pair of ranks uses the best transport available to it.
  /// @throws core::Error unsupported if the requested transport is not in this build; invalid_argument
  /// if libfabric is requested although jobs have a key and the network is not trusted
  static Transports network_transports(const SessionConfig& config);

  const std::string& name() const noexcept { return name_; }
  core::Rank rank() const noexcept { return group_->rank(); }
  core::RankCount size() const noexcept { return group_->size(); }
  const SessionConfig& config() const noexcept { return config_; }  ///< with the host's name
  const core::Log& log() const noexcept { return *log_; }
  Control& control() noexcept { return *control_; }
  transport::Group& group() noexcept { return *group_; }
  core::Deadline deadline() const {
    return core::Deadline::after(config_.timeout);
  }  ///< deadline of a set-up that begins now
  core::Deadline step_deadline() const {
    return core::Deadline::after(config_.step_timeout);
  }  ///< deadline of a step that begins now

  /// Returns the offers that every rank of the group has, best first. Fixed when the session is opened.
  const std::vector<wire::Offer>& offers() const noexcept { return offers_; }
  /// Returns whether `offer`, one of offers(), has several choices: see Transport.
  bool has_choices(const std::string& offer) { return transport_of(offer).has_choices(offer); }
  /// Returns whether endpoints of `offer` can connect in any thread: see Transport.
  bool connects_alone(const std::string& offer) { return transport_of(offer).connects_alone(); }
  /// Returns the choices of such an offer that every rank of the group has, best first. Collective.
  /// @throws core::Error unsupported if there is no such choice
  std::vector<std::string> choices(const std::string& offer);
  /// Opens this rank's end of a new link over `offer`, one of offers().
  /// @param choice  one of the choices of the offer; the offer itself if it has none
  std::unique_ptr<transport::Endpoint> open_endpoint(const std::string& offer,
                                                     const std::string& choice,
                                                     transport::Side side);

  /// Returns the plans that all streams of this rank share.
  index_calc::PlanCache& plans() noexcept { return plans_; }
  /// Returns the threads that copy for all streams of this rank.
  CopyThreads& copy_threads() noexcept { return copy_threads_; }
  /// Returns the words by which ranks agree outside their collective calls; used with group().
  WordExchange& words() noexcept { return words_; }
  /// Returns the engine that moves all streams of this rank.
  ProgressEngine& progress() noexcept { return progress_; }
  /// Returns the set-up that links all streams of this rank.
  SetUp& set_up() noexcept { return set_up_; }

  /// Repeats `poll` until it returns true, and moves all streams while it waits.
  /// @return false if the deadline passes first
  template <class Poll>
  bool waits_for(Poll&& poll, core::Deadline deadline) {
    const auto moving_poll = [&] {
      progress_.advance();
      return poll();
    };
    return wait_for(moving_poll, deadline, [] {}).second;
  }

  /// Names the current call. Every call of a stream in which ranks agree begins with this, so that ranks in
  /// different calls get an error that names both calls.
  void begin_call(std::string_view name, std::string_view stream, std::uint64_t step) {
    call_.name = name, call_.stream = stream, call_.step = step;
    call_.is_between_turns = call_.is_after_loss = false;
    in_call_of_ = 0;
  }
  /// Marks the current call as one that every rank makes between the same two steps of a stream that it
  /// consumes. This rank has not waited for the second of these steps.
  void make_call_between_steps() noexcept { call_.is_between_turns = true; }
  /// Marks the current call as one that waits for the group because this rank has lost a producer.
  void make_call_after_loss() noexcept { call_.is_after_loss = true; }
  /// Marks the current call as one of a stream that this group produces: the call ends if another
  /// rank leaves the stream before its end.
  /// @param incarnation  incarnation of the stream; 0: none yet
  void end_call_with(std::uint64_t incarnation) noexcept { in_call_of_ = incarnation; }
  /// Returns the bytes of every rank on every rank. Collective, as are the functions below; see agreement.hpp.
  std::vector<core::Bytes> allgather(core::Bytes bytes, core::Deadline deadline);
  /// Returns the bytes of every rank on every rank, for an agreement about the steps of a stream that is consumed
  /// over `links`: the end of any of these links ends the wait, in the next two functions as well.
  std::vector<core::Bytes> allgather_over(std::vector<std::uint64_t> links, core::Bytes bytes,
                                          core::Deadline deadline);
  core::Bytes run_on_root_over(const std::vector<std::uint64_t>& links,
                               const std::function<core::Bytes()>& work, core::Deadline deadline);
  void run_collectively_over(const std::vector<std::uint64_t>& links,
                             const std::function<void()>& work, core::Deadline deadline);
  core::Bytes run_on_root(const std::function<core::Bytes()>& work, core::Deadline deadline);
  void run_collectively(const std::function<void()>& work, core::Deadline deadline);
  void run_collectively(const std::function<void()>& work) { run_collectively(work, deadline()); }

private:
  Session(std::string name, const SessionConfig& config);
  void make_log(core::Rank rank);
  std::unique_ptr<Control> join(core::Rank rank, core::RankCount size, const std::string& job);
  /// Adds to the configuration what depends on the server: the address to bind to, and whether there is a key.
  /// @pre this rank has joined
  void complete_config();
  /// Replaces `ofi_bind` with an address: unless another is configured, the address used to reach
  /// the server; empty: loopback.
  /// @pre this rank has joined
  void choose_bind_address();
  void agree_on_offers();
  /// Returns the transport of an offer.
  /// @throws core::Error protocol if `offer` is not one of offers()
  transport::Transport& transport_of(const std::string& offer);
  /// Makes waiting agreements of this group check for lost ranks, streams and links, and move this rank's data.
  void watch_own_group();
  /// Connects the ranks of a group without MPI, so that they agree without the server from then on.
  void link_own_ranks();
  AgreementContext agreement_context() { return {*group_, name_, call_, &left_, &has_lost_}; }
  /// Returns why a link of the agreement that is under way has ended; empty if none has.
  std::string why_over();

  std::string name_;
  SessionConfig config_;
  std::unique_ptr<core::Log> log_;
  std::unique_ptr<Control> control_;
  Transports transports_;
  std::unique_ptr<transport::Group> group_;  // after the members that it may use
  CollectiveCall call_;                      // the latest collective call
  std::uint64_t in_call_of_ = 0;     // incarnation of the produced stream of that call; 0: none
  std::vector<std::uint64_t> over_;  // links whose end ends the agreement that is under way
  Left left_;
  std::vector<wire::Offer> offers_;
  WordExchange words_;
  index_calc::PlanCache plans_;
  CopyThreads copy_threads_;
  SetUp set_up_{*this};
  const std::function<bool(const std::string&)> has_lost_ = [this](const std::string& stream) {
    return set_up_.has_lost(stream);
  };
  ProgressEngine progress_;             // its thread uses the members above
  std::unique_ptr<DumpOnSignal> dump_;  // last: its thread uses the members above as well
};

}  // namespace tremula::client
