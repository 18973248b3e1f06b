// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/redistribute/job_mover.hpp"
#include "client/redistribute/redistribution.hpp"
#include "client/session/config.hpp"
#include "transport/local/shared_memory.hpp"
#include "transport/mpi/group_endpoint.hpp"

namespace tremula::client::redistribute {

/// State kept with a communicator: how its ranks reach each other, and the plans used last.
class Job {
public:
  /// Duplicates the communicator and connects its ranks. Collective.
  /// @param timeout  seconds to wait for the other ranks; nullopt for the configured time
  /// @throws core::Error as transport::mpi::duplicate; invalid_argument on every rank if one rank
  /// cannot read its configuration
  explicit Job(MPI_Comm comm, std::optional<double> timeout = {})
      : Job(comm, timeout, own_config()) {}

  const transport::mpi::Group& group() const noexcept { return endpoint_.group(); }

  /// Makes a redistribution. Collective if a layout lists what its ranks own.
  std::unique_ptr<Redistribution> make(std::span<const Update> updates) {
    return std::make_unique<Redistribution>(updates, group().rank(), group().size(), options(),
                                            rings_.near_ranks(), rings_.machines(), match(updates));
  }
  /// Returns one of the last redistributions, or a new one. Valid until the next call.
  Redistribution& kept(const Update& update) {
    const auto found =
        std::ranges::find_if(plans_, [&](const Kept& kept) { return kept.update == update; });
    if (found != plans_.end() && has_lists(update)) {  // another rank's list may be a new one
      plans_.erase(found);
      return kept(update);
    }
    if (found != plans_.end()) {
      plans_.splice(plans_.begin(), plans_, found);
    } else {
      plans_.emplace_front(update, *this);
      if (plans_.size() > most_plans) plans_.pop_back();
    }
    return plans_.front().redistribution;
  }
  void forget_last() { plans_.pop_front(); }
  /// Does what a call needs before its run. If it throws, the run that other ranks may make counts
  /// on this rank as well.
  template <class Prepare>
  decltype(auto) prepare(Prepare&& prepare) {
    try {
      return prepare();
    } catch (...) {
      rings_.begin_run();
      throw;
    }
  }
  void run(Redistribution& redistribution, std::span<const ConstMemoryView> from,
           std::span<const MemoryView> to) {
    expect_usable();
    try {
      redistribution.run(endpoint_, rings_, chunks_, from, to,
                         core::Deadline::after(config_.step_timeout));
    } catch (const std::exception& e) {
      if (redistribution.has_failed()) {  // what others have sent may still come
        failure_ = e.what();
        endpoint_.give_up();
      }
      throw;
    }
  }

private:
  static constexpr std::size_t most_plans = 16;
  struct Kept {
    Kept(const Update& u, Job& job)
        : update(u),
          redistribution({&update, 1}, job.group().rank(), job.group().size(), job.options(),
                         job.rings_.near_ranks(), job.rings_.machines(), job.match({&u, 1})) {}
    Update update;
    Redistribution redistribution;
  };
  /// Shape: [pass][update]; empty if none has lists.
  std::vector<std::vector<ListedUpdate>> match(std::span<const Update> updates) {
    if (std::ranges::none_of(updates, has_lists)) return {};
    expect_usable();
    RankCount passes = 1;
    for (const Update& update : updates) passes = std::max(passes, pass_count(update));
    try {
      std::vector<std::vector<ListedUpdate>> listed;
      for (RankCount pass = 0; pass < passes; ++pass) {
        std::vector<Update> of_pass;
        for (const Update& update : updates) of_pass.push_back(in_pass(update, pass));
        listed.push_back(match_updates(of_pass, ++matches_, endpoint_, group().rank(),
                                       group().size(), core::Deadline::after(config_.timeout)));
      }
      return listed;
    } catch (const MatchFailed& e) {  // what others have sent may still come
      failure_ = e.what();
      endpoint_.give_up();
      throw;
    }
  }
  void expect_usable() const {
    core::expects(failure_.empty(), [&] {
      return "expected a communicator over which nothing has failed, found that a redistribution "
             "has: use another communicator; " +
             failure_;
    });
  }
  index_calc::PlanOptions options() const {
    return {config_.index_algorithm, config_.validate_plans};
  }

  /// The configuration as this rank reads it, and why it cannot, "" if it can.
  using OwnConfig = std::pair<SessionConfig, std::string>;
  static OwnConfig own_config() {
    try {
      return {load_session_config(""), ""};
    } catch (const core::Error& e) {
      return {SessionConfig{}, e.what()};
    }
  }
  Job(MPI_Comm comm, std::optional<double> timeout, const OwnConfig& own)
      : endpoint_(comm, timeout.value_or(own.first.timeout)), config_(own.first) {
    const auto allgather = [&](core::Bytes mine) {
      return endpoint_.group().allgather_at_once(std::move(mine));
    };
    // One gathering for both: whether a rank has failed, and why or else on which machine it is.
    std::string text = own.second;
    bool has_failed = !text.empty();
    if (!has_failed) try {
        text = transport::local::host_identity();
      } catch (const std::exception& e) {
        has_failed = true;
        text = e.what();
      }
    const auto bytes = std::as_bytes(std::span(text));
    core::Bytes mine{std::byte{has_failed}};
    mine.insert(mine.end(), bytes.begin(), bytes.end());
    const auto machines = allgather(std::move(mine));
    for (const auto& other : machines) {
      if (other.empty())
        throw core::Error(core::Errc::protocol,
                          "expected every rank to name its machine; found one that did not");
      if (other[0] != std::byte{0})
        throw core::Error(core::Errc::invalid_argument,
                          {reinterpret_cast<const char*>(other.data()) + 1, other.size() - 1});
    }
    rings_ =
        NearRings(group().rank(), RedistributionPlan::longest_chunk_bytes, machines, allgather);
  }

  transport::mpi::GroupEndpoint endpoint_;
  SessionConfig config_;
  NearRings rings_;
  ChunkPool chunks_;
  std::string failure_;
  std::uint64_t matches_ = 0;  // of lists; the same on all ranks
  std::list<Kept> plans_;      // the one used last first
};

}  // namespace tremula::client::redistribute
