// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <list>
#include <memory>
#include <string>

#include "client/config.hpp"
#include "client/in_job/redistribution.hpp"
#include "transport/mpi/mpi_companion.hpp"
#include "transport/mpi/mpi_group_endpoint.hpp"

namespace tremula::client::in_job {

/// What stays with a communicator: how its ranks reach each other, and the plans used last.
class Job {
public:
  /// Duplicates `comm`. Collective.
  explicit Job(MPI_Comm comm)
      : endpoint_(comm), config_(common_config(endpoint_)), rings_(rings_of(endpoint_)) {}

  const transport::mpi::GroupEndpoint& endpoint() const noexcept { return endpoint_; }

  std::unique_ptr<Redistribution> make(std::span<const Update> updates) const {
    return std::make_unique<Redistribution>(updates, endpoint_.rank(), endpoint_.size(), options());
  }
  /// One of the last plans, or a new one. Good until the next call.
  Redistribution& kept(const Update& update) {
    const auto found =
        std::ranges::find_if(plans_, [&](const Kept& kept) { return kept.update == update; });
    if (found != plans_.end()) {
      plans_.splice(plans_.begin(), plans_, found);
    } else {
      plans_.emplace_front(update, *this);
      if (plans_.size() > most_plans) plans_.pop_back();
    }
    return plans_.front().redistribution;
  }
  void forget_last() { plans_.pop_front(); }
  void run(Redistribution& redistribution, std::span<const core::BytesView> from,
           std::span<const std::span<std::byte>> to) {
    core::expects(failure_.empty(), [&] {
      return "expected a communicator over which nothing has failed, found that a redistribution "
             "has: use another one; " +
             failure_;
    });
    try {
      redistribution.run(endpoint_, rings_, from, to, core::Deadline::after(config_.step_timeout));
    } catch (const std::exception& e) {
      if (redistribution.has_failed()) failure_ = e.what();  // what others have sent may still come
      throw;
    }
  }

private:
  static constexpr std::size_t most_plans = 16;
  struct Kept {
    Kept(const Update& u, const Job& job)
        : update(u),
          redistribution({&update, 1}, job.endpoint_.rank(), job.endpoint_.size(), job.options()) {}
    Update update;
    Redistribution redistribution;
  };
  index_calc::PlanOptions options() const {
    return {config_.index_algorithm, config_.validate_plans};
  }

  /// @throws core::Error on every rank if one rank cannot read its configuration
  static SessionConfig common_config(const transport::mpi::GroupEndpoint& endpoint) {
    SessionConfig config;
    std::string failure;
    try {
      config = load_session_config("");
    } catch (const core::Error& e) {
      failure = e.what();
    }
    const auto view = std::as_bytes(std::span(failure));
    for (const auto& other : endpoint.allgather({view.begin(), view.end()}))
      if (!other.empty())
        throw core::Error(core::Errc::invalid_argument,
                          {reinterpret_cast<const char*>(other.data()), other.size()});
    return config;
  }
  static NearRings rings_of(const transport::mpi::GroupEndpoint& endpoint) {
    return NearRings(endpoint.rank(), endpoint.size(),
                     RedistributionPlan::segment_bytes(endpoint.size()),
                     [&](core::Bytes mine) { return endpoint.allgather(std::move(mine)); });
  }

  transport::mpi::GroupEndpoint endpoint_;
  SessionConfig config_;
  NearRings rings_;
  std::string failure_;
  std::list<Kept> plans_;  // the one used last first
};

}  // namespace tremula::client::in_job
