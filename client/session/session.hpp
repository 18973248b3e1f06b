// SPDX-License-Identifier: Apache-2.0
#pragma once
// One rank's membership of a group, joined to a server: what every stream of the rank shares.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/exchange/memory/copy_threads.hpp"
#include "client/session/agreement.hpp"
#include "client/session/config.hpp"
#include "client/session/control.hpp"
#include "client/session/progress.hpp"
#include "client/session/wait.hpp"
#include "core/error.hpp"
#include "index_calc/plan/plan_cache.hpp"
#include "transport/group.hpp"
#include "transport/transport.hpp"

namespace tremula::client {

class Session {
public:
  /// A group that has no MPI: its ranks meet through the server, and then agree over a transport.
  /// Collective.
  /// @param rank, size  both -1: RANK and WORLD_SIZE from the environment
  static std::unique_ptr<Session> open(const std::string& group, int rank, int size,
                                       const SessionConfig& config);

  /// A group with a channel and transports of its own (MPI, or a test's). Collective over
  /// `channel`.
  static std::unique_ptr<Session> open(
      const std::string& group, std::unique_ptr<transport::Group> channel,
      std::vector<std::unique_ptr<transport::Transport>> transports, const SessionConfig& config);

  /// The transports that need no launcher, as `config.transport` says: local, and ofi where the
  /// build has it; with auto each pair of ranks goes the way that it has.
  /// @throws core::Error unsupported if the one asked for is not in this build
  static std::vector<std::unique_ptr<transport::Transport>> network_transports(
      const SessionConfig& config);

  const std::string& name() const noexcept { return name_; }
  core::Rank rank() const noexcept { return group_->rank(); }
  core::Rank size() const noexcept { return group_->size(); }
  const SessionConfig& config() const noexcept { return config_; }  ///< with the host's name
  const core::Log& log() const noexcept { return *log_; }
  Control& control() noexcept { return *control_; }
  transport::Group& group() noexcept { return *group_; }
  core::Deadline deadline() const {
    return core::Deadline::after(config_.timeout);
  }  ///< for set-up
  core::Deadline step_deadline() const {
    return core::Deadline::after(config_.step_timeout);
  }  ///< for a step

  /// What every rank of the group can talk over, best first. Fixed when the session is opened.
  const std::vector<wire::Offer>& offers() const noexcept { return offers_; }
  /// This rank's end of a new link over `offer`, one of offers().
  std::unique_ptr<transport::Endpoint> open_endpoint(const std::string& offer,
                                                     transport::Side side);

  /// Of all streams of this rank.
  index_calc::PlanCache& plans() noexcept { return plans_; }
  CopyThreads& copy_threads() noexcept { return copy_threads_; }
  /// Moves all streams of this rank.
  ProgressEngine& progress() noexcept { return progress_; }

  /// Repeats `poll` until it is true, and moves all streams meanwhile.
  /// @return false if the deadline has passed before
  template <class Poll>
  bool waits_for(Poll&& poll, core::Deadline deadline) {
    const auto moving_poll = [&] {
      progress_.advance();
      return poll();
    };
    return wait_for(moving_poll, deadline, [] {}).second;
  }

  /// Every call of a stream in which ranks agree says first which one it is: ranks that are in
  /// different ones are told.
  void begin_call(std::string_view name, std::string_view stream, std::uint64_t step) {
    call_.name = name, call_.stream = stream, call_.step = step;
  }
  /// Collective; see agreement.hpp.
  std::vector<core::Bytes> allgather(core::Bytes bytes, core::Deadline deadline);
  core::Bytes run_on_root(const std::function<core::Bytes()>& work, core::Deadline deadline);
  void run_collectively(const std::function<void()>& work, core::Deadline deadline);
  void run_collectively(const std::function<void()>& work) { run_collectively(work, deadline()); }

private:
  Session(std::string name, const SessionConfig& config);
  void make_log(core::Rank rank);
  std::unique_ptr<Control> join(core::Rank rank, core::Rank size, const std::string& job);
  void agree_on_offers();
  /// While the ranks of this group wait for each other, what each has under way moves on.
  void watch_own_group();
  /// From here on the ranks of a group without MPI agree without the server.
  void link_own_ranks();

  std::string name_;
  SessionConfig config_;
  std::unique_ptr<core::Log> log_;
  std::unique_ptr<Control> control_;
  std::vector<std::unique_ptr<transport::Transport>> transports_;
  std::unique_ptr<transport::Group> group_;  // after what it may talk through
  CollectiveCall call_;                      // the latest one
  std::vector<wire::Offer> offers_;
  index_calc::PlanCache plans_;
  CopyThreads copy_threads_;
  ProgressEngine progress_;  // last: its thread uses the above
};

}  // namespace tremula::client
